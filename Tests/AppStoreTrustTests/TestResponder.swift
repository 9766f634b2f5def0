// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import Crypto
import Foundation
import ReceiptCoding
import SwiftASN1
import Synchronization
import X509

/// An OCSP response before a responder signs it. Tests can make any part invalid.
struct TestResponse {
    enum Status {
        case good
        case revoked(String)
        case unknown
    }

    /// 2023-11-14T22:21:40Z, when an unchanged response is valid.
    static let now = Timestamp(milliseconds: 1_700_000_500_000)

    var status: UInt8 = 0
    var type: ASN1ObjectIdentifier = [1, 3, 6, 1, 5, 5, 7, 48, 1, 1]
    var certificate: Certificate
    var issuer: Certificate
    var hashAlgorithm = OID.sha1
    var certificateStatus = Status.good
    var thisUpdate = "20231114220000Z"
    var nextUpdate: String? = "20231115100000Z"
    var statementExtensions: [UInt8] = []
    var responseExtensions: [UInt8] = []
    var signatureAlgorithm: ASN1ObjectIdentifier = [1, 2, 840, 10045, 4, 3, 3]
    var signer: P384.Signing.PrivateKey
    /// The signer that the response names.
    var responder: Certificate
    var isResponderNamedByKey = false
    var certificates: [Certificate] = []
    /// The bytes to sign, if not the response data.
    var signedBytes: [UInt8]?

    init(about certificate: Certificate, issuedBy issuer: Certificate, signedWith signer: P384.Signing.PrivateKey) {
        self.certificate = certificate
        self.issuer = issuer
        self.signer = signer
        responder = issuer
    }

    func encoded() throws -> [UInt8] {
        guard status == 0 else { return Self.tag(0x30, [0x0a, 0x01, status]) }
        let data = try responseData
        let signature = try Array(signer.signature(for: signedBytes ?? data).derRepresentation)
        var basic = data
        basic += try Self.tag(0x30, Self.der(signatureAlgorithm)) + Self.tag(0x03, [0] + signature)
        if !certificates.isEmpty {
            basic += Self.tag(0xa0, Self.tag(0x30, try certificates.flatMap(Self.der)))
        }
        let bytes = try Self.der(type) + Self.tag(0x04, Self.tag(0x30, basic))
        return Self.tag(0x30, [0x0a, 0x01, 0x00] + Self.tag(0xa0, Self.tag(0x30, bytes)))
    }

    private var responseData: [UInt8] {
        get throws {
            let name = try Self.tag(0xa1, Self.der(responder.subject))
            let key = Self.tag(0xa2, Self.tag(0x04, Self.sha1(responder.publicKey.subjectPublicKeyInfoBytes)))
            var data = (isResponderNamedByKey ? key : name) + Self.time(thisUpdate)
            data += Self.tag(0x30, try statement)
            if !responseExtensions.isEmpty { data += Self.tag(0xa1, Self.tag(0x30, responseExtensions)) }
            return Self.tag(0x30, data)
        }
    }

    private var statement: [UInt8] {
        get throws {
            var id = Self.tag(0x30, DEREncoding.objectIdentifier(hashAlgorithm) + [0x05, 0x00])
            id += Self.tag(0x04, Self.sha1(try Self.der(issuer.subject)[...]))
            id += Self.tag(0x04, Self.sha1(issuer.publicKey.subjectPublicKeyInfoBytes))
            id += try Self.der(certificate.serialNumber.bytes)
            var statement = Self.tag(0x30, id)
            switch certificateStatus {
            case .good: statement += [0x80, 0x00]
            case .revoked(let time): statement += Self.tag(0xa1, Self.time(time) + [0xa0, 0x03, 0x0a, 0x01, 0x01])
            case .unknown: statement += [0x82, 0x00]
            }
            statement += Self.time(thisUpdate)
            if let nextUpdate { statement += Self.tag(0xa0, Self.time(nextUpdate)) }
            if !statementExtensions.isEmpty { statement += Self.tag(0xa1, Self.tag(0x30, statementExtensions)) }
            return Self.tag(0x30, statement)
        }
    }

    private static func tag(_ tag: UInt8, _ content: [UInt8]) -> [UInt8] { DEREncoding.element(tag, content) }
    private static func der(_ value: some DERSerializable) throws -> [UInt8] {
        var serializer = DER.Serializer()
        try serializer.serialize(value)
        return serializer.serializedBytes
    }

    private static func time(_ text: String) -> [UInt8] { tag(0x18, Array(text.utf8)) }
    private static func sha1(_ bytes: ArraySlice<UInt8>) -> [UInt8] { Array(Insecure.SHA1.hash(data: bytes)) }
}

