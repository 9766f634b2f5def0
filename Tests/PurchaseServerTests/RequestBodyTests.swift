// SPDX-License-Identifier: Apache-2.0

import HTTPTypes
import Hummingbird
import Logging
import NIOCore
import NIOPosix
import PurchaseServer
import Synchronization
import Testing

/// How the server reads the body of a request, and on which thread it handles it.
@Suite struct RequestBodyTests {
    /// A body that consists of chunks. It records whether it was read.
    private final class Chunks: AsyncSequence, Sendable {
        typealias Element = ByteBuffer
        private let counts: [Int]
        private let error: (any Error)?
        let wereRead = Mutex(false)

        init(_ counts: [Int], error: (any Error)?) { (self.counts, self.error) = (counts, error) }

        func makeAsyncIterator() -> Iterator { Iterator(chunks: self) }

        struct Iterator: AsyncIteratorProtocol {
            let chunks: Chunks
            var index = 0

            mutating func next() async throws -> ByteBuffer? {
                chunks.wereRead.withLock { $0 = true }
                guard index < chunks.counts.count else {
                    if let error = chunks.error { throw error }
                    return nil
                }
                defer { index += 1 }
                return ByteBuffer(repeating: UInt8(index), count: chunks.counts[index])
            }
        }
    }

    private enum Outcome: Equatable {
        case body([UInt8])
        case refused(HTTPResponse.Status)
        /// Refused before any chunk was read.
        case refusedUnread(HTTPResponse.Status)
    }

    /// The outcome for a body in these chunks.
    private static func read(
        _ counts: [Int], length: String? = nil, error: (any Error)? = nil
    ) async throws -> Outcome {
        let chunks = Chunks(counts, error: error)
        var head = HTTPRequest(method: .post, scheme: nil, authority: nil, path: "/")
        head.headerFields[.contentLength] = length
        let request = Request(head: head, body: RequestBody(asyncSequence: chunks))
        let intake = BodyIntake(ServerBounds(), clock: VirtualClock(), logger: Logger(label: "test"))
        do {
            return .body(try await intake.withBody(of: request, upTo: 100) { $0 })
        } catch let error as HTTPError {
            return chunks.wereRead.withLock { $0 } ? .refused(error.status) : .refusedUnread(error.status)
        }
    }

    @Test func `a body is all of its chunks, up to the limit`() async throws {
        #expect(try await Self.read([]) == .body([]))
        #expect(try await Self.read([2, 0, 1]) == .body([0, 0, 2]))
        #expect(
            try await Self.read([60, 40]) == .body(.init(repeating: 0, count: 60) + .init(repeating: 1, count: 40)))
        #expect(try await Self.read([60, 41]) == .refused(.contentTooLarge))
        #expect(try await Self.read([101]) == .refused(.contentTooLarge))
    }

    @Test func `a body whose announced length is too long is not read`() async throws {
        #expect(try await Self.read([1], length: "101") == .refusedUnread(.contentTooLarge))
        #expect(try await Self.read([1], length: "100") == .body([0]))
        #expect(try await Self.read([1], length: "-1") == .body([0]))
        #expect(try await Self.read([1], length: "9223372036854775808") == .refusedUnread(.contentTooLarge))
    }

    @Test func `a body that takes too long is a timeout, and an incomplete one a bad request`() async throws {
        #expect(try await Self.read([1], error: HTTPError(.requestTimeout)) == .refused(.requestTimeout))
        #expect(try await Self.read([1], error: ChannelError.inputClosed) == .refused(.badRequest))
    }

    /// Whether a body of this many bytes is handled on the thread of its connection.
    private static func staysOnLoop(_ count: Int) async throws -> Bool {
        let intake = BodyIntake(ServerBounds(), clock: VirtualClock(), logger: Logger(label: "test"))
        let head = HTTPRequest(method: .post, scheme: nil, authority: nil, path: "/")
        let request = Request(head: head, body: RequestBody(buffer: ByteBuffer(repeating: 0, count: count)))
        return try await withTaskExecutorPreference(
            EventLoopExecutor(loop: MultiThreadedEventLoopGroup.singleton.next())
        ) {
            try await intake.withBody(of: request, upTo: 1 << 20) { _ in
                MultiThreadedEventLoopGroup.currentEventLoop != nil
            }
        }
    }

    @Test func `short bodies are handled on their connection's thread, and long ones on another`() async throws {
        #expect(try await Self.staysOnLoop(20_000))
        #expect(try await Self.staysOnLoop(64 << 10))
        #expect(try await !Self.staysOnLoop(64 << 10 | 1))
    }
}
