// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator

/// The stored state of a simulator between two runs, so that a ledger stays usable: its keys, and the counters that
/// keep identifiers and times unique.
///
/// Customers, purchases and notifications are not stored.
struct KeptSimulator: Sendable {
    var keys: SimulatorKeys
    /// The seed of the identifiers, together with ``run``.
    var seed: UInt64
    /// The number of earlier runs.
    var run: UInt64 = 0
    /// The latest time of the simulator. No signature has a later time.
    var time: Timestamp

    /// The allowed run numbers: a hundred runs a day for a lifetime. Higher numbers would lead to identifiers outside
    /// their range.
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
    /// - Throws: ``SimulatorFolderError``, without any part of the keys.
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