/// A chain of certificates that name responders, with new keys every time.
struct RevocableChain {
    static let leafResponder = "http://leaf.example/ocsp"
    static let intermediateResponder = "http://intermediate.example/ocsp"

    private static let authority = Result { try CertificateAuthority(from: Timestamp(milliseconds: 1_700_000_000_000)) }

    let plan: ChainPlan
    let rootKey = P384.Signing.PrivateKey()
    let intermediateKey = P384.Signing.PrivateKey()
    let leaf: Certificate
    let intermediate: Certificate
    let root: Certificate

    init(leafResponder: String? = leafResponder, intermediateResponder: String? = intermediateResponder) throws {
        var plan = try Self.authority.get().tokens
        plan.root.key = .p384(rootKey)
        plan.root.issuerKey = .p384(rootKey)
        plan.intermediate.key = .p384(intermediateKey)
        plan.intermediate.issuerKey = .p384(rootKey)
        plan.intermediate.ocspResponder = intermediateResponder
        plan.leaf.key = .newP256()
        plan.leaf.issuerKey = .p384(intermediateKey)
        plan.leaf.ocspResponder = leafResponder
        self.plan = plan
        leaf = try plan.leaf.issue()
        intermediate = try plan.intermediate.issue()
        root = try plan.root.issue()
    }

    var question: OCSPQuestion { OCSPQuestion(about: leaf, issuedBy: intermediate) }

    var leafResponse: TestResponse {
        TestResponse(about: leaf, issuedBy: intermediate, signedWith: intermediateKey)
    }

    var intermediateResponse: TestResponse {
        TestResponse(about: intermediate, issuedBy: root, signedWith: rootKey)
    }

    func response(of responder: String) -> TestResponse {
        responder == Self.leafResponder ? leafResponse : intermediateResponse
    }

    func token(_ payload: String) throws -> TokenPlan {
        var token = try TokenPlan(payload, by: plan)
        token.chain = try [leaf, intermediate, root].map { try [UInt8](der: $0) }
        return token
    }

    func sign(_ payload: String) throws -> [UInt8] { Array(try token(payload).signed().utf8) }

    func verifier(_ checker: RevocationChecker?, acceptsUnknown: Bool = false) throws -> AppStoreVerifier {
        var verifier = AppStoreVerifier(
            apps: .any, environments: [.sandbox], roots: try TrustRoots(reading: [UInt8](der: root)))
        if let checker { verifier.revocation = .checked(by: checker, acceptsUnknown: acceptsUnknown) }
        return verifier
    }
}

/// A transport in memory that counts its requests.
final class TestTransport: OCSPTransport {
    private let requests = Mutex<[String]>([])
    private let respond: @Sendable (_ responder: String, _ count: Int) async throws -> [UInt8]

    /// Creates a transport.
    ///
    /// - Parameter respond: Answers a request. `count` is its number, from 1.
    init(_ respond: @escaping @Sendable (_ responder: String, _ count: Int) async throws -> [UInt8]) {
        self.respond = respond
    }

    /// Creates a transport that answers `good` for the certificates of a chain.
    convenience init(_ chain: RevocableChain) {
        self.init { responder, _ in try chain.response(of: responder).encoded() }
    }

    /// The number of requests.
    var count: Int { requests.withLock(\.count) }

    func answer(to request: [UInt8], from responder: String) async throws -> [UInt8] {
        let count = requests.withLock { requests in
            requests.append(responder)
            return requests.count
        }
        return try await respond(responder, count)
    }
}

/// A gate that tasks pass after it is opened.
final class Gate: Sendable {
    private let stream = AsyncStream<Void>.makeStream()

    func open() { stream.continuation.finish() }

    /// Waits until the gate is open or the task is cancelled. For one task at a time.
    func pass() async { for await _ in stream.stream {} }
}

/// A clock on which every sleep ends at once. After `stop`, a sleep takes an hour, so that no deadline passes even on a
/// slow machine.
final class HurriedClock: Clock {
    typealias Duration = Swift.Duration

    struct Instant: InstantProtocol {
        var offset = Swift.Duration.zero

        func advanced(by duration: Swift.Duration) -> Instant { Instant(offset: offset + duration) }
        func duration(to other: Instant) -> Swift.Duration { other.offset - offset }
        static func < (left: Instant, right: Instant) -> Bool { left.offset < right.offset }
    }

    let now = Instant()
    let minimumResolution = Duration.zero
    private let isStopped = Mutex(false)

    func stop() { isStopped.withLock { $0 = true } }

    func sleep(until deadline: Instant, tolerance: Duration?) async throws {
        guard isStopped.withLock({ $0 }) else { return }
        try await Task.sleep(for: .seconds(3600))
    }
}
