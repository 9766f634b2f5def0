// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import TestWorld
import Testing

/// Tests the stored form of events' bodies.
@Suite struct StoredBodyTests {
    private static let now = Timestamp(milliseconds: 1_750_000_000_000)

    private static let state = ChainState(
        status: .active, productId: "com.example.month", hasAccess: true, until: now, willRenew: true)

    private static let renewing: ChainState = {
        var (state, terms) = (Self.state, RenewalTerms())
        (terms.autoRenewProductId, terms.renewalPrice, terms.currency) = ("com.example.month", 9990, "EUR")
        state.renewal = terms
        return state
    }()

    /// A body, and the number of bytes of its stored form.
    @Test(arguments: [
        (EventContent(effectiveAt: now), 42),
        (EventContent(effectiveAt: now, detail: "appAccountToken", after: state), 72),
        (
            EventContent(
                effectiveAt: now, transactionId: "2000000000000", productId: "com.example.month",
                before: state, after: state), 119
        ),
        (
            EventContent(
                effectiveAt: now, transactionId: "2000000000000", productId: "com.example.month",
                before: renewing, after: renewing), 177
        ),
    ])
    func `names of members take a byte each`(content: EventContent, count: Int) {
        let stored = StoredBody.packed(content.body)
        #expect(stored.count == count && StoredBody.unpacked(stored) == content.body)
    }

    @Test func `entitlements and details take few bytes`() {
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
        let stored = StoredBody.packed(content.body)
        #expect(content.body.count == 761)
        #expect(stored.count == 217)
        #expect(StoredBody.unpacked(stored) == content.body)
    }

    @Test func `every body comes back, also one with the bytes of phrases or a part of a phrase`() {
        var bodies: [[UInt8]] = [[], [0], [1], [2], Array(0...255), Array("{}".utf8), Array("{\t\r\n }".utf8)]
        for (byte, text) in StoredBody.phrases {
            let bytes = Array(text.utf8)
            bodies += bytes.indices.map { Array(bytes[...$0]) }
            bodies += [bytes + bytes, bytes + [byte], [byte] + bytes, Array(bytes.dropFirst())]
        }
        for (_, first) in StoredBody.phrases {
            for (_, second) in StoredBody.phrases { bodies.append(Array((first + second).utf8)) }
        }
        for body in bodies { #expect(StoredBody.unpacked(StoredBody.packed(body)) == body) }
    }

    @Test func `a stored JSON object without phrases is itself`() {
        for text in ["{}", #"{"gift":[1.50,"é"]}"#] {
            #expect(StoredBody.packed(Array(text.utf8)) == Array(text.utf8))
        }
    }

    @Test func `no two phrases have the same byte, and none has that of a plain body`() {
        let bytes = StoredBody.phrases.map(\.byte)
        #expect(Set(bytes).count == bytes.count && !bytes.contains(StoredBody.plain))
    }
}
