// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import Foundation
import Testing

@testable import AppStoreSimulator

/// What differs between runs of one simulator, and what stays.
@Suite struct RunTests {
    private static let start = Timestamp(milliseconds: 1_769_850_000_000)

    /// All identifiers of customers with purchases.
    private static func identifiers(seed: UInt64, run: UInt64, purchases: Int) throws -> Set<String> {
        var world = World(
            seed: seed, run: run, catalogue: .example(bundleId: "com.example", appAppleId: 7), now: start)
        var found: [String?] = []
        for index in 0..<10 {
            let customer = try world.addCustomer("\(index)", environment: index % 2 == 0 ? .production : .sandbox)
            found += [
                customer.appAccountToken, customer.appTransactionId, customer.device, customer.deviceVerificationID,
            ]
            try world.buy("com.example.pro.monthly", by: customer.name)
            for _ in 0..<purchases { try world.buy("com.example.coins", by: customer.name) }
            for (_, transaction) in world.history(of: customer.name) {
                // Production and the sandbox number by themselves, and no ledger mixes them.
                let environment = customer.environment.rawValue
                found += [
                    transaction.transactionId.map { "\(environment) \($0)" },
                    transaction.webOrderLineItemId.map { "line \(environment) \($0)" },
                    world.orderId(ofTransaction: transaction.transactionId ?? ""),
                ]
            }
        }
        found += world.occurrences.map(\.id)
        let all = found.compactMap(\.self)
        #expect(Set(all).count == all.count, "run \(run)")
        return Set(all)
    }

    @Test func `runs of one simulator share no identifier`() throws {
        var seen: Set<String> = []
        for run: UInt64 in [0, 1, 2, 3_000_000] {
            let new = try Self.identifiers(seed: 7, run: run, purchases: 50)
            #expect(seen.isDisjoint(with: new), "run \(run)")
            seen.formUnion(new)
        }
    }

    @Test func `two runs of 100,000 orders each have as many order ids`() {
        var ids: Set<String> = []
        for run: UInt64 in [0, 1] {
            var identifiers = Identifiers(seed: 1, run: run)
            for _ in 0..<100_000 { ids.insert(identifiers.orderId()) }
        }
        #expect(ids.count == 200_000)
        let characters = Set("0123456789ABCDEFGHJKLMNPQRSTUVWXYZ".utf8)
        #expect(ids.allSatisfy { $0.hasPrefix("M") && $0.utf8.count == 10 && $0.utf8.allSatisfy(characters.contains) })
    }

    // MARK: - Keys

    private static func kept(_ keys: SimulatorKeys) throws -> SimulatorKeys {
        try SimulatorKeys(JSONValue(parsing: keys.json.compactText.utf8))
    }

    @Test func `keys that were kept sign as before`() async throws {
        var random = SystemRandomNumberGenerator()
        let keys = SimulatorKeys(try StoreAuthority(from: Self.start), try StoreKey(using: &random))
        let kept = try Self.kept(keys)
        #expect(kept.authority.roots == keys.authority.roots)
        #expect(kept.key.id == keys.key.id && kept.key.issuer == keys.key.issuer && kept.key.pem == keys.key.pem)
        #expect(try SimulatorRoots(kept.authority) == SimulatorRoots(keys.authority))
        let roots = try keys.authority.roots.map { try TrustRoots(reading: $0) }
        let verifier = AppStoreVerifier(apps: .any, environments: [.production], roots: roots[0].union(roots[1]))
        var world = World(seed: 1, catalogue: .example(bundleId: "com.example", appAppleId: 7), now: Self.start)
        try world.addCustomer("anna")
        let id = try #require(try world.buy("com.example.lifetime", by: "anna"))
        let transaction = try #require(world.transaction(id))
        let receipt = try #require(world.receipt(of: "anna"))
        // Each signer takes its turn for half a year.
        for turn in 0..<3 {
            let date = Timestamp(milliseconds: Self.start.milliseconds + Int64(turn) * kept.authority.turn)
            let token = try WorldSigner(kept.authority).sign(transaction, at: date)
            let verified = try await verifier.verify(token.utf8, as: JWSTransactionDecodedPayload.self, at: date)
            #expect(verified.payload.transactionId == id)
            _ = try await verifier.verify(receipt: WorldSigner(kept.authority).sign(receipt, at: date), at: date)
        }
    }

    @Test(arguments: ["tokens", "receipts", "client"])
    func `damaged keys are an error that has nothing of them`(member: String) throws {
        let json = SimulatorKeys(try .fixture(), try StoreKey(seed: 1)).json
        let members = json.members ?? []
        let place = try #require(members.firstIndex { $0.name == member })
        var missing = members
        missing.remove(at: place)
        var damaged = members
        damaged[place].value = try JSONValue(
            parsing: members[place].value.compactText.replacing("\"key\":\"", with: "\"key\":\"AAAA").utf8)
        for members in [missing, damaged] {
            let error = #expect(throws: SimulatorError.self) { try SimulatorKeys(.object(members)) }
            let text = try #require(error).description
            #expect(text.count < 120 && !text.contains("AAAA"), "\(text)")
        }
    }

    @Test func `a key of another certificate is refused`() throws {
        let json = SimulatorKeys(try .fixture(), try StoreKey(seed: 1)).json
        let tokens = json["tokens"]?.array ?? []
        let mixed = JSONValue.object([
            .init("key", tokens[1]["key"] ?? .null), .init("certificates", tokens[0]["certificates"] ?? .null),
        ])
        let members = (json.members ?? []).map { $0.name == "tokens" ? .init("tokens", .array([mixed])) : $0 }
        #expect(throws: SimulatorError.self) { try SimulatorKeys(.object(members)) }
    }
}
