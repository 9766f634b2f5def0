// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestProcess
import Testing

/// Tests the scripts that build and test, with packages of a single file and with outputs written by hand.
@Suite struct BuildScriptTests {
    /// Runs a script of bash in a folder.
    private static func run(
        _ script: String, _ variables: [String: String] = [:], in folder: URL = Repository.root
    ) throws -> (status: Int32, output: String) {
        let environment = TestProcess.environment.merging(variables) { $1 }
        let outcome = try TestProcess.run(["bash", "-c", script], in: folder, environment: environment)
        return (outcome.status, outcome.output + outcome.error)
    }

    private static func temporaryFolder() throws -> URL {
        let folder = FileManager.default.temporaryDirectory.appending(path: "quittance-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        return folder
    }

    /// Writes a package with a failing test and our scripts, as a clone of a small project.
    private static func clone(named name: String, in folder: URL, failing text: String) throws -> URL {
        let clone = folder.appending(path: name)
        try FileManager.default.createDirectory(
            at: clone.appending(path: "Tests/ATests"), withIntermediateDirectories: true)
        for path in ["scripts", "Tests/XCTMain.swift"] {
            try FileManager.default.copyItem(
                at: Repository.root.appending(path: path), to: clone.appending(path: path))
        }
        let files = [
            "Package.swift": """
            // swift-tools-version:6.1
            import PackageDescription
            let package = Package(name: "a", targets: [.testTarget(name: "ATests")])
            """,
            "Package.resolved": #"{"pins": [], "version": 3}"#,
            "Tests/ATests/ATests.swift": """
            import Testing
            @Test func `a test that fails`() { #expect(#filePath == "\(text)") }
            """,
        ]
        for (path, text) in files { try Data(text.utf8).write(to: clone.appending(path: path)) }
        return clone
    }

    /// Runs the tests of a clone while another build holds the folder's lock, until they wait for it.
    private static let waiting = """
        exec 9>"$LOCK"
        flock 9
        scripts/test >output 2>&1 9>&- &
        until grep -qs 'Waiting until another build' output || ! kill -0 $!; do sleep 0.1; done
        exec 9>&-
        status=0
        wait $! || status=$?
        cat output
        exit "$status"
        """

    @Test func `clones build in the same folder, one after another, and each names its own files`() throws {
        let folder = try Self.temporaryFolder()
        defer { try? FileManager.default.removeItem(at: folder) }
        let cache = folder.appending(path: "cache")
        let clones = try ["one", "two"].map { try Self.clone(named: $0, in: folder, failing: $0) }
        var outcomes = [try Self.run("scripts/test", ["QUITTANCE_BUILD_CACHE": cache.path], in: clones[0])]
        func builds() throws -> [String] {
            try FileManager.default.contentsOfDirectory(atPath: cache.path).filter { $0.hasPrefix("debug-") }.sorted()
        }
        let build = try #require(try builds().first)
        let lock = cache.appending(path: "\(build).lock").path
        outcomes.append(
            try Self.run(Self.waiting, ["QUITTANCE_BUILD_CACHE": cache.path, "LOCK": lock], in: clones[1]))
        #expect(try builds() == [build, "\(build).lock"])
        for (outcome, (own, other)) in zip(outcomes, [(clones[0], clones[1]), (clones[1], clones[0])]) {
            #expect(outcome.status == 1)
            #expect(outcome.output.contains("\(own.path)/Tests/ATests/ATests.swift"), "\(outcome.output)")
            #expect(!outcome.output.contains(other.path), "\(outcome.output)")
        }
    }

    @Test func `a folder with other files is refused as a cache, and keeps them`() throws {
        let folder = try Self.temporaryFolder()
        defer { try? FileManager.default.removeItem(at: folder) }
        try Data("old".utf8).write(to: folder.appending(path: "release-notes"))
        let cache = ["QUITTANCE_BUILD_CACHE": folder.path]
        for script in [". scripts/builds; use_folder debug . .build", "make clean-cache"] {
            let outcome = try Self.run(script, cache)
            #expect(outcome.status != 0 && outcome.output.contains("which has other files"), "\(outcome.output)")
        }
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path) == ["release-notes"])
    }

    /// Compiles a file of another package and one of a clone in two folders, as SwiftPM does in debug and in release.
    private static let compiling = """
        set -eu
        cache=$FOLDER
        echo 'int answer(void) { return 1; }' >"$FOLDER/own.c"
        for build in "debug -O0 -DDEBUG=1" "release -O2"; do
            set -- $build
            folder=$FOLDER/$1
            shift
            mkdir -p "$folder/checkouts/a"
            use_ccache
            cd "$folder/checkouts/a"
            echo '#define ANSWER 2' >a.h
            printf '%s\n' '#include "a.h"' '#ifdef __OPTIMIZE__' 'int answer(void) { return ANSWER; }' '#endif' >a.c
            "$compiler" "$@" -MD -MT dependencies -MF "$folder/a.d" -c "$PWD/a.c" -o "$folder/a.o"
            "$compiler" "$@" -c "$FOLDER/own.c" -o "$folder/own.o"
            grep -c " $folder/checkouts/a/a.h" "$folder/a.d"
        done
        cmp "$FOLDER/debug/a.o" "$FOLDER/release/a.o"
        cmp -s "$FOLDER/debug/own.o" "$FOLDER/release/own.o" || echo "own C differs"
        nm "$FOLDER/debug/a.o" | grep -c answer
        CCACHE_DIR=$cache/c-objects ccache --print-stats | grep -E '^(direct_cache_hit|cache_miss)' | sort
        """

    @Test(.enabled(if: (try? run("ccache --version"))?.status == 0, "ccache is missing: apt-get install ccache"))
    func `C of other packages is compiled once for debug and release, optimised, and knows its headers by path`() throws
    {
        let folder = try Self.temporaryFolder()
        defer { try? FileManager.default.removeItem(at: folder) }
        let outcome = try Self.run(
            ". scripts/builds; \(Self.compiling)",
            ["FOLDER": folder.path, "CCACHE_DISABLE": "1", "CCACHE_COMPILER": "no"])
        let expected = ["1", "1", "own C differs", "1", "cache_miss\t1", "direct_cache_hit\t1"]
        #expect(outcome.status == 0 && outcome.output.split(separator: "\n").map(String.init) == expected, "\(outcome)")
    }

    @Test func `CI checks all that git knows in one folder, and touches only what differs`() throws {
        let folder = try Self.temporaryFolder()
        defer { try? FileManager.default.removeItem(at: folder) }
        let script = """
            set -e
            cd "$FOLDER"
            mkdir shared
            for clone in a b; do
                git init -q $clone
                cd $clone
                echo same >same
                echo $clone >other
                git add .
                git -c user.name=x -c user.email=x@example commit -qm x
                echo changed >>other
                echo unknown >unknown
                (take_tree "$FOLDER/source" && stat -c %Y:%i same >>"$FOLDER/seen" && cat other && ls -a &&
                    ls -d ../shared/. && touch .build-kept untracked)
                cd ..
            done
            sort -u seen | wc -l
            """
        let outcome = try Self.run(
            ". scripts/builds; \(script)", ["FOLDER": folder.path, "GIT_CONFIG_GLOBAL": "/dev/null"])
        let tree = [".", "..", ".git", "other", "same", "../shared/."]
        let expected =
            ["a", "changed"] + tree + ["b", "changed", ".", "..", ".build-kept"] + tree.dropFirst(2) + ["1"]
        #expect(outcome.status == 0)
        #expect(outcome.output.split(separator: "\n").map { $0.trimmingCharacters(in: .whitespaces) } == expected)
    }

    @Test func `the limits of CI add up to less than its time`() throws {
        let text = try String(contentsOf: Repository.root.appending(path: ".ci/run"), encoding: .utf8)
        let minutes = text.matches(#"_MINUTES=(\d+)"#).compactMap { Int($0[1]) }
        #expect(minutes.count >= 8 && minutes.reduce(0, +) < 85)
    }

    @Test func `a command that never ends is ended at its limit, with all that it started, and is named`() throws {
        let folder = try Self.temporaryFolder()
        defer { try? FileManager.default.removeItem(at: folder) }
        let script = """
            . scripts/builds
            status=0
            limited 0.05 "The suite" bash -c 'sleep 4711 & echo $! >"$0"; wait' "$FOLDER/child" || status=$?
            # Ends as soon as the child has ended.
            while grep -aqs sleep "/proc/$(cat "$FOLDER/child")/cmdline"; do sleep 0.1; done
            exit "$status"
            """
        let outcome = try Self.run(script, ["FOLDER": folder.path])
        #expect(outcome.status == 124)
        #expect(outcome.output.contains("error: The suite took longer than its limit, 0.05 minutes"))
        #expect(outcome.output.contains("    bash -c sleep 4711"))
    }

    @Test(arguments: [("true", 0), ("exit 7", 7), ("sleep 0", 0)])
    func `a command within its limit has its own status`(command: String, status: Int32) throws {
        let outcome = try Self.run(". scripts/builds; limited 60 Name bash -c '\(command)'")
        #expect(outcome.status == status && outcome.output.isEmpty, "\(outcome.output)")
    }

    /// Lines as Swift Testing prints them, one of them behind an output without an end of line.
    private static let log = """
        ◇ Test run started.
        ◇ Test "skipped, then passed" started.
        ◇ Test "hangs" started.
        ◇ Test plain() started.
        ◇ Test "fails" started.
        ◇ Test case passing 1 argument a → 1 to "fails" started.
        ➜ Test "needs a thing" skipped: "there is no thing"
        ➜ Test "needs it too" skipped: "there is no thing"
        ◇ Test case passing 1 argument a → "✔ Test "skipped, then passed" with 2 test cases passed after 0.25 seconds.
        ✔ Test plain() passed after 1.500 seconds.
        ✘ Test "fails" recorded an issue at ATests.swift:1:1: Expectation failed
        ✘ Test "fails" failed after 0.125 seconds with 1 issue.
        """

    @Test(arguments: [0, 1])
    func `the report of a run has the slowest tests, the reasons of skips, and what failed or never ended`(
        status: Int
    ) throws {
        let folder = try Self.temporaryFolder()
        defer { try? FileManager.default.removeItem(at: folder) }
        try Data(Self.log.utf8).write(to: folder.appending(path: "log"))
        let report = try Self.run("scripts/test-report '\(folder.path)/log' \(status)").output
        #expect(report.contains("    1.500 s  plain()\n    0.125 s  \"fails\"\n"), "\(report)")
        #expect(report.contains("2     \"there is no thing\""))
        let failed = "Failed:\n✘ Test \"fails\" recorded an issue at ATests.swift:1:1: Expectation failed"
        #expect(report.contains(failed) == (status != 0))
        #expect(report.hasSuffix("These tests had begun and not ended:\n    \"hangs\"\n") == (status != 0))
    }
}
