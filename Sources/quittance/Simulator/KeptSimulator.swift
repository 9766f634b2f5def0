// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator

/// The state that a simulator stores between two runs: its keys, and the counters that keep identifiers and times
/// unique. The next run can therefore continue with the same ledger.
///
/// Customers, purchases and notifications are not stored.
struct KeptSimulator: Sendable {
    var keys: SimulatorKeys
    /// Together with ``run``, the seed of the identifiers.
    var seed: UInt64
    /// The number of earlier runs.
    var run: UInt64 = 0
    /// The latest time of the simulator. No signature has a later time.
    var time: Timestamp

    /// The allowed run numbers: enough for a hundred runs a day for a lifetime. Higher numbers would lead to
    /// identifiers outside their range.
    private static let runs: ClosedRange<UInt64> = 0...3_000_000

    /// The version of the format of ``json``.
    private static let version = JSONValue.number("1")

    /// The same simulator in its next run.
    func next() throws(SimulatorFolderError) -> KeptSimulator {
        guard run < Self.runs.upperBound else {
            throw SimulatorFolderError("The simulator has had its last run: name a different folder.")
        }
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
    /// - Throws: ``SimulatorFolderError``, whose text contains no part of the keys.
    init(_ json: JSONValue) throws(SimulatorFolderError) {
        guard json["version"] == Self.version else {
            throw SimulatorFolderError("A different version of Quittance wrote the file.")
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
