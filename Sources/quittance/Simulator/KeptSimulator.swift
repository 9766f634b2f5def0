// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator

/// What a simulator keeps from one run to the next, so that a ledger goes on: its keys, and what must not come again.
///
/// Customers, purchases and notifications are not kept.
struct KeptSimulator: Sendable {
    var keys: SimulatorKeys
    /// Determines the identifiers, together with ``run``.
    var seed: UInt64
    /// How many runs there were before.
    var run: UInt64 = 0
    /// Nothing that was signed is of a later time.
    var time: Timestamp

    /// The most runs: a hundred a day for a lifetime. Identifiers of more would leave the range of their kind.
    private static let runs: ClosedRange<UInt64> = 0...3_000_000

    /// The format of ``json``.
    private static let version = JSONValue.number("1")

    /// The same simulator in its next run.
    func next() throws(SimulatorFolderError) -> KeptSimulator {
        guard run < Self.runs.upperBound else { throw SimulatorFolderError("It has had its last run: name another.") }
        var next = self
        next.run += 1
        return next
    }
}

extension KeptSimulator {
    var json: JSONValue {
        .object([
            .init("version", Self.version), .init("seed", .string("\(seed)")), .init("run", .string("\(run)")),
            .init("time", .string(time.iso8601)), .init("keys", keys.json),
        ])
    }

    /// Reads ``json``.
    ///
    /// - Throws: ``SimulatorFolderError``, without anything of the keys.
    init(_ json: JSONValue) throws(SimulatorFolderError) {
        guard json["version"] == Self.version else {
            throw SimulatorFolderError("Another version of Quittance wrote it.")
        }
        guard let seed = json["seed"]?.string.flatMap({ UInt64($0) }),
            let run = json["run"]?.string.flatMap({ UInt64($0) }), Self.runs.contains(run),
            let time = json["time"]?.string.flatMap({ Timestamp(iso8601: $0) }), let keys = json["keys"]
        else { throw SimulatorFolderError("A member is missing or damaged.") }
        do {
            self.init(keys: try SimulatorKeys(keys), seed: seed, run: run, time: time)
        } catch {
            throw SimulatorFolderError("\(error).")
        }
    }
}
