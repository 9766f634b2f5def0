// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import HTTPTypes
import Hummingbird
import Logging
import Synchronization

/// Which requests the log has a line for.
public enum RequestLogPolicy: Hashable, Sendable {
    case all
    /// Those that failed: a status of 400 or more, or another verifyReceipt status than 0.
    case errors
    /// One in so many, and those that failed.
    case oneIn(Int)
    case off

    /// `all`, `errors`, `off`, or a number from 2 to 1,000,000 for ``oneIn(_:)``.
    public init?(_ text: String) {
        switch text {
        case "all": self = .all
        case "errors": self = .errors
        case "off": self = .off
        default:
            guard let number = Int(text), (2...1_000_000).contains(number) else { return nil }
            self = .oneIn(number)
        }
    }
}

/// What the log says of one request besides its route and status. Endpoints note what they find out while they work.
final class RequestNotes: Sendable {
    /// Those of the request that this task works on.
    @TaskLocal static var current: RequestNotes?

    struct Notes {
        /// The public part of the API key.
        var key: String?
        /// The code of the error that was answered.
        var code: String?
        /// The `status` of a verifyReceipt answer.
        var verifyReceiptStatus: Int?
        /// Why a document was not accepted.
        var refusal: VerificationError?
        /// What failed here, if the answer is not an error itself.
        var failure: (any Error)?
    }

    let id: String
    private let notes = Mutex(Notes())

    init(id: String) {
        self.id = id
    }

    var all: Notes { notes.withLock { $0 } }

    static func add(_ change: (inout Notes) -> Void) { current?.add(change) }

    func add(_ change: (inout Notes) -> Void) { notes.withLock { change(&$0) } }
}

/// What the requests of a server have in common, whichever of its ports they come to.
final class RequestCounts: Sendable {
    fileprivate let ids: RequestIDs
    fileprivate let refusals = GenuineRefusals()
    fileprivate let sampler = Sampler()

    /// - Parameter seed: A random number, so that ids differ from those before a restart.
    init(seed: UInt64) {
        ids = RequestIDs(seed: seed)
    }
}

/// Gives each request an id, which its answer has too, and writes a line when it is answered: the route and never the path, in
/// which the ids of customers are. Errors are answered here too, also those of requests that no route matches, because each
/// middleware costs every request.
struct RequestLog<Context: RequestContext>: RouterMiddleware {
    let policy: RequestLogPolicy
    let logger: Logger
    let now: @Sendable () -> Timestamp
    let clock: any Clock<Duration>
    let counts: RequestCounts
    private let errors: ErrorResponder

    init(
        _ policy: RequestLogPolicy, _ counts: RequestCounts, logger: Logger, now: @escaping @Sendable () -> Timestamp,
        clock: any Clock<Duration>
    ) {
        self.policy = policy
        self.counts = counts
        self.logger = logger
        self.now = now
        self.clock = clock
        errors = ErrorResponder(logger: logger)
    }

    func handle(
        _ request: Request, context: Context, next: (Request, Context) async throws -> Response
    ) async throws -> Response {
        let notes = RequestNotes(id: counts.ids.id(request.headers))
        let duration = clock.stopwatch()
        var response = await RequestNotes.$current.withValue(notes) {
            do { return try await next(request, context) } catch {
                return errors.response(to: error, of: notes, route: context.route)
            }
        }
        if let name = HTTPField.Name.requestID { response.headers[name] = notes.id }
        let all = notes.all
        if let failure = all.failure { errors.log(failure, of: notes, route: context.route) }
        if let refusal = all.refusal {
            counts.refusals.warn(of: refusal, request: notes.id, route: context.route, at: now(), to: logger)
        }
        let status = response.status.code
        if isLogged(failed: status >= 400 || all.verifyReceiptStatus ?? 0 != 0) {
            logger.info("request", metadata: line(request, context, status, all, notes.id, duration()))
        }
        return response
    }

    private func isLogged(failed: Bool) -> Bool {
        switch policy {
        case .all: true
        case .errors: failed
        case .oneIn(let count): counts.sampler.isNext(of: count) || failed
        case .off: false
        }
    }

    private func line(
        _ request: Request, _ context: Context, _ status: Int, _ notes: RequestNotes.Notes, _ id: String,
        _ duration: Duration
    ) -> Logger.Metadata {
        let milliseconds = duration.components.seconds * 1000 + duration.components.attoseconds / 1_000_000_000_000_000
        var line: Logger.Metadata = [
            "route": .string(context.route), "method": .string("\(request.method)"),
            "status": .stringConvertible(status), "ms": .stringConvertible(milliseconds), "requestId": .string(id),
        ]
        line["key"] = notes.key.map { .string($0) }
        line["code"] = notes.code.map { .string($0) }
        line["verifyReceiptStatus"] = notes.verifyReceiptStatus.map { .stringConvertible($0) }
        return line
    }
}

extension RequestContext {
    /// The template of the route, such as `/v1/customers/{id}`; `none` if no route matched.
    var route: String { endpointPath.flatMap { $0 == "NotFound" ? nil : $0 } ?? "none" }
}

/// Picks one in so many.
fileprivate final class Sampler: Sendable {
    private let count = Atomic<Int>(0)

    func isNext(of all: Int) -> Bool { count.wrappingAdd(1, ordering: .relaxed).oldValue % all == 0 }
}

/// Warns of documents that the App Store did sign and that were refused all the same, since the fault is mostly in this server's
/// configuration: an app or environment that is missing, or a version that is too old.
///
/// Anyone may send such a document again and again, so that there are few warnings a minute.
final class GenuineRefusals: Sendable {
    /// Warnings in a minute; the next one has the number of those that were left out.
    static let most = 10

    private struct State {
        var minute: Int64 = .min
        var count = 0
        var suppressed = 0
    }

    private let state = Mutex(State())

    func warn(
        of error: VerificationError, request id: String, route: String, at now: Timestamp, to logger: Logger
    ) {
        guard [.otherApp, .otherEnvironment, .unreadable].contains(error.code), let suppressed = admit(at: now) else {
            return
        }
        var line: Logger.Metadata = [
            "route": .string(route), "code": .string(error.code.rawValue), "requestId": .string(id),
            "bundleId": .string(error.origin?.bundleId ?? "unknown"),
            "environment": .string(error.origin?.environment ?? "unknown"),
        ]
        if suppressed > 0 { line["suppressed"] = .stringConvertible(suppressed) }
        logger.warning("A genuine document was refused", metadata: line)
    }

    /// - Returns: How many warnings were left out since the last; `nil` if this one is too.
    private func admit(at now: Timestamp) -> Int? {
        state.withLock { state in
            let minute = now.milliseconds / 60_000
            if minute != state.minute { (state.minute, state.count) = (minute, 0) }
            guard state.count < Self.most else {
                state.suppressed += 1
                return nil
            }
            state.count += 1
            defer { state.suppressed = 0 }
            return state.suppressed
        }
    }
}
