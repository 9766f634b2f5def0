// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import ReceiptCoding
import SwiftASN1
import TestData
import TestWorld
import Testing
import X509

/// The simulated documents beside genuine ones: the same parts in the same order. Each difference has its reason.
@Suite(.enabled(if: TestData.isThere, Comment(rawValue: TestData.whyNot))) struct StructureTests {
    private static let signer = Result { WorldSigner(try StoreAuthority.fixture()) }

    // MARK: - Receipts

    @Test func `a sandbox receipt has the attributes of a genuine one, in DER order`() throws {
        let genuine = try Attributes(of: TestData.receipt("receipts/sandbox-2025-sha256-2-purchases.b64"))
        let simulated = try Attributes(of: Self.receipt(in: .sandbox))
        #expect(simulated.app == genuine.app)
        for kind in genuine.purchases { #expect(simulated.purchases.contains(kind), "\(kind)") }
        #expect(simulated.isSorted && genuine.isSorted)
    }

    @Test func `the container of a receipt has the algorithms and certificates of a genuine one`() throws {
        let genuine = try SignedReceipt(decoding: TestData.receipt("receipts/sandbox-2025-sha256-2-purchases.b64"))
        let simulated = try SignedReceipt(decoding: Self.receipt(in: .sandbox))
        #expect(simulated.signer.digestAlgorithm == genuine.signer.digestAlgorithm)
        #expect(simulated.signer.signatureAlgorithm == genuine.signer.signatureAlgorithm)
        #expect(simulated.signer.signature.count == genuine.signer.signature.count)
        #expect(simulated.certificates.count == genuine.certificates.count)
        try Self.compareExtensions(
            simulated.certificates.map(Array.init), genuine.certificates.map(Array.init))
    }

    private static func receipt(in environment: Environment) throws -> [UInt8] {
        var world = try RandomWorld(seed: 1, customers: 0).world
        try world.addCustomer("anna", environment: environment)
        for product in ["coins", "book", "gold.month"] { try world.buy(product, by: "anna") }
        let receipt = try #require(world.receipt(of: "anna"))
        return try signer.get().sign(receipt, at: world.now)
    }

    private struct Attributes {
        let app: [Int64]
        let purchases: Set<[Int64]>
        let isSorted: Bool

        /// The attributes of a set, by an ASN.1 library and not by our own decoder.
        private static func list(_ set: ArraySlice<UInt8>) throws -> [(type: Int64, value: ArraySlice<UInt8>)] {
            try BER.set(BER.parse(set), identifier: .set) { nodes in
                var attributes: [(type: Int64, value: ArraySlice<UInt8>)] = []
                while let node = nodes.next() {
                    attributes.append(
                        try BER.sequence(node, identifier: .sequence) { parts in
                            let type = try Int64(berEncoded: &parts)
                            _ = try Int64(berEncoded: &parts)
                            return (type, try ASN1OctetString(berEncoded: &parts).bytes)
                        })
                }
                return attributes
            }
        }

        init(of document: [UInt8]) throws {
            let signed = try SignedReceipt(decoding: document)
            isSorted = try AppReceipt(decoding: signed.payload).encoded == Array(signed.payload)
            let all = try Self.list(signed.payload)
            app = all.filter { $0.type != 17 }.map(\.type).sorted()
            purchases = Set(
                try all.filter { $0.type == 17 }.map { try Self.list($0.value).map(\.type).sorted() })
        }
    }

    // MARK: - Tokens

    @Test func `a token has the header and the certificates of a genuine one`() throws {
        let genuine = try Token(TestData.bytes("jws/apple-sandbox-renewal-2023.jws"))
        let simulated = try Token(Array(Self.renewal().utf8))
        #expect(simulated.header == genuine.header)
        #expect(simulated.header == ["alg", "x5c"])
        try Self.compareExtensions(simulated.certificates, genuine.certificates)
    }

    /// What Apple adds to renewal info since the genuine one was signed, in 2023; see the version history of the App
    /// Store Server API.
    private static let newerClaims: Set<String> = [
        "isInBillingRetryPeriod", "renewalDate", "renewalPrice", "currency", "appAccountToken", "appTransactionId",
    ]

    @Test func `renewal info has the claims of a genuine one, and those that came later`() throws {
        let genuine = try Token(TestData.bytes("jws/apple-sandbox-renewal-2023.jws"))
        let simulated = try Token(Array(Self.renewal().utf8))
        #expect(Set(simulated.claims) == Set(genuine.claims).union(Self.newerClaims))
    }

    @Test func `a test notification has the claims of a genuine one`() throws {
        let genuine = try Token(TestData.bytes("jws/apple-sandbox-test-notification-2022.jws"))
        var world = try RandomWorld(seed: 1, customers: 0).world
        world.sendTestNotification(in: .sandbox)
        let occurrence = try #require(world.occurrences.last)
        let simulated = try Token(Array(Self.signer.get().notification(occurrence, from: world.catalogue).utf8))
        #expect(Set(simulated.claims) == Set(genuine.claims))
        // The genuine one is of 2022, and has no version of the app.
        #expect(simulated.data == genuine.data.union(["bundleVersion"]))
    }

    private static func renewal() throws -> String {
        var world = try RandomWorld(seed: 1, customers: 0).world
        try world.addCustomer("anna", environment: .sandbox)
        let id = try #require(try world.buy("gold.month", by: "anna"))
        let chain = try #require(world.subscriptions[id])
        return try signer.get().sign(chain.renewal, at: world.now)
    }

    private struct Token {
        let header: [String]
        let certificates: [[UInt8]]
        let claims: [String]
        let data: Set<String>

        private static func members(_ json: JSONValue) -> [JSONValue.Member] {
            if case .object(let members) = json { members } else { [] }
        }

        init(_ text: [UInt8]) throws {
            let text = text.last == 10 ? Array(text.dropLast()) : text
            let parts = text.split(separator: UInt8(ascii: "."))
            let header = try JSONValue(parsing: #require(Base64.decodeURL(parts[0])))
            let payload = try JSONValue(parsing: #require(Base64.decodeURL(parts[1])))
            self.header = Self.members(header).map(\.name)
            certificates = (header["x5c"]?.array ?? []).compactMap { $0.string.flatMap { Base64.decode($0.utf8) } }
            claims = Self.members(payload).map(\.name)
            data = Set((payload["data"].map(Self.members) ?? []).map(\.name))
        }
    }

    // MARK: - Certificates

    /// Extensions of Apple's certificates that the simulated ones lack: no check of a document reads them.
    private static let left: Set<String> = [
        "2.5.29.32",  // certificate policies: a text for people
        "2.5.29.31",  // addresses of revocation lists
        "1.3.6.1.5.5.7.1.1",  // address of the OCSP responder: a simulated App Store has none
    ]

    /// The identifiers of the certificate's key and of its issuer's key. Their values differ with the keys. OpenSSL's
    /// strict checks, which Apple's Python library turns on, need both, so all simulated certificates have them; of
    /// Apple's, the root of tokens lacks its own issuer's.
    private static let keyIdentifiers: Set<String> = ["2.5.29.14", "2.5.29.35"]

    /// The mark of the simulator.
    private static let added: Set<String> = ["2.25.3294784015283160907"]

    @Test func `all signers have one root, byte by byte, and a new leaf keeps its intermediate`() throws {
        let start = try #require(Timestamp(iso8601: "2026-01-01T00:00:00Z"))
        for authority in [try StoreAuthority.fixture(), try StoreAuthority(from: start)] {
            for chains in [authority.tokens, authority.receipts] {
                #expect(Set(chains.map { $0.certificates[2] }).count == 1)
            }
            #expect(Set(authority.tokens.map { $0.certificates[1] }).count == 2)
        }
    }

    private static func compareExtensions(_ simulated: [[UInt8]], _ genuine: [[UInt8]]) throws {
        #expect(simulated.count == genuine.count)
        for (one, other) in zip(simulated, genuine) {
            let (one, other) = (try Certificate(derEncoded: one), try Certificate(derEncoded: other))
            let names = Set(one.extensions.map { "\($0.oid)" }), expected = Set(other.extensions.map { "\($0.oid)" })
            #expect(
                names == expected.subtracting(left).union(keyIdentifiers).union(added), "\(other.subject)")
            for shared in other.extensions where !left.union(keyIdentifiers).contains("\(shared.oid)") {
                #expect(one.extensions[oid: shared.oid]?.critical == shared.critical, "\(shared.oid)")
                #expect(one.extensions[oid: shared.oid]?.value == shared.value, "\(shared.oid) of \(other.subject)")
            }
            #expect(one.publicKey.description.prefix(5) == other.publicKey.description.prefix(5))
            #expect("\(one.subject)" != "\(other.subject)")
        }
    }
}
