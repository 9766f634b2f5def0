// SPDX-License-Identifier: Apache-2.0

import HTTPTypes
import Hummingbird
import NIOCore
import NIOPosix
import PurchaseServer
import Testing

/// How a request's body is read, and where it is dealt with.
@Suite struct RequestBodyTests {
    /// What becomes of a body that comes in these pieces, with a pause before each.
    private static func read(
        _ pieces: [Int], pause: Duration = .zero, timeout: Duration = .seconds(60), length: Int? = nil,
        fails: Bool = false
    ) async throws -> Result<[UInt8], HTTPResponse.Status> {
        let chunks = AsyncThrowingStream<ByteBuffer, any Error> { continuation in
            Task {
                for (index, count) in pieces.enumerated() {
                    try await Task.sleep(for: pause)
                    continuation.yield(ByteBuffer(repeating: UInt8(index), count: count))
                }
                continuation.finish(throwing: fails ? ChannelError.inputClosed : nil)
            }
        }
        var head = HTTPRequest(method: .post, scheme: nil, authority: nil, path: "/")
        head.headerFields[.contentLength] = length.map(String.init)
        do {
            let request = Request(head: head, body: RequestBody(asyncSequence: chunks))
            return .success(try await request.body(upTo: 100, within: timeout))
        } catch let error as HTTPError {
            return .failure(error.status)
        }
    }

    @Test func `a body is all of its pieces, up to its longest`() async throws {
        #expect(try await Self.read([]) == .success([]))
        #expect(try await Self.read([2, 0, 1]) == .success([0, 0, 2]))
        #expect(try await Self.read([60, 40]).map(\.count) == .success(100))
        #expect(try await Self.read([60, 41]) == .failure(.contentTooLarge))
        #expect(try await Self.read([101]) == .failure(.contentTooLarge))
    }

    @Test func `a body that says that it is too long is not read`() async throws {
        #expect(try await Self.read([1], length: 101) == .failure(.contentTooLarge))
        #expect(try await Self.read([1], length: 100) == .success([0]))
    }

    @Test func `a body that goes on for too long is a timeout, and one that breaks off a bad request`() async throws {
        // However late it is, the second piece comes later than that.
        let slow = try await Self.read([1, 1], pause: .milliseconds(50), timeout: .milliseconds(10))
        #expect(slow == .failure(.requestTimeout))
        #expect(try await Self.read([1], fails: true) == .failure(.badRequest))
    }

    /// Whether what a body of so many bytes asks for is done on the connection's thread.
    private static func staysOnLoop(_ count: Int) async -> Bool {
        await withTaskExecutorPreference(EventLoopExecutor(loop: MultiThreadedEventLoopGroup.singleton.next())) {
            await aside([UInt8](repeating: 0, count: count)) { _ in MultiThreadedEventLoopGroup.currentEventLoop != nil
            }
        }
    }

    @Test func `what is short is done on its connection's thread, and what is long aside`() async {
        #expect(await Self.staysOnLoop(20_000))
        #expect(await Self.staysOnLoop(64 << 10))
        #expect(await !Self.staysOnLoop(64 << 10 | 1))
    }
}

extension HTTPResponse.Status: @retroactive Error {}
