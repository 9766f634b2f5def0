// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel
import Synchronization

/// Checks by OCSP (RFC 6960) whether certificates were revoked, and caches the answers.
///
/// The checker asks a responder once about a certificate, and again in the background in the last quarter of the
/// answer's life. Callers wait only if no answer is cached, and never longer than `timeout`, whatever the responder or
/// the transport does. Any number of verifiers may share a checker.
public final class RevocationChecker: Sendable {
    /// The maximum number of bytes of a response: 64 KiB. Longer responses are refused. Real responses have 2 KB or
    /// less.
    public static let responseLimit = OCSPQuestion.responseLimit

    private let transport: any OCSPTransport
    private let timeout: Duration
    private let deadline: Duration
    private let clock: any Clock<Duration>
    private let cache = Mutex(RevocationCache())

    /// Creates a checker with an empty cache.
    ///
    /// - Parameters:
    ///   - transport: Sends requests to responders.
    ///   - timeout: How long callers wait for an answer after a request is sent. Responders usually answer within a
    ///     tenth of a second, and clients seldom wait longer than a few seconds for a verification.
    ///   - deadline: How long a request may take before the checker cancels the request. At least `timeout`, so that
    ///     the answer of a slow responder can still serve later callers.
    ///   - clock: Measures timeout and deadline.
    public init(
        transport: any OCSPTransport, timeout: Duration = .seconds(2), deadline: Duration = .seconds(10),
        clock: any Clock<Duration> = ContinuousClock()
    ) {
        self.transport = transport
        self.timeout = timeout
        self.deadline = max(timeout, deadline)
        self.clock = clock
    }

    /// The statuses of some certificates, in the same order. Requests run concurrently, so that all requests together
    /// take no longer than the slowest.
    ///
    /// Never throws. If the caller's task is cancelled, returns at once with `unknown` for the pending requests.
    package func statuses(_ questions: [OCSPQuestion], at now: Timestamp) async -> [RevocationStatus] {
        let findings = questions.map { find($0, at: now) }
        var statuses: [RevocationStatus] = []
        for finding in findings {
            switch finding {
            case .known(let status): statuses.append(status)
            case .pending(let inquiry):
                statuses.append(await inquiry.status.value() ?? .unknown("The wait for the answer was cancelled."))
            }
        }
        return statuses
    }

    private func find(_ question: OCSPQuestion, at now: Timestamp) -> RevocationCache.Finding {
        let (finding, new) = cache.withLock { $0.find(question, at: now) }
        if let new { run(new) }
        return finding
    }

    /// Sends a request in a detached task. Cancelling the first caller must not cancel the request, because the answer
    /// serves all callers.
    private func run(_ inquiry: RevocationInquiry) {
        let call = Task.detached { [self] in
            let answer = await ask(inquiry)
            let status = cache.withLock { $0.settle(inquiry, answer) }
            inquiry.status.set(status)
        }
        // This task also runs after an answer, but then has no effect.
        Task.detached { [self] in
            // This task is never cancelled, so no sleep ends early.
            try? await clock.sleep(for: timeout)
            inquiry.status.set(.unknown("\(inquiry.responder) did not answer within \(timeout)."))
            try? await clock.sleep(for: deadline - timeout)
            cache.withLock { $0.giveUp(inquiry, "\(inquiry.responder) did not answer within \(deadline).") }
            call.cancel()
        }
    }

    private func ask(_ inquiry: RevocationInquiry) async -> Result<OCSPAnswer, OCSPFault> {
        let response: [UInt8]
        do {
            response = try await transport.answer(to: try inquiry.question.request(), from: inquiry.responder)
        } catch {
            return .failure(OCSPFault("\(inquiry.responder) did not answer: \(error)"))
        }
        return inquiry.read(response)
    }
}

/// Sends OCSP requests over a network, for a ``RevocationChecker``.
public protocol OCSPTransport: Sendable {
    /// Sends a request to a responder and returns its response (RFC 6960 appendix A).
    ///
    /// Over HTTP the request is a POST with content type `application/ocsp-request`, and only status 200 carries a
    /// response. The transport needs no timeout and no checks of its own: the checker cancels the task at its deadline,
    /// and checks the response. The transport should not follow redirects, because over plain HTTP any attacker on the
    /// network can send one. The transport should read at most `RevocationChecker.responseLimit` bytes.
    ///
    /// - Parameters:
    ///   - request: The DER of an `OCSPRequest`.
    ///   - responder: The address in the certificate, with the scheme `http` or `https`.
    /// - Returns: The bytes of the response.
    /// - Throws: Any error if there is no response.
    func answer(to request: [UInt8], from responder: String) async throws -> [UInt8]
}
