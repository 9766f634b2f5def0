// SPDX-License-Identifier: Apache-2.0

package import Foundation

/// The ledger of an older version in `Tests/OldLedger`.
package enum OldLedger {
    private static let folder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .appending(path: "OldLedger")

    /// Writes the file of the ledger.
    package static func write(to path: String) throws {
        let command = [
            "sh", "-c", #"gzip -dc "$1" >"$2""#, "sh", folder.appending(path: "ledger.sqlite.gz").path, path,
        ]
        try require(command)
    }

    /// The statements and rows that make the ledger in a database, for `psql`.
    package static func dump() throws -> String {
        try require(["gzip", "-dc", folder.appending(path: "ledger.sql.gz").path])
    }

    /// What the older version answered, as JSON.
    package static func answers() throws -> Data {
        try Data(contentsOf: folder.appending(path: "answers.json"))
    }

    @discardableResult private static func require(_ command: [String]) throws -> String {
        let outcome = try TestProcess.run(command)
        guard outcome.status == 0 else { throw CocoaError(.fileReadCorruptFile) }
        return outcome.output
    }
}
