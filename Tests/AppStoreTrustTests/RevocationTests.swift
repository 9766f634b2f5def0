// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import Foundation
import ReceiptCoding
import SwiftASN1
import Testing
import X509

/// When the checker sends requests, and what it returns to callers. Tests that do not depend on the timeout set it to
/// an hour. The time limit only ends a test that would wait forever.
@Suite(.timeLimit(.minutes(60))) struct RevocationTests {
    private static let now = TestResponse.now
    private static let payload = #"{"environment":"Sandbox","autoRenewStatus":1,"signedDate":1700000500000}"#

    private static func later(_ seconds: Int64) -> Timestamp {
        Timestamp(milliseconds: now.milliseconds + seconds * 1000)
    }

    private static func patient(_ transport: TestTransport) -> RevocationChecker {
        RevocationChecker(transport: transport, timeout: .seconds(3600), deadline: .seconds(3600))
    }

    private static func code(
        _ verifier: AppStoreVerifier, _ token: [UInt8], at now: Timestamp = now
    ) async -> VerificationError.Code? {
        do {
            _ = try await verifier.verify(jws: token, at: now)
            return nil
        } catch {
            return error.code
        }
    }

    // MARK: Verification

    @Test func `a thousand documents of a signer cause one request for each certificate`() async throws {
        let chain = try RevocableChain()
        let transport = TestTransport(chain)
        let verifier = try chain.verifier(Self.patient(transport))
        let token = try chain.sign(Self.payload)
        for _ in 0..<1000 {
            let code = await Self.code(verifier, token)
            #expect(code == nil)
        }
        // Leaf and intermediate.
        #expect(transport.count == 2)
    }

    @Test(arguments: [RevocableChain.leafResponder, RevocableChain.intermediateResponder])
    func `a revoked certificate is refused under every policy and however old the document`(
        revoked: String
    ) async throws {
        let chain = try RevocableChain()
        let transport = TestTransport { responder, _ in
            var response = chain.response(of: responder)
            if responder == revoked { response.certificateStatus = .revoked("20231114222000Z") }
            return try response.encoded()
        }
        let checker = Self.patient(transport)
        let old = try chain.sign(Self.payload.replacing("1700000500000", with: "1700000000000"))
        for acceptsUnknown in [true, false] {
            let verifier = try chain.verifier(checker, acceptsUnknown: acceptsUnknown)
            #expect(await Self.code(verifier, old) == .certificateRevoked)
        }
    }

    @Test(arguments: [false, true])
    func `two leaves of one issuer and serial number have one status, whichever is asked about first`(
        isReversed: Bool
    ) async throws {
        let chain = try RevocableChain()
        var leaf = chain.plan.leaf
        (leaf.serialNumber, leaf.key) = (Array(chain.leaf.serialNumber.bytes), .newP256())
        var questions = [chain.question, OCSPQuestion(about: try leaf.issue(), issuedBy: chain.intermediate)]
        if isReversed { questions.reverse() }
        // The responder says once that the serial number is revoked, and is never reached again.
        let transport = TestTransport { responder, count in
            guard count == 1 else { throw CancellationError() }
            var response = chain.response(of: responder)
            response.certificateStatus = .revoked("20231114222000Z")
            return try response.encoded()
        }
        let checker = Self.patient(transport)
        for question in questions + questions {
            let status = await checker.statuses([question], at: Self.now).first
            guard case .revoked = status else {
                Issue.record("\(String(describing: status))")
                return
            }
        }
        #expect(transport.count == 1)
    }

    @Test func `a known signer is checked for revocation like any other`() async throws {
        let chain = try RevocableChain()
        let transport = TestTransport { responder, _ in
            var response = chain.response(of: responder)
            response.certificateStatus = .revoked("20231114220000Z")
            return try response.encoded()
        }
        var verifier = try chain.verifier(nil)
        let token = try chain.sign(Self.payload)
        #expect(await Self.code(verifier, token) == nil)
        verifier.revocation = .checked(by: Self.patient(transport), acceptsUnknown: true)
        #expect(await Self.code(verifier, token) == .certificateRevoked)
    }

    @Test func `revoked outranks unknown`() async throws {
        let chain = try RevocableChain()
        let transport = TestTransport { responder, _ in
            guard responder == RevocableChain.intermediateResponder else { throw CocoaError(.fileNoSuchFile) }
            var response = chain.intermediateResponse
            response.certificateStatus = .revoked("20231114220000Z")
            return try response.encoded()
        }
        let verifier = try chain.verifier(Self.patient(transport))
        #expect(await Self.code(verifier, try chain.sign(Self.payload)) == .certificateRevoked)
    }

    @Test func `an unknown status is refused or accepted as the policy says`() async throws {
        let chain = try RevocableChain()
        let checker = Self.patient(TestTransport { _, _ in throw CocoaError(.fileNoSuchFile) })
        let token = try chain.sign(Self.payload)
        let error = await #expect(throws: VerificationError.self) {
            try await chain.verifier(checker).verify(jws: token, at: Self.now)
        }
        #expect(error?.code == .revocationUnknown)
        #expect(error?.isRetryable == true)
        #expect(error?.message.contains("“Simulated token signing”") == true)
        _ = try await chain.verifier(checker, acceptsUnknown: true).verify(jws: token, at: Self.now)
    }

    @Test func `only an unknown revocation status is retryable`() {
        let retryable = VerificationError.Code.allCases.filter { VerificationError($0, "").isRetryable }
        #expect(retryable == [.revocationUnknown])
    }

    @Test func `revocation is decided after the signature and before the environment`() async throws {
        let chain = try RevocableChain()
        let checker = Self.patient(TestTransport { _, _ in throw CocoaError(.fileNoSuchFile) })
        let other = try chain.sign(Self.payload.replacing("Sandbox", with: "Production"))
        #expect(await Self.code(try chain.verifier(checker), other) == .revocationUnknown)
        #expect(await Self.code(try chain.verifier(checker, acceptsUnknown: true), other) == .otherEnvironment)
        let codes = VerificationError.Code.allCases
        let signature = try #require(codes.firstIndex(of: .invalidSignature))
        #expect(Array(codes[(signature + 1)...].prefix(3)) == [.certificateRevoked, .revocationUnknown, .otherKind])
    }

    @Test func `no request is sent before the signature is valid`() async throws {
        let chain = try RevocableChain()
        let transport = TestTransport(chain)
        let verifier = try chain.verifier(Self.patient(transport))
        var forged = try chain.token(Self.payload)
        forged.signature = { _ in [UInt8](repeating: 0, count: 64) }
        #expect(await Self.code(verifier, Array(try forged.signed().utf8)) == .invalidSignature)
        let stranger = try RevocableChain()
        #expect(await Self.code(verifier, try stranger.sign(Self.payload)) == .untrustedChain)
        #expect(transport.count == 0)
    }

    @Test func `no request is sent unless the policy asks for it`() async throws {
        let chain = try RevocableChain()
        #expect(await Self.code(try chain.verifier(nil), try chain.sign(Self.payload)) == nil)
        guard case .notChecked = try chain.verifier(nil).revocation else {
            Issue.record("A new verifier checks revocation.")
            return
        }
    }

    @Test func `a certificate that names no responder has an unknown status`() async throws {
        let chain = try RevocableChain(leafResponder: nil)
        let transport = TestTransport(chain)
        let token = try chain.sign(Self.payload)
        let error = await #expect(throws: VerificationError.self) {
            try await chain.verifier(Self.patient(transport)).verify(jws: token, at: Self.now)
        }
        #expect(error?.code == .revocationUnknown)
        #expect(error?.message.contains("names no OCSP responder") == true)
    }

    @Test(arguments: [
        ("http://a.example", true), ("https://a.example", true), ("HTTP://a.example", true),
        ("ldap://a.example", false), ("file:///etc/passwd", false), ("httpx://a.example", false), ("http", false),
        ("http:a", false),
        ("", false),
    ])
    func `only responders that are reached over HTTP are asked`(address: String, isAsked: Bool) async throws {
        let chain = try RevocableChain(leafResponder: address)
        let transport = TestTransport { _, _ in try chain.leafResponse.encoded() }
        _ = await Self.patient(transport).statuses([chain.question], at: Self.now)
        #expect(transport.count == (isAsked ? 1 : 0))
    }

    @Test func `the signer of a receipt is checked for revocation too`() async throws {
        let chain = try RevocableChain()
        var plan = chain.plan
        plan.leaf.key = try .newRSA()
        var receipt = AppReceipt()
        receipt.receiptType = Open(.productionSandbox)
        receipt.receiptCreationDate = Self.now
        var signing = try ReceiptPlan(receipt.encoded, by: plan)
        signing.certificates[1] = try [UInt8](der: chain.intermediate)
        signing.certificates[2] = try [UInt8](der: chain.root)
        let leaf = try Certificate(derEncoded: signing.certificates[0])
        let document = try signing.signed()
        let transport = TestTransport { responder, count in
            var response = chain.response(of: responder)
            if responder == RevocableChain.leafResponder { response.certificate = leaf }
            if count > 2 { response.certificateStatus = .revoked("20231114220000Z") }
            return try response.encoded()
        }
        let verifier = try chain.verifier(Self.patient(transport))
        for _ in 0..<3 { _ = try await verifier.verify(receipt: document, at: Self.now) }
        #expect(transport.count == 2)
        var other = verifier
        other.revocation = .checked(by: Self.patient(transport), acceptsUnknown: true)
        let error = await #expect(throws: VerificationError.self) {
            try await other.verify(receipt: document, at: Self.now)
        }
        #expect(error?.code == .certificateRevoked)
    }

    // MARK: The cache

    @Test func `an answer is used until its nextUpdate and not a moment longer`() async throws {
        let chain = try RevocableChain()
        let transport = TestTransport { _, count in
            var response = chain.leafResponse
            if count > 1 { response.certificateStatus = .revoked("20231114220000Z") }
            // Valid until 22:21:50, ten seconds from now.
            response.nextUpdate = count > 1 ? "20231115100000Z" : "20231114222150Z"
            return try response.encoded()
        }
        let checker = Self.patient(transport)
        #expect(await checker.statuses([chain.question], at: Self.now) == [.good])
        #expect(await checker.statuses([chain.question], at: Self.later(7)) == [.good])
        #expect(transport.count == 1)
        let revoked = RevocationStatus.revoked(at: Timestamp(milliseconds: 1_699_999_200_000))
        #expect(await checker.statuses([chain.question], at: Self.later(10)) == [revoked])
        #expect(transport.count == 2)
    }

    @Test func `a revoked certificate stays revoked without another request`() async throws {
        let chain = try RevocableChain()
        let transport = TestTransport { _, _ in
            var response = chain.leafResponse
            response.certificateStatus = .revoked("20231114220000Z")
            return try response.encoded()
        }
        let checker = Self.patient(transport)
        let first = await checker.statuses([chain.question], at: Self.now)
        #expect(await checker.statuses([chain.question], at: Self.later(86_400 * 365)) == first)
        #expect(transport.count == 1)
    }

    @Test func `the next answer is requested ahead of time, while the cached one is used`() async throws {
        let chain = try RevocableChain()
        let gate = Gate()
        let transport = TestTransport { _, count in
            var response = chain.leafResponse
            if count > 1 {
                await gate.pass()
                response.nextUpdate = "20231115220000Z"
            }
            return try response.encoded()
        }
        let checker = Self.patient(transport)
        #expect(await checker.statuses([chain.question], at: Self.now) == [.good])
        // The answer is valid for 11:38:20, and its last quarter begins after 8:43:45.
        #expect(await checker.statuses([chain.question], at: Self.later(8 * 3600 + 43 * 60)) == [.good])
        #expect(transport.count == 1)
        for _ in 0..<100 {
            #expect(await checker.statuses([chain.question], at: Self.later(9 * 3600)) == [.good])
        }
        gate.open()
        // Beyond the end of the first answer.
        #expect(await checker.statuses([chain.question], at: Self.later(12 * 3600)) == [.good])
        #expect(transport.count == 2)
    }

    @Test func `a failed renewal keeps the answer, and is not retried for each document`() async throws {
        let chain = try RevocableChain()
        let transport = TestTransport { _, count in
            guard count == 1 else { throw CocoaError(.fileNoSuchFile) }
            return try chain.leafResponse.encoded()
        }
        let checker = Self.patient(transport)
        for second in Array<Int64>(repeating: 0, count: 10) + Array(repeating: 9 * 3600, count: 100) {
            #expect(await checker.statuses([chain.question], at: Self.later(second)) == [.good])
        }
        // The answer is not used after its end. By then both failures are stored.
        guard await checker.statuses([chain.question], at: Self.later(12 * 3600))[0].reason != nil else {
            Issue.record("An answer was used after its end.")
            return
        }
        #expect((2...3).contains(transport.count))
    }

    @Test func `a renewal without a newer answer is not retried for each document`() async throws {
        let chain = try RevocableChain()
        let transport = TestTransport(chain)
        let checker = Self.patient(transport)
        #expect(await checker.statuses([chain.question], at: Self.now) == [.good])
        for _ in 0..<50 {
            #expect(await checker.statuses([chain.question], at: Self.later(9 * 3600)) == [.good])
            try await Task.sleep(for: .milliseconds(1))
        }
        #expect(transport.count <= 2)
    }

    @Test func `an older answer does not replace a newer one`() async throws {
        let chain = try RevocableChain()
        let transport = TestTransport { _, count in
            var response = chain.leafResponse
            if count == 2 { response.nextUpdate = "20231115073000Z" }
            guard count < 3 else { throw CocoaError(.fileNoSuchFile) }
            return try response.encoded()
        }
        let checker = Self.patient(transport)
        #expect(await checker.statuses([chain.question], at: Self.now) == [.good])
        // 7:21:40 of the next day.
        while transport.count < 2 {
            #expect(await checker.statuses([chain.question], at: Self.later(9 * 3600)) == [.good])
        }
        try await Task.sleep(for: .milliseconds(50))
        // 7:36:40, when only the first answer is still valid.
        #expect(await checker.statuses([chain.question], at: Self.later(9 * 3600 + 900)) == [.good])
    }

    @Test func `a full cache drops the good answer that expires first, but no revocation`() async throws {
        let chain = try RevocableChain()
        let questions = try (0..<258).map { _ in
            OCSPQuestion(
                about: try chain.plan.leaf.issue(), issuedBy: chain.intermediate)
        }
        let certificates = questions.map(\.certificate)
        // The requests come one by one, in the order of the certificates.
        let transport = TestTransport { _, count in
            var response = chain.leafResponse
            response.certificate = certificates[(count - 1) % certificates.count]
            response.nextUpdate = count < 3 ? "20231114230000Z" : "20231115100000Z"
            if count == 1 { response.certificateStatus = .revoked("20231114220000Z") }
            return try response.encoded()
        }
        let checker = Self.patient(transport)
        for question in questions { _ = await checker.statuses([question], at: Self.now) }
        #expect(transport.count == 258)
        _ = await checker.statuses([questions[0], questions[257]], at: Self.now)
        #expect(transport.count == 258)
        _ = await checker.statuses([questions[1]], at: Self.now)
        #expect(transport.count == 259)
    }

    // MARK: Responders and transports that fail

    @Test func `concurrent callers share one request, and a dead responder is not asked again for a while`()
        async throws
    {
        let chain = try RevocableChain()
        let gate = Gate()
        let transport = TestTransport { _, count in
            if count == 1 { await gate.pass() }
            guard count > 1 else { throw CocoaError(.fileNoSuchFile) }
            return try chain.leafResponse.encoded()
        }
        let checker = Self.patient(transport)
        let statuses = await withTaskGroup(of: [RevocationStatus].self) { group in
            for _ in 0..<100 { group.addTask { await checker.statuses([chain.question], at: Self.now) } }
            gate.open()
            return await group.reduce([], +)
        }
        #expect(statuses.allSatisfy { $0.reason?.contains("did not answer") == true })
        for second in [0, 1, 29, -29] as [Int64] {
            #expect(await checker.statuses([chain.question], at: Self.later(second)) == [statuses[0]])
        }
        #expect(transport.count == 1)
        #expect(await checker.statuses([chain.question], at: Self.later(30)) == [.good])
        #expect(transport.count == 2)
    }

    @Test func `a cancelled caller does not cancel the request of the others`() async throws {
        let chain = try RevocableChain()
        let gate = Gate()
        let transport = TestTransport { _, _ in
            await gate.pass()
            return try chain.leafResponse.encoded()
        }
        let checker = Self.patient(transport)
        let first = Task { await checker.statuses([chain.question], at: Self.now) }
        let second = Task { await checker.statuses([chain.question], at: Self.now) }
        // After this time both probably wait. The test is valid even if they do not.
        while transport.count < 1 { try await Task.sleep(for: .milliseconds(1)) }
        try await Task.sleep(for: .milliseconds(50))
        first.cancel()
        #expect(await first.value == [.unknown("The wait for the answer was cancelled.")])
        gate.open()
        #expect(await second.value == [.good])
        #expect(transport.count == 1)
    }

    @Test func `a slow responder does not delay callers for long, and still serves later ones`() async throws {
        let chain = try RevocableChain()
        let gate = Gate()
        let transport = TestTransport { _, _ in
            await gate.pass()
            return try chain.leafResponse.encoded()
        }
        let checker = RevocationChecker(transport: transport, timeout: .milliseconds(1), deadline: .seconds(3600))
        for _ in 0..<100 {
            let statuses = await checker.statuses([chain.question], at: Self.now)
            #expect(statuses == [.unknown("http://leaf.example/ocsp did not answer within 0.001 seconds.")])
        }
        gate.open()
        while await checker.statuses([chain.question], at: Self.now) != [.good] {
            try await Task.sleep(for: .milliseconds(1))
        }
        #expect(transport.count == 1)
    }

    @Test func `a transport that never returns gets a bounded number of requests`() async throws {
        let chain = try RevocableChain()
        let transport = TestTransport { _, _ in
            // It ignores cancellation too.
            await withUnsafeContinuation { (_: UnsafeContinuation<Void, Never>) in }
            return []
        }
        let checker = RevocationChecker(
            transport: transport, timeout: .milliseconds(1), deadline: .milliseconds(1))
        var second: Int64 = 0
        while true {
            guard let reason = await checker.statuses([chain.question], at: Self.later(second))[0].reason else {
                Issue.record("A status is known without a response.")
                return
            }
            if reason.contains("never ended") { break }
            second += 30
            try await Task.sleep(for: .milliseconds(1))
        }
        #expect(transport.count == 16)
    }

    @Test func `a request past its deadline is cancelled, and allows the next`() async throws {
        let chain = try RevocableChain()
        // More requests than may be left unfinished.
        let clock = HurriedClock()
        let transport = TestTransport { _, count in
            if count <= 40 {
                try await Task.sleep(for: .seconds(3600))
            } else {
                clock.stop()
            }
            return try chain.leafResponse.encoded()
        }
        let checker = RevocationChecker(transport: transport, clock: clock)
        var second: Int64 = 0
        while await checker.statuses([chain.question], at: Self.later(second)) != [.good] {
            second += 30
            try await Task.sleep(for: .milliseconds(1))
        }
        #expect(transport.count > 40)
    }

    @Test(arguments: [0, 1, 1000, 65_537, 10_000_000])
    func `garbage from a transport gives an unknown status`(count: Int) async throws {
        let chain = try RevocableChain()
        let checker = Self.patient(TestTransport { _, _ in [UInt8](repeating: 0x30, count: count) })
        guard await checker.statuses([chain.question], at: Self.now)[0].reason != nil else {
            Issue.record("Garbage was accepted.")
            return
        }
    }

    @Test func `a reason is short, whatever a transport throws`() async throws {
        let chain = try RevocableChain()
        struct Long: Error, CustomStringConvertible {
            let description = String(repeating: "long ", count: 100_000)
        }
        let checker = Self.patient(TestTransport { _, _ in throw Long() })
        guard let reason = await checker.statuses([chain.question], at: Self.now)[0].reason else {
            Issue.record("An error was accepted as an answer.")
            return
        }
        #expect(reason.count < 400)
    }

    @Test(arguments: [Timestamp(milliseconds: .min), Timestamp(milliseconds: .max)])
    func `a wrong clock gives an unknown status, and no trap`(now: Timestamp) async throws {
        let chain = try RevocableChain()
        let checker = Self.patient(TestTransport(chain))
        for instant in [now, Self.now, now, Timestamp(milliseconds: 0)] {
            let statuses = await checker.statuses([chain.question], at: instant)
            #expect((statuses == [.good]) == (instant == Self.now))
        }
    }
}

extension RevocationStatus {
    /// The reason of an unknown status.
    fileprivate var reason: String? {
        if case .unknown(let reason) = self { reason } else { nil }
    }
}
