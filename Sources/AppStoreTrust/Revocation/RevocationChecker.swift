// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel
import Synchronization

/// Finds out by OCSP (RFC 6960) whether certificates were revoked, and remembers it.
///
/// A responder is asked once about a certificate, however many documents come, and again in the background when its answer
/// draws to its end. Callers wait only while nothing is known, and then no longer than `patience`, whatever the responder
/// or the transport does. One checker may serve any number of verifiers; it lives as long as they do.
public final class RevocationChecker: Sendable {
    /// The most bytes of a response that are looked at: 64 KiB. Real ones have 2 KB or less.
    public static let responseLimit = OCSPQuestion.responseLimit

    private let transport: any OCSPTransport
    private let patience: Duration
    private let deadline: Duration
    private let clock: any Clock<Duration>
    private let cache = Mutex(RevocationCache())

    /// - Parameters:
    ///   - transport: The way to responders.
    ///   - patience: How long callers wait, counted from when the question was sent. Responders answer within a tenth of a
    ///     second, and who sends a document seldom waits longer than some seconds for its verification.
    ///   - deadline: How long a question may take before it is given up. Longer than callers wait, so that a slow responder
    ///     serves at least those that come later.
    ///   - clock: By which patience and deadline pass.
    public init(
        transport: any OCSPTransport, patience: Duration = .seconds(2), deadline: Duration = .seconds(10),
        clock: any Clock<Duration> = ContinuousClock()
    ) {
        self.transport = transport
        self.patience = patience
        self.deadline = max(patience, deadline)
        self.clock = clock
    }

    /// What is known about some certificates, in their order; waits where nothing is known yet. They are asked about at the
    /// same time, so that all together take no longer than one.
    ///
    /// Never throws and always returns: also when the caller's task is cancelled, at once, with `unknown`.
    package func statuses(_ questions: [OCSPQuestion], at now: Timestamp) async -> [RevocationStatus] {
        let findings = questions.map { find($0, at: now) }
        var statuses: [RevocationStatus] = []
        for finding in findings {
            switch finding {
            case .known(let status): statuses.append(status)
            case .pending(let inquiry):
                statuses.append(await inquiry.status.value() ?? .unknown("Nobody waited for the answer."))
            }
        }
        return statuses
    }

    private func find(_ question: OCSPQuestion, at now: Timestamp) -> RevocationCache.Finding {
        let (finding, new) = cache.withLock { $0.find(question, at: now) }
        if let new { run(new) }
        return finding
    }

    /// Tasks of their own, and not of whoever came first: others wait for the answer too, and later ones will find it.
    private func run(_ inquiry: RevocationInquiry) {
        let call = Task.detached { [self] in
            let answer = await ask(inquiry)
            let status = cache.withLock { $0.settle(inquiry, answer) }
            inquiry.status.set(status)
        }
        // Comes after an answer too, and then changes nothing.
        Task.detached { [self] in
            try? await clock.sleep(for: patience)
            inquiry.status.set(.unknown("\(inquiry.responder) did not answer within \(patience)."))
            try? await clock.sleep(for: deadline - patience)
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

/// The way to a responder: what ``RevocationChecker`` needs of a network.
public protocol OCSPTransport: Sendable {
    /// Sends a request to a responder and returns what it answers (RFC 6960 appendix A).
    ///
    /// By HTTP that is a POST with content type `application/ocsp-request`, of which status 200 brings an answer. The
    /// transport need not keep time nor understand anything: the task is cancelled when the time is over, and the answer
    /// is checked. It should not follow redirects, since anybody between may send them, nor collect more than
    /// ``RevocationChecker/responseLimit``.
    ///
    /// - Parameters:
    ///   - request: The DER of an `OCSPRequest`.
    ///   - responder: The address in the certificate, of the scheme `http` or `https`.
    /// - Returns: The bytes of the answer.
    /// - Throws: Anything, where there is no answer.
    func answer(to request: [UInt8], from responder: String) async throws -> [UInt8]
}
