// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import Crypto
import Foundation
import ReceiptCoding
import SwiftASN1
import TestData
import Testing
import X509

/// Which OCSP responses are valid, and what status they give.
@Suite struct OCSPTests {
    /// One change to a valid response.
    struct Change: Sendable, CustomTestStringConvertible {
        var testDescription: String
        /// The status, or a part of the reason why there is none.
        var expected: Expected
        var make: @Sendable (inout TestResponse, RevocableChain) throws -> Void

        enum Expected: Sendable {
            case status(RevocationStatus)
            case fault(String)
        }

        init(
            _ description: String, _ expected: RevocationStatus,
            _ make: @escaping @Sendable (inout TestResponse, RevocableChain) throws -> Void = { _, _ in }
        ) {
            (testDescription, self.expected, self.make) = (description, .status(expected), make)
        }

        init(
            _ description: String, fault: String,
            _ make: @escaping @Sendable (inout TestResponse, RevocableChain) throws -> Void
        ) {
            (testDescription, expected, self.make) = (description, .fault(fault), make)
        }
    }

    static let statements = [
        Change("a good certificate", .good),
        Change("a revoked certificate", .revoked(at: Timestamp(milliseconds: 1_699_999_200_000))) { response, _ in
            response.certificateStatus = .revoked("20231114220000Z")
        },
        Change("a certificate that the responder does not know", fault: "does not know") { response, _ in
            response.certificateStatus = .unknown
        },
        Change("another certificate of the same issuer", fault: "another certificate") { response, chain in
            response.certificate = try chain.plan.leaf.issue()
        },
        Change("a certificate with this serial number of another issuer", fault: "another certificate") { response, _ in
            response.issuer = try RevocableChain().intermediate
        },
        Change("a certificate named by another hash", fault: "another certificate") { response, _ in
            response.hashAlgorithm = .sha256
        },
        Change("a critical extension of the statement", fault: "critical extension") { response, _ in
            response.statementExtensions = [
                0x30, 0x0b, 0x06, 0x02, 0x2a, 0x03, 0x01, 0x01, 0xff, 0x04, 0x02, 0x05, 0x00,
            ]
        },
        Change("a critical extension of the response", fault: "critical extension") { response, _ in
            response.responseExtensions = [
                0x30, 0x0b, 0x06, 0x02, 0x2a, 0x03, 0x01, 0x01, 0xff, 0x04, 0x02, 0x05, 0x00,
            ]
        },
        Change("an extension that is not critical", .good) { response, _ in
            response.responseExtensions = [0x30, 0x08, 0x06, 0x02, 0x2a, 0x03, 0x04, 0x02, 0x05, 0x00]
        },
        Change("an error of the responder", fault: "tryLater") { response, _ in response.status = 3 },
        Change("an error without a name", fault: "(99)") { response, _ in response.status = 99 },
        Change("another type of response", fault: "another type") { response, _ in response.type = [1, 2, 3] },
        // TestResponse.now is 22:21:40.
        Change("from five minutes ahead", .good) { response, _ in response.thisUpdate = "20231114222640Z" },
        Change("from the future", fault: "from the future") { response, _ in response.thisUpdate = "20231114222641Z" },
        Change("valid for one more second", .good) { response, _ in response.nextUpdate = "20231114222141Z" },
        Change("expired this very second", fault: "was valid until") { response, _ in
            response.nextUpdate = "20231114222140Z"
        },
        Change("revoked, but expired", fault: "was valid until") { response, _ in
            response.certificateStatus = .revoked("20231114220000Z")
            response.nextUpdate = "20231114222140Z"
        },
        Change("undated, an hour old", fault: "was valid until") { response, _ in
            (response.thisUpdate, response.nextUpdate) = ("20231114212140Z", nil)
        },
        Change("undated, a second less than an hour old", .good) { response, _ in
            (response.thisUpdate, response.nextUpdate) = ("20231114212141Z", nil)
        },
        Change("a date that the calendar does not have", fault: "time") { response, _ in
            response.nextUpdate = "20231131100000Z"
        },
        Change("a date in another zone", fault: "time") { response, _ in response.nextUpdate = "20231115100000+0100" },
        Change("the year 9999", .good) { response, _ in response.nextUpdate = "99991231235959Z" },
    ]

