// SPDX-License-Identifier: Apache-2.0

import HTTPTypes
package import Hummingbird
package import Logging
import NIOCore
import NIOHTTPTypes

/// Reads the bodies of requests, and makes answers, within the bounds of ``ServerBounds``. Short bodies are handled at
/// once, on the thread of their connection. Long bodies and long answers wait in a queue for other threads.
package final class BodyIntake: Sendable {
    private let bounds: ServerBounds
    package let queue: LongBodyQueue
    private let warning: ThrottledWarning
    let budget: ByteBudget

    package init(
        _ bounds: ServerBounds, queue: LongBodyQueue = LongBodyQueue(), clock: any Clock<Duration>, logger: Logger
    ) {
        self.bounds = bounds
        self.queue = queue
        budget = ByteBudget(bounds.bodyBytesInFlight)
        warning = ThrottledWarning(
            "Long bodies or answers were refused: too many bytes are in flight",
            ["bodyBytesInFlight": "\(bounds.bodyBytesInFlight)"], clock: clock, logger)
    }

    /// Reads the whole body of a request, then calls `handle`.
    ///
    /// - Throws: `HTTPError`: 413 if the body is longer than `limit`; 408 if the body takes too long to arrive; 400 if
    ///   the body is incomplete, or the client disconnects while the body waits in the queue. ``Refusal/overloaded`` if
    ///   the body is long, and too many bytes are in flight or too many bodies wait. ``Refusal/encoded`` if the body is
    ///   compressed.
    package func withBody<Result: Sendable>(
        of request: Request, upTo limit: Int, _ handle: @Sendable ([UInt8]) async throws -> Result
    ) async throws -> Result {
        let connection = ClientConnection.current
        try request.requirePlainBody(upTo: limit)
        if request.headers.contains(.expect) { connection?.requestBody() }
        let client = bounds.client(connection?.peer, request.headers)
        var reserved = 0
        defer { if reserved > 0 { budget.release(reserved, of: client) } }
        do {
            let body = try await request.body(upTo: limit) { count in
                guard budget.reserve(count, for: client) else { throw Refusal.overloaded }
                reserved += count
            }
            guard body.count > ServerBounds.shortBody else { return try await handle(body) }
            return try await queue.run(body.count, for: client, until: connection?.closed) { try await handle(body) }
        } catch let refusal as Refusal where refusal.isOverload {
            warning.log()
            throw refusal
        } catch is CancellationError {
            // The client has disconnected and cannot read this error.
            throw HTTPError(.badRequest)
        }
    }

    /// Makes an answer from rows of the ledger. For a long answer, bytes are reserved first, and stay reserved until
    /// the answer is sent. A long answer also waits in the queue.
    ///
    /// - Parameters:
    ///   - rows: The approximate number of transaction statements that the ledger must load for the answer, plus the
    ///     number of the answer's other rows.
    ///   - prepare: Called before the wait in the queue, for work that waits for the disk or the App Store.
    ///   - isAnswer: Whether a result is the answer to the client. Otherwise the bytes are released at once, for the
    ///     next attempt.
    /// - Throws: ``Refusal/overloaded`` if other requests have reserved too many bytes, or if too many long bodies and
    ///   answers wait; `HTTPError` if the client disconnects while the answer waits in the queue; errors of the
    ///   closures.
    package func withAnswer<Result: Sendable>(
        of rows: Int, to request: Request, after prepare: @Sendable () async throws -> Void = {},
        isAnswer: @Sendable (Result) -> Bool = { _ in true }, _ make: @Sendable () async throws -> Result
    ) async throws -> Result {
        let size = rows * ServerBounds.answerRow
        guard size > ServerBounds.shortBody else {
            try await prepare()
            return try await make()
        }
        let connection = ClientConnection.current
        let client = bounds.client(connection?.peer, request.headers)
        do {
            guard let reserved = budget.reserveAnswer(size, for: client) else { throw Refusal.overloaded }
            try await prepare()
            let result = try await queue.run(size, for: client, until: connection?.closed, make)
            if isAnswer(result) { connection?.hold(reserved) }
            return result
        } catch let refusal as Refusal where refusal.isOverload {
            warning.log()
            throw refusal
        } catch is CancellationError {
            // The client has disconnected and cannot read this error.
            throw HTTPError(.badRequest)
        }
    }
}

extension Request {
    /// The value of `Content-Length`: 0 without the field, and `Int.max` for a greater number, such as 2^63.
    private var announcedLength: Int { headers[.contentLength].map { Int($0) ?? .max } ?? 0 }

    /// Refuses a body by the head alone. A client that waits for 100 (Continue) then does not send the body.
    fileprivate func requirePlainBody(upTo limit: Int) throws {
        guard announcedLength <= limit else { throw HTTPError(.contentTooLarge) }
        guard ["", "identity"].contains(headers[.contentEncoding]?.lowercased() ?? "") else { throw Refusal.encoded }
    }

    /// Reads the whole body.
    ///
    /// - Parameter reserve: Called with the number of further bytes beyond ``ServerBounds/shortBody``, before the bytes
    ///   are stored.
    fileprivate func body(upTo limit: Int, _ reserve: (Int) throws -> Void) async throws -> [UInt8] {
        let length = announcedLength
        var bytes: [UInt8] = []
        var iterator = body.makeAsyncIterator()
        while let chunk = try await iterator.nextChunk() {
            guard chunk.readableBytes <= limit - bytes.count else { throw HTTPError(.contentTooLarge) }
            let count = bytes.count + chunk.readableBytes
            if count > ServerBounds.shortBody {
                try reserve(count - max(bytes.count, ServerBounds.shortBody))
                bytes.reserveCapacity(length)
            }
            bytes += chunk.readableBytesView
        }
        return bytes
    }
}

extension RequestBody.AsyncIterator {
    fileprivate mutating func nextChunk() async throws -> ByteBuffer? {
        do {
            return try await next()
        } catch let error as HTTPError {
            throw error
        } catch {
            throw HTTPError(.badRequest)
        }
    }
}

/// The connection of the current request.
struct ClientConnection: Sendable {
    @TaskLocal static var current: ClientConnection?

    /// The address of the client or proxy.
    var peer: IPAddress?
    var channel: any Channel

    /// Completes when the connection is closed.
    var closed: EventLoopFuture<Void> { channel.closeFuture }

    /// Keeps the reservation for the next response until the response is sent.
    func hold(_ reserved: ReservedBytes) { channel.triggerUserOutboundEvent(reserved, promise: nil) }

    /// Sends 100 (Continue). The client waits for this response before sending the body (RFC 9110 section 10.1.1).
    func requestBody() { channel.writeAndFlush(HTTPResponsePart.head(HTTPResponse(status: .continue)), promise: nil) }
}
