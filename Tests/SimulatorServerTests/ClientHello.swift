// SPDX-License-Identifier: Apache-2.0

import NIOCore
import NIOPosix

/// What a client says in the first message of TLS (RFC 8446 section 4.1.2).
struct ClientHello {
    /// The protocols that it offers to speak (RFC 7301), such as `h2`.
    var protocols: [String] = []

    /// Reads the message.
    ///
    /// - Returns: `nil` if the buffer does not have all of it, or something else.
    init?(reading buffer: ByteBuffer) {
        var buffer = buffer
        guard buffer.readInteger(as: UInt8.self) == 22, buffer.skip(2), var record = buffer.readVector(of: UInt16.self),
            record.readInteger(as: UInt8.self) == 1, record.skip(3 + 2 + 32),
            record.readVector(of: UInt8.self) != nil, record.readVector(of: UInt16.self) != nil,
            record.readVector(of: UInt8.self) != nil, var extensions = record.readVector(of: UInt16.self)
        else { return nil }
        while let kind = extensions.readInteger(as: UInt16.self), var body = extensions.readVector(of: UInt16.self) {
            guard kind == 16, var list = body.readVector(of: UInt16.self) else { continue }
            while let name = list.readVector(of: UInt8.self) { protocols.append(String(buffer: name)) }
        }
    }

    /// The message of the client that `connect` makes to speak to a port, which closes the connection after it.
    static func sent(by connect: (_ port: Int) async throws -> Void) async throws -> ClientHello? {
        let (hellos, received) = AsyncStream<ClientHello>.makeStream()
        let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(Reader(received))
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        // The call fails, since nobody answers.
        try? await connect(channel.localAddress?.port ?? 0)
        try await channel.close()
        received.finish()
        return await hellos.first { _ in true }
    }

    private final class Reader: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        private let received: AsyncStream<ClientHello>.Continuation
        private var buffer = ByteBuffer()

        init(_ received: AsyncStream<ClientHello>.Continuation) {
            self.received = received
        }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            var new = unwrapInboundIn(data)
            buffer.writeBuffer(&new)
            guard let hello = ClientHello(reading: buffer) else { return }
            received.yield(hello)
            context.close(promise: nil)
        }
    }
}

extension ByteBuffer {
    fileprivate mutating func skip(_ count: Int) -> Bool { readSlice(length: count) != nil }

    /// Reads a length, and so many bytes.
    fileprivate mutating func readVector<Length: FixedWidthInteger>(of _: Length.Type) -> ByteBuffer? {
        guard let length = readInteger(as: Length.self) else { return nil }
        return readSlice(length: Int(length))
    }
}
