// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import HTTPTypes
import Hummingbird
import Logging
import Synchronization

/// The requests that the log includes.
public enum RequestLogPolicy: Hashable, Sendable {
    /// All requests.
    case all
    /// Failed requests: with a status of 400 or more, or with a verifyReceipt status other than 0.
    case errors
    /// Every n-th request, and all failed requests.
    case oneIn(Int)
    /// No requests.
    case off

    /// Parses `all`, `errors`, `off`, or a number from 2 to 1,000,000 for ``oneIn(_:)``; `nil` for any other text.
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

/// The shared state of the request logs on all ports of a server.
final class RequestLogState: Sendable {
    fileprivate let ids: RequestIDs
    fileprivate let refusals = GenuineRefusals()
    fileprivate let sampler = Sampler()

    /// - Parameter seed: A random number, so that ids differ from the ids before a restart.
    init(seed: UInt64) { ids = RequestIDs(seed: seed) }
}

/// Gives each request an id, turns errors into responses, and writes a log line for each response.
///
/// The line has the route and never the whole path, because the path contains customer ids. A single middleware does
/// all of this work, since each middleware costs time in every request.
struct RequestLog<Context: RequestContext>: RouterMiddleware {
    let policy: RequestLogPolicy
    /// The words that a log may have of a path that no route has.
    let words: Set<Substring>
    let logger: Logger
    let now: @Sendable () -> Timestamp
    let clock: any Clock<Duration>
    let state: RequestLogState

    private var errors: ErrorResponder { ErrorResponder(logger: logger) }

    func handle(
        _ request: Request, context: Context, next: (Request, Context) async throws -> Response
    ) async throws -> Response {
        let notes = RequestNotes(id: state.ids.id(request.headers))
        let duration = clock.stopwatch()
        var response = await RequestNotes.$current.withValue(notes) {
            do {
                if let fault = MalformedRequest(path: request.head.path) { throw fault.refusal }
                return try await next(request, context)
            } catch {
                return errors.response(to: error, of: notes, route: context.route)
            }
        }
        // The response to HEAD keeps the `Content-Length` of the response to GET (RFC 9110 section 9.3.2).
        if request.method == .head { response = response.createHeadResponse() }
        // An answer concerns one customer at one moment, so no cache on the way or on a device may store the answer.
        response.headers[.cacheControl] = "no-store"
        if let name = HTTPField.Name.requestID { response.headers[name] = notes.id }
        let all = notes.all
        if let failure = all.failure { errors.log(failure, of: notes, route: context.route) }
        if let refusal = all.refusal {
            state.refusals.warn(of: refusal, request: notes.id, route: context.route, at: now(), to: logger)
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
        case .oneIn(let count): state.sampler.selects(oneIn: count) || failed
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
        if context.route == "none" { line["path"] = .string(shape(of: request.uri.path)) }
        line["key"] = notes.key.map { .string($0) }
        line["code"] = notes.code.map { .string($0) }
        line["form"] = notes.form.map { .string($0) }
        line["verifyReceiptStatus"] = notes.verifyReceiptStatus.map { .stringConvertible($0) }
        return line
    }

    /// The first eight segments of a path, with `*` for each unknown word, which may be an id or a secret.
    private func shape(of path: String) -> String {
        let segments = path.split(separator: "/", maxSplits: 8).prefix(8).map { words.contains($0) ? $0 : "*" }
        return "/" + segments.joined(separator: "/")
    }
}

extension RequestContext {
    /// The template of the route, such as `/v1/customers/{id}`; `none` if no route matches.
    var route: String { endpointPath.flatMap { $0 == "NotFound" ? nil : $0 } ?? "none" }
}

/// Selects every n-th request.
fileprivate final class Sampler: Sendable {
    private let count = Atomic<Int>(0)

    func selects(oneIn n: Int) -> Bool { count.wrappingAdd(1, ordering: .relaxed).oldValue % n == 0 }
}
