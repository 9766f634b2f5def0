// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import Crypto
import Foundation
import Testing
import X509

@Suite struct JWSVerificationTests {
    private static let payload =
        #"{"transactionId":"1","originalTransactionId":"1","bundleId":"com.example","environment":"Sandbox","#
        + #""signedDate":1700000500000,"new":[1]}"#
    private static let now = Timestamp(milliseconds: 1_900_000_000_000)

    private static func verifier(_ authority: TestAuthority) throws -> AppStoreVerifier {
        AppStoreVerifier(
            apps: .only([AppIdentity(bundleId: "com.example", appAppleId: 7)]), environments: [.sandbox],
            roots: try authority.roots)
    }

    /// One fault in a document that would be right without it.
    struct Fault: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var expected: VerificationError.Code?
        var token: @Sendable (TestAuthority) throws -> [UInt8]

        init(
            _ description: String, _ expected: VerificationError.Code?,
            _ token: @escaping @Sendable (TestAuthority) throws -> [UInt8]
        ) {
            testDescription = description
            self.expected = expected
            self.token = token
        }
    }

    static let faults = [
        Fault("as the App Store would sign it", nil) { try $0.sign(payload) },
        Fault("algorithm none", .unsupportedAlgorithm) { try $0.sign(payload, alg: "none") },
        Fault("algorithm HS256", .unsupportedAlgorithm) { try $0.sign(payload, alg: "HS256") },
        Fault("algorithm ES384", .unsupportedAlgorithm) { try $0.sign(payload, alg: "ES384") },
        Fault("algorithm in small letters", .unsupportedAlgorithm) { try $0.sign(payload, alg: "es256") },
        Fault("a leaf without the mark", .untrustedChain) {
            try $0.sign(payload, chain: [$0.leaf(marked: false), $0.intermediate(), $0.root])
        },
        Fault("an intermediate without the mark", .untrustedChain) {
            try $0.sign(payload, chain: [$0.leaf(), $0.intermediate(marked: false), $0.root])
        },
        Fault("an intermediate that is no authority", .untrustedChain) {
            try $0.sign(payload, chain: [$0.leaf(), $0.intermediate(isAuthority: false), $0.root])
        },
        Fault("a chain of another authority that looks the same", .untrustedChain) { _ in
            try TestAuthority().sign(payload)
        },
        Fault("the right root behind a chain of another authority", .untrustedChain) { authority in
            let other = try TestAuthority()
            return try other.sign(payload, chain: [other.leaf(), other.intermediate(), authority.root])
        },
        Fault("another root behind the right chain", nil) {
            try $0.sign(payload, chain: [$0.leaf(), $0.intermediate(), TestAuthority().root])
        },
        Fault("leaf and intermediate exchanged", .untrustedChain) {
            try $0.sign(payload, chain: [$0.intermediate(), $0.leaf(), $0.root])
        },
        Fault("a leaf that the root issued", .untrustedChain) {
            try $0.sign(payload, chain: [$0.intermediate(), $0.root, $0.root])
        },
        Fault("two certificates", .untrustedChain) { try $0.sign(payload, chain: [$0.leaf(), $0.intermediate()]) },
        Fault("four certificates", .untrustedChain) {
            try $0.sign(payload, chain: [$0.leaf(), $0.intermediate(), $0.root, $0.root])
        },
        Fault("no certificates", .malformed) { try $0.sign(payload, chain: []) },
        Fault("signed a second before the leaf", .certificateExpired) {
            try $0.sign(payload.replacing("1700000500000", with: "1699999999000"))
        },
        Fault("signed with the leaf's first second", nil) {
            try $0.sign(payload.replacing("1700000500000", with: "1700000000000"))
        },
        Fault("signed within the leaf's last second", nil) {
            try $0.sign(payload.replacing("1700000500000", with: "1731536000999"))
        },
        Fault("signed after the leaf's last second", .certificateExpired) {
            try $0.sign(payload.replacing("1700000500000", with: "1731536001000"))
        },
        Fault("no signing date, so judged now", .certificateExpired) {
            try $0.sign(payload.replacing("signedDate", with: "signed"))
        },
        Fault("an absurd signing date, so judged now", .certificateExpired) {
            try $0.sign(payload.replacing("1700000500000", with: "1e300"))
        },
        Fault("a key on another curve", .unsupportedAlgorithm) {
            try $0.sign(
                payload, chain: [$0.leaf(key: .init(P384.Signing.PrivateKey().publicKey)), $0.intermediate(), $0.root])
        },
        Fault("signed by somebody else's key", .invalidSignature) {
            try $0.sign(payload) { try P256.Signing.PrivateKey().signature(for: $0).rawRepresentation }
        },
        Fault("a signature in DER", .invalidSignature) { authority in
            try authority.sign(payload) { try authority.leafKey.signature(for: $0).derRepresentation }
        },
        Fault("a signature of zeros", .invalidSignature) { try $0.sign(payload) { _ in Data(count: 64) } },
        Fault("a signature with a byte more", .invalidSignature) { authority in
            try authority.sign(payload) { try authority.leafKey.signature(for: $0).rawRepresentation + [0] }
        },
        Fault("a payload that is no JSON", .malformed) { try $0.sign("<plist/>") },
        Fault("a payload of no known kind", .otherKind) { try $0.sign(#"{"signedDate":1700000500000}"#) },
        Fault("renewal info in place of a transaction", .otherKind) {
            try $0.sign(#"{"environment":"Sandbox","signedDate":1700000500000,"originalTransactionId":"1"}"#)
        },
        Fault("a field of another type", .unreadable) {
            try $0.sign(payload.replacing(#""transactionId":"1""#, with: #""transactionId":1"#))
        },
        Fault("a kind that only looks like renewal info", .otherKind) {
            try $0.sign(#"{"environment":"Sandbox","signedDate":1700000500000,"unclaim":1}"#)
        },
        Fault("renewal info of another environment in place of a transaction", .otherKind) {
            try $0.sign(#"{"environment":"Production","signedDate":1700000500000,"autoRenewStatus":1}"#)
        },
        Fault("another app", .otherApp) { try $0.sign(payload.replacing("com.example", with: "com.example.notes")) },
        Fault("no app", .otherApp) { try $0.sign(payload.replacing("bundleId", with: "bundle")) },
        Fault("another environment", .otherEnvironment) {
            try $0.sign(payload.replacing("Sandbox", with: "Production"))
        },
        Fault("an unknown environment", .otherEnvironment) { try $0.sign(payload.replacing("Sandbox", with: "Moon")) },
        Fault("no environment", .otherEnvironment) { try $0.sign(payload.replacing("environment", with: "place")) },
        // Of two faults the one that is decided first is told.
        Fault("another app and environment", .otherApp) {
            try $0.sign(payload.replacing("com.example", with: "x").replacing("Sandbox", with: "Moon"))
        },
        Fault("another app, changed after signing", .invalidSignature) { authority in
            try authority.sign(payload.replacing("com.example", with: "x")) { _ in
                try authority.leafKey.signature(for: Data("something else".utf8)).rawRepresentation
            }
        },
        Fault("expired and of another authority", .untrustedChain) { _ in
            try TestAuthority().sign(payload.replacing("1700000500000", with: "1"))
        },
        Fault("of another authority with algorithm none", .unsupportedAlgorithm) { _ in
            try TestAuthority().sign(payload, alg: "none")
        },
    ]

    @Test(arguments: faults)
    func token(_ fault: Fault) async throws {
        let authority = try TestAuthority()
        let token = try fault.token(authority)
        let found: VerificationError.Code?
        do {
            let verified = try await Self.verifier(authority).verify(
                token, as: JWSTransactionDecodedPayload.self, at: Self.now)
            #expect(verified.document == token)
            #expect(verified.payload.transactionId == "1")
            #expect(verified.payload.unknownMembers["new"] == .array([.number("1")]))
            found = nil
        } catch let error as VerificationError {
            found = error.code
        }
        #expect(found == fault.expected)
    }

    /// What each kind says about its app, and where.
    @Test(
        arguments: [
            (#"{"notificationType":"TEST","data":{"bundleId":"com.example","environment":"Sandbox"}}"#, nil),
            (#"{"notificationType":"TEST","data":{"bundleId":"com.other","environment":"Sandbox"}}"#, .otherApp),
            (
                #"{"notificationType":"X","summary":{"bundleId":"com.example","environment":"Production","appAppleId":7}}"#,
                .otherEnvironment
            ),
            (
                #"{"notificationType":"X","appData":{"bundleId":"com.example","environment":"Sandbox","appAppleId":9}}"#,
                nil
            ),
            (
                #"{"notificationType":"X","externalPurchaseToken":{"bundleId":"com.example","externalPurchaseId":"SANDBOX_1"}}"#,
                nil
            ),
            (
                #"{"notificationType":"X","externalPurchaseToken":{"bundleId":"com.example","externalPurchaseId":"1"}}"#,
                .otherApp
            ),
            (#"{"notificationType":"X"}"#, .otherKind), (#"{"notificationType":"X","data":{}}"#, .otherApp),
            (#"{"receiptType":"Sandbox","bundleId":"com.example"}"#, nil),
            (#"{"receiptType":"Sandbox","bundleId":"com.other"}"#, .otherApp),
            (#"{"receiptType":"Production","bundleId":"com.example","appAppleId":9}"#, .otherApp),
            (#"{"receiptType":"Production","bundleId":"com.example"}"#, .otherApp),
            (#"{"environment":"Production","userLocale":"en-US"}"#, .otherApp),
            (#"{"environment":"Production","userLocale":"en-US","appAppleId":7}"#, .otherEnvironment),
            (#"{"notificationType":"TEST","data":{"bundleId":"com.example","environment":"Production"}}"#, .otherApp),
            (#"{"receiptType":"Production","bundleId":"com.example","appAppleId":7}"#, .otherEnvironment),
            (#"{"environment":"Sandbox","userLocale":"en-US"}"#, nil),
            (#"{"environment":"Sandbox","autoRenewStatus":1}"#, nil),
            (#"{"environment":"Production","autoRenewStatus":1}"#, .otherEnvironment),
        ] as [(String, VerificationError.Code?)])
    func `every kind is compared with the accepted app and environment`(
        payload: String, expected: VerificationError.Code?
    ) async throws {
        let authority = try TestAuthority()
        let now = Timestamp(milliseconds: 1_700_000_500_000)
        let found: VerificationError.Code?
        do {
            _ = try await Self.verifier(authority).verify(jws: try authority.sign(payload), at: now)
            found = nil
        } catch let error as VerificationError {
            found = error.code
        }
        #expect(found == expected)
    }
}
