// SPDX-License-Identifier: Apache-2.0

import Foundation
import Testing

/// Python with the packages of `Tests/requirements.txt`, which the first test that needs them installs for all suites.
package enum TestPython {
    private static let installed = Result {
        let project = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../..").standardizedFileURL
        return try TestProcess.run([project.appending(path: "scripts/python").path])
    }

    /// The path of the interpreter. Cancels the test with the reason if the packages cannot be had.
    package static func path() throws -> String {
        let outcome = try installed.get()
        guard outcome.status == 0 else { try Test.cancel("Python's packages cannot be had: \(outcome.error)") }
        return outcome.output.trimmingCharacters(in: .newlines)
    }
}