    static let signers = [
        Change("the issuer, named by its key", .good) { response, _ in response.isResponderNamedByKey = true },
        Change("another key in the issuer's name", fault: "signed neither") { response, _ in
            response.signer = P384.Signing.PrivateKey()
        },
        Change("the issuer under another name", fault: "signed neither") { response, chain in
            response.responder = chain.leaf
        },
        Change("other bytes signed by the issuer", fault: "signed neither") { response, _ in
            response.signedBytes = [1, 2]
        },
        Change("the issuer of the issuer", fault: "signed neither") { response, chain in
            response.signer = chain.rootKey
            response.responder = chain.root
            response.certificates = [chain.root]
        },
        Change("an unknown algorithm", fault: "unknown algorithm") { response, _ in
            response.signatureAlgorithm = [1, 2, 840, 113549, 1, 1, 5]
        },
        Change("another algorithm than that of the signature", fault: "signed neither") { response, _ in
            response.signatureAlgorithm = [1, 2, 840, 113549, 1, 1, 11]
        },
        Change("a delegate", .good) { response, chain in try response.delegate(chain) },
        Change("a delegate, named by its key", .good) { response, chain in
            try response.delegate(chain)
            response.isResponderNamedByKey = true
        },
        Change("a delegate behind other certificates", .good) { response, chain in
            try response.delegate(chain)
            response.certificates.insert(contentsOf: [chain.leaf, chain.root], at: 0)
        },
        Change("a delegate without its certificate", fault: "signed neither") { response, chain in
            try response.delegate(chain)
            response.certificates = []
        },
        Change("a delegate that is not for this purpose", fault: "signed neither") { response, chain in
            try response.delegate(chain, purposes: [.serverAuth])
        },
        Change("a delegate without a purpose", fault: "signed neither") { response, chain in
            try response.delegate(chain, purposes: [])
        },
        Change("a delegate for any purpose", fault: "signed neither") { response, chain in
            try response.delegate(chain, purposes: [.any])
        },
        Change("a delegate whose key is not for signatures", fault: "signed neither") { response, chain in
            try response.delegate(chain, keyUsage: KeyUsage(keyCertSign: true))
        },
        Change("a delegate with an unknown critical extension", fault: "signed neither") { response, chain in
            try response.delegate(chain, extra: Certificate.Extension(oid: [1, 2, 3], critical: true, value: [5, 0]))
        },
        Change("a delegate of another key with the issuer's name", fault: "signed neither") { response, chain in
            try response.delegate(chain, issuerKey: P384.Signing.PrivateKey())
        },
        Change("a delegate that names another issuer", fault: "signed neither") { response, chain in
            try response.delegate(chain, issuer: chain.root)
        },
        Change("a delegate of the issuer's issuer", fault: "signed neither") { response, chain in
            try response.delegate(chain, issuer: chain.root, issuerKey: chain.rootKey)
        },
        Change("a delegate that expired a second ago", fault: "signed neither") { response, chain in
            try response.delegate(chain, until: Date(timeIntervalSince1970: 1_700_000_499))
        },
        Change("a delegate in its last second", .good) { response, chain in
            try response.delegate(chain, until: Date(timeIntervalSince1970: 1_700_000_500))
        },
        Change("a delegate in its first second", .good) { response, chain in
            try response.delegate(chain, from: Date(timeIntervalSince1970: 1_700_000_500))
        },
        Change("a delegate a second too early", fault: "signed neither") { response, chain in
            try response.delegate(chain, from: Date(timeIntervalSince1970: 1_700_000_501))
        },
        Change("more certificates than a response needs", fault: "certificates") { response, chain in
            response.certificates = Array(repeating: chain.leaf, count: 11)
        },
    ]

    @Test(arguments: statements + signers)
    func `a response is accepted for its contents and its signer`(change: Change) throws {
        let chain = try RevocableChain()
        var response = chain.leafResponse
        try change.make(&response, chain)
        let outcome = Result { try chain.question.answer(in: response.encoded(), at: TestResponse.now) }
        switch (change.expected, outcome) {
        case (.status(let expected), .success(let answer)): #expect(answer.status == expected)
        case (.fault(let expected), .failure(let fault as OCSPFault)): #expect(fault.reason.contains(expected))
        default: Issue.record("Expected \(change.expected), but it was \(outcome).")
        }
    }

