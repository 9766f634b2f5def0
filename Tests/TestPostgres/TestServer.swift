// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestProcess

/// A server of the tests' own in a temporary folder, with a shell that starts it and obeys commands.
///
/// When the tests end, however they end, the shell's input ends. Then it stops the server and removes the folder.
final class TestServer: Sendable {
    struct Failure: Error {
        var command: String
        var server: String
    }

    let folder: String
    private let process: TestProcess

    /// Starts a server.
    ///
    /// - Parameters:
    ///   - script: Starts the server in the current folder, and defines a function for each command, and `stop`. Its
    ///     `as_user` runs a program as a user who is not root.
    ///   - arguments: The arguments of the script.
    init(_ script: String, _ arguments: [String] = []) throws {
        let text = [Self.begin, script, Self.obey].joined(separator: "\n")
        let environment = TestProcess.environment.merging(
            ["TMPDIR": FileManager.default.temporaryDirectory.path]
        ) { $1 }
        process = try TestProcess(
            ["/bin/bash", "-c", text, "server-of-tests"] + arguments, environment: environment, input: .pipe,
            output: .pipe, error: .inherited)
        folder = Self.line(of: process.output)
        guard folder.hasPrefix("/") else { throw Failure(command: "start", server: "a server of the tests") }
    }

    private static let begin = #"""
        set -eu
        folder=$(mktemp -d "${TMPDIR%/}/quittance-server.XXXXXX")
        as=()
        if [ "$(id -u)" = 0 ]; then
            chown postgres "$folder"
            as=(runuser -u postgres --)
        fi
        as_user() { "${as[@]}" "$@"; }
        bin='\#(TestPostgres.programs)'
        # Who waits for the end of the tests' output does not wait for the removal of hundreds of databases.
        finish() {
            exec >/dev/null 2>&1
            cd "$folder"
            stop || true
            cd /
            rm -rf "$folder"
        }
        trap finish EXIT
        cd "$folder"
        """#

    private static let obey = #"""
        echo "$folder"
        while read -r command; do
            if "$command" >>commands.log 2>&1 </dev/null; then echo done; else echo failed; fi
        done
        """#

    private static func line(of output: FileHandle?) -> String {
        var bytes = Data()
        while bytes.last != UInt8(ascii: "\n"), let more = output?.availableData, !more.isEmpty { bytes += more }
        return String(decoding: bytes, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
    }

    /// Runs a command, and waits until it is done.
    func run(_ command: String) throws {
        try process.input?.write(contentsOf: Data("\(command)\n".utf8))
        guard Self.line(of: process.output) == "done" else { throw Failure(command: command, server: folder) }
    }
}
