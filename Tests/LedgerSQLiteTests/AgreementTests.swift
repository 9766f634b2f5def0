// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import LedgerSQLite
import PurchaseLedger
import TestData
import Testing

/// Runs the same random history in a file and in memory. The storage in memory is simple enough to be the reference.
@Suite struct AgreementTests {
    @Test(arguments: Seeds.first(6, soak: 100))
    func `a ledger in a file gives the same answers as one in memory`(seed: UInt64) async throws {
        var random = SeededRandom(seed: seed)
        let folder = try TemporaryFolder()
        let rules = LedgerRules(
            claimPolicy: ClaimPolicy.allCases.randomElement(using: &random) ?? .keep,
            keepsEvidence: seed.isMultiple(of: 5))
        let memory = MemoryLedgerStorage()
        var file = try SQLiteLedgerStorage(path: folder.path())
        var history = History()
        for step in 0...40 {
            if Int.random(in: 0..<10, using: &random) == 0 {
                try file.close()
                file = try SQLiteLedgerStorage(path: folder.path())
            }
            let action = history.next(&random)
            let expected = try await action(Ledger(storage: memory, rules: rules))
            let found = try await action(Ledger(storage: file, rules: rules))
            #expect(found == expected, "seed \(seed), step \(step)")
            guard step % 5 == 0 else { continue }
            let (left, right) = (try await answers(of: file, history), try await answers(of: memory, history))
            let differing = Set(left.keys).union(right.keys).filter { left[$0] != right[$0] }
            try #require(differing == [], "seed \(seed), step \(step)")
        }
        #expect(try await !file.scanned().documents.isEmpty)
        #expect(try await file.faults() == [])
    }
}

/// All answers of a storage, keyed by question.
private func answers(of storage: some LedgerStorage, _ history: History) async throws -> [String: AnyHashable] {
    let ids = History.apps.flatMap { app in History.ids.map { CustomerID($0, of: app) } }
    var keys = ids.map(LedgerKey.customerID)
    for key in History.chains {
        keys += [.chain(key), .evidence(key)]
        keys += ((1..<9).map { "\($0)" } + [key.originalTransactionId]).map {
            .transaction(TransactionKey($0, in: key.scope))
        }
    }
    for document in history.documents + history.documents.flatMap(\.parts) {
        keys += [.document(document.provenance), .content(document.provenance)]
    }
    let snapshot = try await storage.load(LedgerQuery(keys, owners: true))
    let evidence = snapshot.evidence.mapValues { Set($0) }.filter { !$0.value.isEmpty }
    var answers: [String: AnyHashable] = [
        "chains": snapshot.chains, "transactions": snapshot.transactions, "ids": snapshot.ids,
        "customers": snapshot.customers, "names": snapshot.names, "documents": snapshot.documents, "evidence": evidence,
        "scanned documents": Set(try await storage.documents(.all, limit: 10_000)),
        "scanned chains": Set(try await storage.chains(.all, limit: 10_000)),
        "due": Set(try await storage.chains(.due(at: Timestamp(milliseconds: .max)), limit: 10_000)),
    ]
    for id in ids {
        let snapshot = try await storage.load(.holdings(of: [id], in: [.production]))
        answers["holdings of \(id)"] = snapshot.customer(id).map { snapshot.chains(of: $0.customer) }
    }
    for app in History.apps {
        let page = try await storage.events(of: app, after: nil, limit: 10_000)
        // The ids of epochs are random in a file.
        answers["events of \(app)"] = page.events.map { event in
            var event = event
            event.cursor = event.cursor?.number.map { EventCursor($0) }
            return event
        }
        answers["customers in events of \(app)"] = page.customerIds
    }
    return answers
}

/// Random changes to a ledger. It has few chains and customers, so that changes often affect the same ones: far fewer
/// than the App Store's identifiers would give. A storage reads no signatures.
private struct History {
    typealias Action = @Sendable (Ledger) async throws -> String

    static let apps = ["com.example.one", "com.example.two"]
    static let ids = ["a", "b", "c", "d\u{0}", "é"]
    static let scopes = apps.flatMap { app in
        [Environment.production, .sandbox].map { LedgerScope(bundleId: app, environment: $0) }
    }
    static let chains = scopes.flatMap { scope in (1..<4).map { ChainKey(original($0, in: scope), in: scope) } }

    /// The ids differ by environment, so that no two chains of an app have the same id.
    private static func original(_ number: Int, in scope: LedgerScope) -> String {
        "\(scope.environment.rawValue)\(number)"
    }

    private(set) var documents: [Evidence] = []
    private var now: Int64 = 1_750_000_000_000

    mutating func next(_ random: inout SeededRandom) -> Action {
        now += Int64.random(in: 0..<3_000_000, using: &random)
        let (now, scope) = (Timestamp(milliseconds: now), Self.pick(Self.scopes, &random))
        let (id, other) = (Self.pick(Self.ids, &random), Self.pick(Self.ids, &random))
        switch Int.random(in: 0..<12, using: &random) {
        case 0: return { "\(try await $0.addAlias(other, to: id, in: scope, at: now))" }
        case 1: return { "\(String(describing: try await $0.delete(id, in: scope, at: now)))" }
        case 2: return { "\(try await $0.publishDueChanges(at: now))" }
        case 3:
            let limit = Int.random(in: 0..<5, using: &random)
            return { ledger in
                // A storage may erase the apps' events in any order, so the limit covers either none of them or all.
                _ = try await ledger.eraseEvents(
                    before: now.advanced(by: .seconds(-20_000)), limit: limit == 0 ? 0 : 10_000)
                return ""
            }
        default:
            let known = documents.filter { $0.scope == scope }
            let new = (0..<Int.random(in: 0..<3, using: &random)).map { _ in document(in: scope, &random) }
            let evidence = new + known.shuffled(using: &random).prefix(Int.random(in: 0..<3, using: &random))
            documents += new
            let claimant = Bool.random(using: &random) ? id : nil
            return { ledger in
                let recorded = try await ledger.record(evidence, claimedBy: claimant, limitsClaims: true, at: now)
                return "\(recorded.new) \(recorded.known) \(recorded.kept.count) \(recorded.tooManyClaims.count)"
            }
        }
    }

