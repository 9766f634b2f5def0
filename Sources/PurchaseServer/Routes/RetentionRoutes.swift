// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import AppStoreTrust
import Hummingbird
import Logging

/// The route for the App Store's real-time requests for a retention message. The route needs no API key, since requests
/// are signed, and neither reads nor writes the ledger.
struct RetentionRoutes: Sendable {
    /// The maximum length of a body in bytes: as much as a connection's own thread handles, so that no request waits in
    /// the queue. A genuine request has some 5 KB.
    private static let bodyLimit = 64 << 10

    /// The longest time for verification. The App Store waits 700 ms, and then shows the default message that was set
    /// through its API, if there is one. Verification gets less than half of these 700 ms, and the rest is for the
    /// network and the signature.
    private static let deadline = Duration.milliseconds(300)

    /// The greatest difference between a request's signing date and now for which the server signs an offer. The App
    /// Store asks in real time, so an old request is a replay, and each replay would otherwise yield a new offer. The
    /// tolerance allows for clocks that differ.
    private static let freshness = Duration.seconds(600)

    private let service: LedgerService
    private let bodies: BodyIntake
    private let now: @Sendable () -> Timestamp
    private let clock: any Clock<Duration>
    private let warning: ThrottledWarning
    private let withoutOffer: ThrottledWarning

    init(
        service: LedgerService, bodies: BodyIntake, now: @escaping @Sendable () -> Timestamp,
        clock: any Clock<Duration>, logger: Logger
    ) {
        self.service = service
        self.bodies = bodies
        self.now = now
        self.clock = clock
        warning = ThrottledWarning("A retention request got the default message", clock: clock, logger)
        withoutOffer = ThrottledWarning(
            "A retention request got its message without an offer", clock: clock, logger)
    }

    var routes: [APIRoute] {
        [
            APIRoute(
                .post, "/retention", "answers the App Store's real-time request for a retention message",
                members: ["signedPayload"], bodyLimit: Self.bodyLimit,
                errors: ErrorCode.ofDocuments.union([.invalidRequest, .noRetentionMessage])
            ) { request, _ in
                try Answer(await bodies.withBody(of: request, upTo: Self.bodyLimit) { try await answer(to: $0) })
            }
        ]
    }

    /// Answers a request whose body is `{"signedPayload": …}`.
    ///
    /// - Throws: ``VerificationError`` if the request is not genuine, or not for an app and environment of this server;
    ///   ``Refusal`` if there is no message. After either error, the App Store shows the default message that was set
    ///   through its API, if there is one.
    private func answer(to body: [UInt8]) async throws -> RealtimeResponseBody {
        let payload = try Refusal.signedPayload(in: body)
        switch await verified(payload) {
        case .success(let request): return try answer(to: request.payload)
        case .failure(let error) where error.isRetryable || error.code == .unreadable:
            return try defaultAnswer(of: app(claimedBy: payload), because: error.message)
        case .failure(let error): throw error
        }
    }

    private typealias Outcome = Result<Verified<DecodedRealtimeRequestBody>, VerificationError>

    /// Verifies the request. At the deadline the wait for an OCSP responder ends: the status is then unknown.
    private func verified(_ payload: String) async -> Outcome {
        let now = now()
        return await withTaskGroup(of: Outcome?.self) { group in
            group.addTask { await verify(payload, at: now) }
            group.addTask {
                await clock.pause(for: Self.deadline)
                return nil
            }
            // The first result cancels the other task. A verification cancelled at the deadline still returns an
            // outcome, and does so at once.
            for await outcome in group {
                group.cancelAll()
                if let outcome { return outcome }
            }
            return .failure(VerificationError(.revocationUnknown, "The verification did not end."))
        }
    }

    private func verify(_ payload: String, at now: Timestamp) async -> Outcome {
        do throws(VerificationError) {
            return .success(
                try await service.verifier.verify(payload.utf8, as: DecodedRealtimeRequestBody.self, at: now))
        } catch {
            return .failure(error)
        }
    }

    // MARK: - Answers

    /// The app with this Apple ID and with retention rules.
    private func app(_ appleId: Int64?) -> AppConfiguration? {
        service.apps.values.first { $0.retention != nil && $0.identity.appAppleId == appleId && appleId != nil }
    }

    /// The app that an unverified request names. The request need not be trusted, because its answer is only the
    /// default message, which is no secret.
    private func app(claimedBy payload: String) -> AppConfiguration? {
        // A text without claims names no app.
        let claims = (try? JWS(payload.utf8)).flatMap { JSONValue(readable: $0.payload) }
        return app(claims?["appAppleId"]?.integer)
    }

    private func answer(to request: DecodedRealtimeRequestBody) throws -> RealtimeResponseBody {
        let app = app(request.appAppleId)
        guard let app, var answer = app.retention?.answer(to: request) else { throw Refusal.noRetentionMessage }
        if answer.isSigned, let reason = staleness(of: request) {
            withoutOffer.log(["reason": .string(reason)])
            answer = .message(answer.messageIdentifier)
        }
        do throws(SigningError) {
            return try body(answer, for: request.originalTransactionId, of: app)
        } catch {
            return try defaultAnswer(of: app, because: error.description)
        }
    }

    /// The reason why a request gets no offer; `nil` if the signing date is recent.
    private func staleness(of request: DecodedRealtimeRequestBody) -> String? {
        guard let signed = request.signedDate else { return "The request does not say when it was signed." }
        let age = signed.duration(to: now())
        guard max(age, .zero - age) > Self.freshness else { return nil }
        let side = age > .zero ? "before" : "after"
        let minutes = Int(Self.freshness / .seconds(60))
        return "The request was signed more than \(minutes) minutes \(side) this machine's time."
    }

    private func defaultAnswer(of app: AppConfiguration?, because reason: String) throws -> RealtimeResponseBody {
        guard let app, let answer = app.retention?.defaultAnswer else { throw Refusal.noRetentionMessage }
        warning.log(["reason": .string(reason)])
        return try body(answer, for: nil, of: app)
    }

    private func body(
        _ answer: RetentionAnswer, for transactionId: String?, of app: AppConfiguration
    ) throws(SigningError) -> RealtimeResponseBody {
        try answer.body(
            signedBy: service.signing?.signer(for: app.identity.bundleId), for: transactionId,
            nonce: service.signing?.nonce() ?? "", at: now())
    }
}

extension Refusal {
    /// The refusal of a request for which the configuration has no message. Apple documents no answer for this case. It
    /// is therefore treated like a failure, after which the App Store shows the default message that was set through
    /// its API, if there is one.
    fileprivate static let noRetentionMessage = Refusal(
        .noRetentionMessage, "The configuration has no message for this request.")
}
