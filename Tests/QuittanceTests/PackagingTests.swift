// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestData
import TestProcess
import Testing

/// A program in `scripts/` that makes a part of the packages, or checks it. They are written in Python.
enum PackagingScript {
    private static let folder = Project.root.appendingPathComponent("scripts")

    static let isRunnable = has("python3")

    static func has(_ program: String) -> Bool { (try? TestProcess.run(["which", program]).status) == 0 }

    static func run(_ name: String, _ arguments: String..., input: String = "") throws -> TestProcess.Outcome {
        try TestProcess.run([folder.appending(path: name).path] + arguments, input: Array(input.utf8))
    }

    /// Runs a test with a new folder, which is removed afterwards.
    static func inFolder(_ body: (URL) throws -> Void) throws {
        let folder = try TemporaryFolder()
        try body(folder.url)
    }
}

/// Tests the version of the program, and the scripts of `make dist` and `make package`.
@Suite struct PackagingTests {
    @Test func `the version is a number, with a commit if the build named it`() throws {
        let outcome = try CommandLineTests.run(["--version"])
        #expect(outcome.status == 0)
        #expect(outcome.output.contains(/^quittance \d+\.\d+\.\d+( \([0-9a-f]{12}( with changes)?\))?\n$/))
    }

    @Test(
        .takesLong, .enabled(if: PackagingScript.isRunnable, "needs python3"),
        arguments: [("LICENSE.txt", true), ("COPYING", true), ("NOTICE.txt", false), ("README.md", false)])
    func `a dependency without a licence is refused`(file: String, isAccepted: Bool) throws {
        try PackagingScript.inFolder { folder in
            let checkout = folder.appending(path: "checkouts/swift-example")
            try FileManager.default.createDirectory(at: checkout, withIntermediateDirectories: true)
            try Data("Anybody may copy it.".utf8).write(to: checkout.appending(path: file))
            let state = """
                {"object": {"dependencies": [{
                    "packageRef": {"identity": "swift-example", "location": "https://example.com/swift-example"},
                    "state": {"checkoutState": {"version": "1.0.0"}}, "subpath": "swift-example"}]}}
                """
            try Data(state.utf8).write(to: folder.appending(path: "workspace-state.json"))
            let outcome = try PackagingScript.run("licences", folder.path, folder.appending(path: "licences").path)
            let isRefused = outcome.status == 1 && outcome.error.contains("swift-example: no licence was found")
            #expect(isRefused != isAccepted, "\(outcome)")
            guard isAccepted else { return }
            let list = try String(contentsOf: folder.appending(path: "licences/README"), encoding: .utf8)
            #expect(list.contains("swift-example") && list.contains("Foundation"))
        }
    }

    @Test(
        .takesLong, .enabled(if: PackagingScript.isRunnable, "needs python3"),
        arguments: [
            ("$ echo 1; echo 2\n1\n2", true), ("$ echo 1; echo 2\n1", false), ("$ echo 1\n1\n2", false),
            ("$ echo 1; echo 2\n1\n…", true), ("$ echo '{\"id\": 2000000123}'\n{\"id\": 2000000456}", true),
            ("$ echo '{\"isActive\":false}'\n{\"isActive\":true}", false), ("$ echo 21002\n21003", false),
            ("$ echo now 2026-01-01T00:00:00Z\nnow 2025-12-31T10:00:00.5Z", true), ("$ true", true),
            ("$ cd /\n$ pwd\n/", true), ("$ echo key qt_abc\nkey qt_def\n$ echo use qt_def\nuse qt_def", true),
            ("$ echo a \\\n    b\na b", true),
        ])
    func `a page is refused if a command prints something else than it says`(block: String, isRight: Bool) throws {
        try PackagingScript.inFolder { folder in
            let page = folder.appending(path: "page.md")
            let text = "# Page\n\n## Here\n\n```\n\(block)\n```\n\n## There\n\n```\n$ false\nx\n```\n"
            try Data(text.utf8).write(to: page)
            let outcome = try PackagingScript.run("follow", page.path, "Here", "sh")
            #expect((outcome.status == 0) == isRight, "\(outcome)")
        }
    }
}