    private static func pick<Value>(_ values: [Value], _ random: inout SeededRandom) -> Value {
        values[Int.random(in: values.indices, using: &random)]
    }

    private func document(in scope: LedgerScope, _ random: inout SeededRandom) -> Evidence {
        switch Int.random(in: 0..<4, using: &random) {
        case 0: return token(.transaction, in: scope, &random)
        case 1: return token(.renewalInfo, in: scope, &random)
        case 2:
            let ids = (0..<4).map { _ in transactionId(&random) }
            let originals = (0..<4).map { _ in Self.original(Int.random(in: 1..<4, using: &random), in: scope) }
            let template = ids.map { _ in statement(&random) }
            return Evidence(.receipt, bytes(&random), scope, signed(&random)) { provenance in
                let statements = zip(zip(ids, originals), template).map { names, template in
                    var statement = TransactionStatement(
                        source: .receipt, provenance: provenance, transactionId: names.0,
                        chain: names.1, productId: "p")
                    statement.type = template.type
                    (statement.purchaseDate, statement.expiresDate) = (template.purchaseDate, template.expiresDate)
                    return statement
                }
                return (statements, [])
            }
        default:
            let parts = [token(.transaction, in: scope, &random)]
            let strings = parts.map { "\"\(String(decoding: $0.document, as: UTF8.self))\"" }.joined()
            let about = Evidence.Notification(
                uuid: "u", type: Bool.random(using: &random) ? "DID_RENEW" : "ODD", subtype: nil)
            let statements = parts.flatMap(\.statements)
            return Evidence(
                .notification, Self.jws(strings + "\(UInt64.random(in: 0 ... .max, using: &random))"), scope,
                signed(&random), parts: parts, notification: about
            ) { _ in (statements, []) }
        }
    }

    private func token(_ kind: Evidence.Kind, in scope: LedgerScope, _ random: inout SeededRandom) -> Evidence {
        let original = Self.original(Int.random(in: 1..<4, using: &random), in: scope)
        let id = Bool.random(using: &random) ? original : transactionId(&random)
        let (template, willRenew) = (statement(&random), Bool.random(using: &random))
        return Evidence(kind, bytes(&random), scope, signed(&random)) { provenance in
            if kind == .renewalInfo {
                var renewal = RenewalFact(provenance: provenance, chain: original)
                (renewal.willRenew, renewal.appAccountToken) = (willRenew, template.appAccountToken)
                renewal.isInBillingRetry = !willRenew
                return ([], [renewal])
            }
            var statement = TransactionStatement(
                source: .signedTransaction, provenance: provenance, transactionId: id,
                chain: original, productId: template.productId)
            (statement.type, statement.revocation) = (template.type, template.revocation)
            (statement.purchaseDate, statement.expiresDate) = (template.purchaseDate, template.expiresDate)
            statement.appAccountToken = template.appAccountToken
            return ([statement], [])
        }
    }

    /// A statement with random content.
    private func statement(_ random: inout SeededRandom) -> TransactionStatement {
        var statement = TransactionStatement(
            source: .receipt,
            provenance: Provenance(signedDate: Timestamp(milliseconds: 0), digest: DocumentDigest([])),
            transactionId: "", chain: "", productId: Self.pick(["p", "q"], &random))
        let start = now + Int64.random(in: -20_000_000..<1000, using: &random)
        statement.type = Open(Self.pick([ProductType.autoRenewableSubscription, .consumable, .nonConsumable], &random))
        statement.purchaseDate = Timestamp(milliseconds: start)
        if statement.type?.known == .autoRenewableSubscription {
            statement.expiresDate = Timestamp(milliseconds: start + 10_000_000)
        }
        if Int.random(in: 0..<4, using: &random) == 0 {
            statement.revocation = TransactionStatement.Revocation(date: Timestamp(milliseconds: start + 5))
        }
        statement.appAccountToken = Bool.random(using: &random) ? Self.pick(Self.ids, &random) : nil
        return statement
    }

    private func transactionId(_ random: inout SeededRandom) -> String { "\(Int.random(in: 1..<9, using: &random))" }

    private func signed(_ random: inout SeededRandom) -> Timestamp? {
        Int.random(in: 0..<9, using: &random) == 0
            ? nil : Timestamp(milliseconds: now - Int64.random(in: 0..<9_000_000, using: &random))
    }

    private func bytes(_ random: inout SeededRandom) -> [UInt8] {
        Self.jws("\(UInt64.random(in: 0 ... .max, using: &random))")
    }

    /// Bytes in the form of a token.
    private static func jws(_ payload: String) -> [UInt8] {
        let header = Base64.encodeURL(Array(String(repeating: "header", count: 60).utf8)[...])
        let parts = [header, Base64.encodeURL(Array(payload.utf8)[...]), Array("AAAA".utf8)]
        return Array(parts.joined(separator: [UInt8(ascii: ".")]))
    }
}
