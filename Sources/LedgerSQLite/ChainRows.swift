// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

// A chain's row as a value: its newest renewal info, what was published about it last, and what few chains have.

extension ChainRecord {
    /// As `contents` has them.
    var bindings: [Binding] {
        let renewal = chain.renewal
        return [
            .time(erasedAt), .time(lastEventAt),
            .text(successor), .text(chain.predecessors.list),
            .time(renewal?.provenance.signedDate), .octets(renewal?.provenance.evidence.bytes),
            .text(renewal?.productId), .text(renewal?.autoRenewProductId), .flag(renewal?.willRenew),
            .number(renewal?.expirationIntent?.rawValue), .flag(renewal?.isInBillingRetry),
            .time(renewal?.gracePeriodExpiresDate), .number(renewal?.priceIncreaseStatus?.rawValue),
            .text(renewal?.appAccountToken), .time(renewal?.renewalDate),
        ] + ChainState.bindings(report?.state) + [
            .flag(report?.isSubscription), .text(report?.transactionId), .time(report?.expiresDate),
            .text(report?.revoked.list), .flag(report?.isEntitling),
        ]
    }
}

extension StoredChain {
    /// Reads `chainColumns`.
    init(_ row: inout RowReader, _ key: ChainKey) throws {
        number = try row.integer()
        record = ChainRecord(key)
        record.erasedAt = try row.timeIfAny()
        record.lastEventAt = try row.timeIfAny()
        record.successor = try row.textIfAny()
        record.chain.predecessors = try row.textIfAny().map { try JSONValue.stored($0).strings } ?? []
        if let renewal = try RenewalFact(&row, key.originalTransactionId) { record.chain.merge(renewal) }
        record.report = try ChainReport(&row)
        record.ownerChanges = try row.textIfAny().map { try JSONValue.stored($0).times } ?? []
        record.owners = try row.textIfAny().map { try ChainRecord.Owner.list($0, key) } ?? []
    }
}

extension ChainRecord.Owner {
    /// Reads `number reason`, separated by commas.
    fileprivate static func list(_ text: String, _ key: ChainKey) throws -> [ChainRecord.Owner] {
        try text.utf8.split(separator: UInt8(ascii: ",")).map { owner in
            let words = owner.split(separator: UInt8(ascii: " ")).map { String(Substring($0)) }
            guard words.count == 2, let number = Int64(words[0]), let reason = LinkReason(rawValue: words[1]) else {
                throw SQLiteErrors.damaged("The ledger says that the owners of a chain are \(text)")
            }
            return ChainRecord.Owner(Customer(number: number, bundleId: key.scope.bundleId), reason)
        }
    }
}

extension RenewalFact {
    fileprivate init?(_ row: inout RowReader, _ originalTransactionId: String) throws {
        guard let provenance = try row.provenanceIfAny() else {
            row.skip(9)
            return nil
        }
        self.init(provenance: provenance, originalTransactionId: originalTransactionId)
        productId = try row.textIfAny()
        autoRenewProductId = try row.textIfAny()
        willRenew = try row.flagIfAny()
        expirationIntent = try row.numberIfAny().map(Open.init)
        isInBillingRetry = try row.flag()
        gracePeriodExpiresDate = try row.timeIfAny()
        priceIncreaseStatus = try row.numberIfAny().map(Open.init)
        appAccountToken = try row.textIfAny()
        renewalDate = try row.timeIfAny()
    }
}

extension ChainReport {
    fileprivate init?(_ row: inout RowReader) throws {
        guard let state = try ChainState(&row) else {
            row.skip(6)
            return nil
        }
        self.init(state, isSubscription: try row.flag())
        transactionId = try row.textIfAny()
        expiresDate = try row.timeIfAny()
        revoked = try row.textIfAny().map { try JSONValue.stored($0).strings } ?? []
        isEntitling = try row.flag()
        nextChange = try row.timeIfAny()
    }
}

// MARK: - JSON

// What few chains have is JSON in one column.

extension JSONValue {
    fileprivate static func stored(_ text: String) throws -> JSONValue {
        guard let value = try? JSONValue(parsing: text.utf8) else {
            throw SQLiteErrors.damaged("A row of the ledger has no JSON in the place of JSON")
        }
        return value
    }

    fileprivate var time: Timestamp? { integer.map(Timestamp.init(milliseconds:)) }

    fileprivate var times: [Timestamp] { array?.compactMap(\.time) ?? [] }

    fileprivate var strings: Set<String> { Set(array?.compactMap(\.string) ?? []) }
}

extension Set<String> {
    /// A JSON array in order, so that the same set is the same text; `nil` if it is empty, as it mostly is.
    fileprivate var list: String? { isEmpty ? nil : JSONValue.array(sorted().map { .string($0) }).compactText }
}

extension Timestamp {
    var json: JSONValue { .number("\(milliseconds)") }
}
