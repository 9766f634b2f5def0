// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

// The due work, in one read: whether any chain is due, and the due records of each lane (all records of the same kind
// and owner).

extension SQLiteLedgerSession {
    func due(in lanes: [RecordLane], at now: Timestamp, limit: Int) throws -> DueWork {
        var work = DueWork(hasDueChains: try isAny("chains WHERE nextChange <= ?", now))
        // Usually no record at all is due. Then the lanes need not be searched one by one.
        guard try isAny("records WHERE dueAt <= ?", now) else { return work }
        for lane in lanes { work.records += try due(in: lane, at: now, limit: limit) }
        return work
    }

    private func isAny(_ rows: String, _ now: Timestamp) throws -> Bool {
        try first("SELECT 1 FROM \(rows) LIMIT 1", [now.stored]) { try $0.next(Int64.self) } != nil
    }

    private func due(in lane: RecordLane, at now: Timestamp, limit: Int) throws -> [RecordKey] {
        guard let owner = try owner(lane.owner) else { return [] }
        return try all(
            "SELECT name FROM records WHERE kind = ? AND owner = ? AND dueAt <= ? ORDER BY dueAt LIMIT ?",
            [.text(lane.kind.rawValue), .integer(owner), now.stored, limit.stored]
        ) { RecordKey(lane.kind, try $0.next(), of: lane.owner) }
    }
}
