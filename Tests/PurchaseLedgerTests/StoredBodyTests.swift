// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import TestWorld
import Testing

/// Tests the stored form of events' bodies.
@Suite struct StoredBodyTests {
    private static let now = Timestamp(milliseconds: 1_750_000_000_000)

    private static let state = ChainState(
        status: .active, productId: "com.example.month", until: now,
        willRenew: true)

    /// A body, and the number of bytes of its stored form.
    @Test(arguments: [
        (EventContent(effectiveAt: now), 16),
        (EventContent(effectiveAt: now, detail: "appAccountToken", after: state), 50),
        (
            EventContent(
                effectiveAt: now, transactionId: "2000000000000", productId: "com.example.month",
                before: state, after: state), 112
        ),
    ])
    func `names of members take a byte each`(content: EventContent, count: Int) {
        let stored = StoredBody.packed(content.body)
        #expect(stored.count == count && StoredBody.unpacked(stored) == content.body)
    }

    @Test func `entitlements and details take few bytes with the second list`() {
        var content = EventContent(
            effectiveAt: Self.now, transactionId: "2000000000000", productId: "com.example.month",
            before: Self.state, after: Self.state)
        var details = EventDetails()
        details.type = Open(.autoRenewableSubscription)
        details.inAppOwnershipType = Open(.purchased)
        details.quantity = 1
        details.price = 9990
        details.currency = "USD"
        details.storefront = "USA"
        content.details = details
        var pro = GivenEntitlement("pro", .subscription, in: .production, until: Self.now)
        pro.subscriptionGroup = "21000001"
        pro.level = 1
        content.entitlementsBefore = GivenEntitlements([pro])
        content.entitlementsAfter = GivenEntitlements([pro])
        let stored = StoredBody.packed(content.body, with: .second)
        #expect(content.body.count == 727)
        #expect(stored.count == 218)
        #expect(StoredBody.unpacked(stored) == content.body)
    }

    @Test(arguments: [BodyPhrases.first, .second])
    func `every body comes back, also one with the bytes of phrases or a part of a phrase`(phrases: BodyPhrases) {
        var bodies: [[UInt8]] = [[], [0], [1], [2], Array(0...255), Array("{}".utf8), Array("{\t\r\n }".utf8)]
        for (byte, text) in phrases.list {
            let bytes = Array(text.utf8)
            bodies += bytes.indices.map { Array(bytes[...$0]) }
            bodies += [bytes + bytes, bytes + [byte], [byte] + bytes, Array(bytes.dropFirst())]
        }
        for (_, first) in phrases.list {
            for (_, second) in phrases.list { bodies.append(Array((first + second).utf8)) }
        }
        for body in bodies { #expect(StoredBody.unpacked(StoredBody.packed(body, with: phrases)) == body) }
    }

    @Test func `a stored JSON object without phrases is itself`() {
        for text in ["{}", #"{"gift":[1.50,"é"]}"#] {
            #expect(StoredBody.packed(Array(text.utf8)) == Array(text.utf8))
        }
    }

    /// Every server of a ledger must know them.
    @Test(arguments: [(BodyPhrases.first, "f9547553d825b3f0"), (.second, "f6512436aa29c6e1")])
    func `the phrases never change`(phrases: BodyPhrases, digest: String) {
        let text = phrases.list.map { "\($0.byte)\($0.text)" }.joined(separator: "\n")
        #expect(DocumentDigest(Array(text.utf8), .notification).description.prefix(16) == digest)
        #expect(Set(phrases.list.map(\.byte)).count == phrases.list.count)
        #expect(!phrases.list.contains { $0.byte == phrases.mark })
    }
}
