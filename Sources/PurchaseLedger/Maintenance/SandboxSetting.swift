// SPDX-License-Identifier: Apache-2.0

// The setting that decides for which customers of an app sandbox purchases count, and the event of its change.

package import AppStoreModel

/// The setting with which a server last started. Answers follow the setting at once, so no purchase is evaluated again.
package struct SandboxSetting: Hashable, RecordValue {
    package let bundleId: String
    /// The word of the configuration: `all`, `listed` or `none`.
    package let access: String
    /// The digest of the listed customers' ids. The record has no ids, because they must go with their customers.
    private let list: [UInt8]

    package init(_ access: String, listed ids: Set<String>, of bundleId: String) {
        self.bundleId = bundleId
        self.access = access
        list = DocumentDigest(Array(ids.sorted().joined(separator: "\n").utf8)).bytes
    }

    package static let recordKind = RecordKind(rawValue: "sandboxSetting")

    package static func key(_ bundleId: String) -> RecordKey { RecordKey(recordKind, "", of: .app(bundleId)) }

    package init(_ record: LedgerRecord) throws(LedgerStorageError) {
        guard case .app(let bundleId) = record.key.owner,
            let space = record.payload.firstIndex(of: UInt8(ascii: " "))
        else { throw LedgerStorageError(unreadable: record.key) }
        self.bundleId = bundleId
        access = String(decoding: record.payload[..<space], as: UTF8.self)
        list = Array(record.payload[(space + 1)...])
    }

    /// The word, a space and the digest.
    package var record: LedgerRecord {
        LedgerRecord(Self.key(bundleId), payload: Array("\(access) ".utf8) + list)
    }
}

extension Ledger {
    /// Publishes an event for each app whose setting differs from that of the last start. The first setting of an app
    /// is only stored: its followers begin with it.
    ///
    /// The event is about the app and not about each customer: an app may have millions of customers, whose rows all
    /// stay right, and a follower knows from the setting which of them count.
    package func publish(_ settings: [SandboxSetting], at now: Timestamp) async throws {
        guard !settings.isEmpty else { return }
        let query = LedgerQuery(settings.map { .record($0.record.key) })
        let known = try await storage.load(query).records
        guard settings.contains(where: { known[$0.record.key] != $0.record }) else { return }
        try await commit(query, at: now) { draft in
            for setting in settings {
                let known = SandboxSetting(readable: draft.record(setting.record.key))
                guard known != setting else { continue }
                draft.put(setting)
                guard let known else { continue }
                let scope = LedgerScope(bundleId: setting.bundleId, environment: .sandbox)
                draft.append(.environmentsChanged, about: nil, in: scope) { content in
                    content.sandboxAccessBefore = known.access
                    content.sandboxAccessAfter = setting.access
                }
            }
        }
    }
}
