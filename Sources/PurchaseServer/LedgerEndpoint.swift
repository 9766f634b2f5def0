// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import PurchaseLedger
import ReceiptCoding

/// Our own API, for one app: what `/v1/…` answers.
struct LedgerEndpoint: Sendable {
    /// The longest body of a submission, in bytes: one receipt of the largest size as base64, as for verifyReceipt.
    static let bodyLimit = Limits.verifyReceiptRequest

    /// The most documents in one submission by a server key: a customer's whole history, many times over.
    static let documentLimit = 1000

    /// The most documents in one submission by a client key. Each costs signature checks, and a device presents what StoreKit
    /// has for it now: a few transactions, or one receipt.
    static let clientDocumentLimit = 20

    /// The longest id of a customer, in bytes: any identifier that apps have.
    static let customerIdLimit = 256

    /// The most items on a page.
    static let pageLimit = 500

    let ledger: Ledger
    let verifier: AppStoreVerifier
    let scope: LedgerScope
    /// What the key of the request may do.
    let role: APIKey.Role
    var now: Timestamp

    // MARK: Customers

    /// Everything about a customer; `nil` where it is not known.
    func customer(_ id: String) async throws -> [UInt8]? {
        guard let answer = try await read(id) else { return nil }
        var json = JSONWriter()
        json.customer(answer)
        return json.bytes
    }

    /// One entitlement of a customer, which is an answer also where there is none: `isActive` is false then.
    func entitlement(_ name: String, of id: String) async throws -> [UInt8]? {
        guard let holdings = try await ledger.holdings(of: id, in: scope, at: now) else { return nil }
        let entitlement = holdings.entitlements.first { $0.name == name }
        var json = JSONWriter()
        json.object { json in
            json.member("name", name)
            json.flag("isActive", entitlement != nil)
            json.instant("asOf", now)
            json.instant("nextChange", holdings.nextChange)
            if let entitlement {
                json.name("entitlement")
                json.entitlement(entitlement)
            }
        }
        return json.bytes
    }

    /// What is known of a customer, as the key may see it; `nil` if the customer is not known.
    private func read(_ id: String) async throws -> CustomerAnswer? {
        let (ledger, scope, role, now) = (ledger, scope, role, now)
        return try await ledger.storage.read { reader in
            guard let customer = try reader.customer(id.asAccount, of: scope.bundleId) else { return nil }
            // Not in the order in which they were linked, which is that of arrival.
            let keys = try reader.chains(of: customer, in: scope.environment).sorted {
                $0.originalTransactionId < $1.originalTransactionId
            }
            let chains = try keys.compactMap { try reader.chain($0) }
            var answer = CustomerAnswer(
                id: id, ids: try reader.ids(of: customer), scope: scope, now: now,
                holdings: Holdings(chains, catalogue: ledger.catalogue(scope), at: now),
                purchases: chains.flatMap(\.purchases))
            for consumable in answer.purchases where consumable.type == .consumable {
                let key = ChainKey(consumable.originalTransactionId, in: scope)
                if try !reader.ownerChanges(of: key).isEmpty { answer.transferred.insert(consumable.transactionId) }
            }
            return role == .client ? answer.forClient : answer
        }
    }

    /// Takes in what a customer presents: `{"documents": [signed transaction or base64 app receipt, …]}`, or one as
    /// `{"document": …}`. All of it is verified before any of it is recorded.
    func submit(_ body: [UInt8], for id: String) async throws -> [UInt8] {
        var evidence: [Evidence] = []
        var (texts, names) = (Set<String>(), Set<EvidenceID>())
        for (index, document) in try documents(in: body).enumerated() where texts.insert(document).inserted {
            do {
                let verified = try await verify(document)
                if names.insert(verified.id).inserted { evidence.append(verified) }
            } catch {
                var refusal = Refusal(error)
                refusal.message = "documents[\(index)]: \(refusal.message)"
                throw refusal
            }
        }
        // A server key may change owners as often as it needs to: to put right what a client key did.
        let recorded = try await ledger.record(evidence, claimedBy: id, limitsClaims: role == .client, at: now)
        guard let answer = try await read(id) else { throw Refusal.notFound("The customer") }
        var json = JSONWriter()
        json.object { json in
            json.member("recorded", number: recorded.new)
            json.member("alreadyKnown", number: recorded.known)
            json.name("keptByOthers")
            json.array(recorded.kept.map(\.originalTransactionId).sorted()) { $0.string($1) }
            json.name("tooManyClaims")
            json.array(recorded.tooManyClaims.sorted { $0.key.originalTransactionId < $1.key.originalTransactionId }) {
                json, claim in
                json.object { json in
                    json.member("originalTransactionId", claim.key.originalTransactionId)
                    json.instant("retryAt", claim.value)
                }
            }
            json.name("customer")
            json.customer(answer)
        }
        return json.bytes
    }

    private func documents(in body: [UInt8]) throws(Refusal) -> [String] {
        guard let json = try? JSONValue(parsing: body) else { throw .invalid("The body is no JSON.") }
        if let one = json["document"]?.string { return [one] }
        guard let list = json["documents"]?.array, !list.isEmpty else {
            throw .invalid("The body is neither {\"document\": …} nor {\"documents\": […]} with at least one.")
        }
        let limit = role == .client ? Self.clientDocumentLimit : Self.documentLimit
        guard list.count <= limit else { throw .invalid("At most \(limit) documents at once with a \(role) key.") }
        let texts = list.compactMap(\.string)
        guard texts.count == list.count else { throw .invalid("Each document is a text.") }
        return texts
    }