    @Test func `a response that is cut off anywhere is refused`() throws {
        let chain = try RevocableChain()
        var response = chain.leafResponse
        try response.delegate(chain)
        let bytes = try response.encoded()
        for length in 0..<bytes.count {
            #expect(throws: OCSPFault.self, "\(length) of \(bytes.count) bytes") {
                try chain.question.answer(in: Array(bytes.prefix(length)), at: TestResponse.now)
            }
        }
    }

    @Test func `no changed byte of a response gives another answer`() throws {
        let chain = try RevocableChain()
        var response = chain.leafResponse
        response.certificateStatus = .revoked("20231114220000Z")
        let bytes = try response.encoded()
        let genuine = try chain.question.answer(in: bytes, at: TestResponse.now)
        let masks: [UInt8] = [0x01, 0x20, 0x80, 0xff]
        for (position, mask) in bytes.indices.flatMap({ position in masks.map { (position, $0) } }) {
            var changed = bytes
            changed[position] ^= mask
            guard let answer = try? chain.question.answer(in: changed, at: TestResponse.now) else { continue }
            #expect(answer == genuine, "byte \(position)")
        }
    }

    @Test(arguments: Seeds.first(4, soak: 400))
    func `randomly changed responses never revoke a certificate`(seed: UInt64) throws {
        let chain = try RevocableChain()
        let genuine = try chain.leafResponse.encoded()
        var random = SeededRandom(seed: seed)
        for _ in 0..<200 {
            var bytes = genuine
            for _ in 0..<Int.random(in: 1...8, using: &random) {
                let range = Int.random(in: 0..<bytes.count, using: &random)
                bytes.replaceSubrange(
                    range..<min(bytes.count, range + Int.random(in: 0...3, using: &random)),
                    with: (0..<Int.random(in: 0...3, using: &random)).map { _ in .random(in: 0...255, using: &random) })
            }
            let answer = try? chain.question.answer(in: bytes, at: TestResponse.now)
            #expect(answer?.status ?? .good == .good)
        }
    }

    @Test func `a response of more than 64 KiB is refused before it is parsed`() throws {
        let chain = try RevocableChain()
        let error = #expect(throws: OCSPFault.self) {
            try chain.question.answer(in: Array(repeating: 0x30, count: 65_537), at: TestResponse.now)
        }
        #expect(error?.reason.contains("65537 bytes") == true)
    }

    @Test(arguments: [Timestamp(milliseconds: .min), Timestamp(milliseconds: .max), Timestamp(milliseconds: 0)])
    func `a response is refused at any absurd time`(now: Timestamp) throws {
        let chain = try RevocableChain()
        #expect(throws: OCSPFault.self) { try chain.question.answer(in: chain.leafResponse.encoded(), at: now) }
    }

    @Test func `an answer dated for years is valid for a week, and renewed before it expires`() throws {
        let chain = try RevocableChain()
        var response = chain.leafResponse
        response.nextUpdate = "20991231235959Z"
        let answer = try chain.question.answer(in: response.encoded(), at: TestResponse.now)
        let week: Int64 = 7 * 86_400_000
        #expect(answer.until.milliseconds == TestResponse.now.milliseconds + week)
        #expect(answer.renewal.milliseconds == TestResponse.now.milliseconds + week * 3 / 4)
    }
}

extension TestResponse {
    private static let issued = Date(timeIntervalSince1970: 1_700_000_000)

    /// Lets a delegate of the issuer sign.
    fileprivate mutating func delegate(
        _ chain: RevocableChain, issuer: Certificate? = nil, issuerKey: P384.Signing.PrivateKey? = nil,
        purposes: [ExtendedKeyUsage.Usage] = [.ocspSigning], keyUsage: KeyUsage = KeyUsage(digitalSignature: true),
        from: Date = issued, until: Date = issued + 86_400,
        extra: Certificate.Extension? = nil
    ) throws {
        let key = P384.Signing.PrivateKey()
        var extensions = try Certificate.Extensions { Critical(keyUsage) }
        if !purposes.isEmpty {
            try extensions.append(Certificate.Extension(ExtendedKeyUsage(purposes), critical: false))
        }
        if let extra { try extensions.append(extra) }
        responder = try Certificate(
            version: .v3, serialNumber: .init(), publicKey: .init(key.publicKey), notValidBefore: from,
            notValidAfter: until, issuer: (issuer ?? chain.intermediate).subject,
            subject: DistinguishedName { CommonName("Test Responder") }, signatureAlgorithm: .ecdsaWithSHA384,
            extensions: extensions, issuerPrivateKey: .init(issuerKey ?? chain.intermediateKey))
        signer = key
        certificates = [responder]
    }
}
