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

    @Test func `every body comes back, also one with the bytes of phrases or a part of a phrase`() {
        var bodies: [[UInt8]] = [[], [0], [2], Array(0...255), Array("{}".utf8), Array("{\t\r\n }".utf8)]
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

    /// Every server of a ledger must know them.
    @Test func `the phrases never change`() {
        let text = StoredBody.phrases.map { "\($0.byte)\($0.text)" }.joined(separator: "\n")
        #expect(DocumentDigest(Array(text.utf8), .notification).description.prefix(16) == "f9547553d825b3f0")
        #expect(Set(StoredBody.phrases.map(\.byte)).count == StoredBody.phrases.count)
    }
}