    /// A signed transaction is told from a base64 receipt by its dots.
    private func verify(_ document: String) async throws(VerificationError) -> Evidence {
        if document.utf8.contains(UInt8(ascii: ".")) {
            let transaction = try await verifier.verify(
                document.utf8, as: JWSTransactionDecodedPayload.self, at: now)
            if let evidence = Evidence(transaction) { return evidence }
        } else if let bytes = Base64.decode(document.utf8) {
            if let evidence = Evidence(try await verifier.verify(receipt: bytes, at: now)) { return evidence }
        }
        throw VerificationError(.malformed, "Neither a signed transaction nor an app receipt as base64.")
    }

    /// `{"alias": …}`: another id of the same customer.
    func addAlias(_ body: [UInt8], to id: String) async throws -> [UInt8]? {
        let alias = (try? JSONValue(parsing: body))?["alias"]?.string ?? ""
        guard !alias.isEmpty, alias.utf8.count <= Self.customerIdLimit else {
            throw Refusal.invalid("The body is not {\"alias\": …} with 1 to \(Self.customerIdLimit) bytes.")
        }
        guard try await ledger.addAlias(alias, to: id, in: scope, at: now) else { return nil }
        return try await customer(id)
    }

    /// Forgets a customer, and says what that did.
    func delete(_ id: String) async throws -> [UInt8]? {
        guard let deleted = try await ledger.delete(id, in: scope, at: now) else { return nil }
        var json = JSONWriter()
        json.object { json in
            json.flag("deleted", true)
            json.member("unlinkedPurchases", number: deleted.purchases)
            json.member("forgottenDocuments", number: deleted.forgottenDocuments)
            json.member("keptDocuments", number: deleted.keptDocuments)
        }
        return json.bytes
    }

    // MARK: Chains and transactions

    /// A subscription with all its periods; `nil` where it is not known.
    func subscription(_ originalTransactionId: String) async throws -> [UInt8]? {
        let key = ChainKey(originalTransactionId, in: scope)
        guard let chain = try await ledger.storage.read({ try $0.chain(key) }), let state = chain.subscription(at: now)
        else { return nil }
        var json = JSONWriter()
        json.object { json in
            json.name("subscription")
            json.subscription(originalTransactionId, state)
            json.name("transactions")
            json.array(chain.purchases) { $0.purchase($1) }
            json.name("renewalInfo")
            if let renewal = chain.renewal {
                json.object { json in
                    json.member("id", "\(renewal.provenance)")
                    json.instant("signedDate", renewal.provenance.signedDate)
                }
            } else {
                json.null()
            }
        }
        return json.bytes
    }

    /// A transaction; `nil` where it is not known.
    func transaction(_ transactionId: String) async throws -> [UInt8]? {
        let key = TransactionKey(transactionId, in: scope)
        let fact = try await ledger.storage.read { reader in
            try reader.chainKey(of: key).flatMap { try reader.chain($0)?.transactions[transactionId] }
        }
        guard let statement = fact?.current else { return nil }
        var json = JSONWriter()
        json.purchase(statement)
        return json.bytes
    }

    /// A signed document as it arrived, by the name that answers give for their evidence; `nil` where it is not known, or is
    /// another app's.
    func evidence(_ id: String) async throws -> [UInt8]? {
        guard let source = Provenance(id) else {
            throw Refusal.invalid(
                "A document's name is as answers give it: when it was signed, a hyphen and 64 hexadecimal digits.")
        }
        guard let found = try await ledger.storage.read({ try $0.document(source) }),
            found.scope.bundleId == scope.bundleId
        else { return nil }
        var json = JSONWriter()
        json.object { json in
            json.member("id", "\(source)")
            json.member("kind", found.kind.rawValue)
            json.member("environment", found.scope.environment.rawValue)
            json.instant("signedDate", found.signedDate)
            json.instant("receivedAt", found.receivedAt)
            json.member("notificationType", found.notification?.type)
            json.member("subtype", found.notification?.subtype)
            json.member("notificationUUID", found.notification?.uuid)
            // A receipt as everybody sends them, a token as the text that it is.
            json.member(
                "document",
                found.kind == .receipt ? Base64.encode(found.document) : String(decoding: found.document, as: UTF8.self)
            )
        }
        return json.bytes
    }

    // MARK: Events

    /// How many pages of other apps' events are passed over for one answer.
    private static let passedOver = 20

    /// A page of events after a cursor.
    func events(after cursor: Int64, limit: Int) async throws -> [UInt8] {
        let limit = min(max(1, limit), Self.pageLimit)
        let (events, customers, next) = try await ledger.storage.read { reader in
            let (events, next) = try page(of: reader, after: cursor, limit)
            var customers: [Customer: String] = [:]
            for customer in Set(events.compactMap(\.customer)) {
                customers[customer] = try reader.ids(of: customer).first
            }
            return (events, customers, next)
        }
        var json = JSONWriter()
        json.object { json in
            json.name("items")
            json.array(events) { json, event in
                json.event(event, customer: event.customer.flatMap { customers[$0] })
            }
            json.member("nextCursor", "\(next)")
        }
        return json.bytes
    }

    /// This app's events after a cursor, and the cursor behind them: it passes over another app's, which are none of this key's
    /// business.
    private func page(
        of reader: any LedgerReader, after cursor: Int64, _ limit: Int
    ) throws -> ([LedgerEvent], next: Int64) {
        var (events, next) = ([LedgerEvent](), cursor)
        for _ in 0..<Self.passedOver where events.count < limit {
            let page = try reader.events(after: next, limit: Self.pageLimit)
            let own = page.filter { $0.scope.bundleId == scope.bundleId }.prefix(limit - events.count)
            events += own
            next = (events.count == limit ? own.last : page.last)?.sequence ?? next
            if page.count < Self.pageLimit { break }
        }
        return (events, next)
    }
}
