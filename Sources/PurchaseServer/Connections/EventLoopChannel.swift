// SPDX-License-Identifier: Apache-2.0

import HummingbirdCore
import Logging
package import NIOCore
import NIOHTTPTypes

/// Answers the requests of a connection on the thread that reads and writes it.
///
/// Otherwise each chunk of a body, each step of its handling and each answer would change threads, which costs more than most
/// of the steps. What waits for the disk waits elsewhere, and so does what takes long; see ``BodyIntake``.
struct EventLoopChannel: ServerChildChannel {
    let http: HTTP1Channel
    let counter: ConnectionCounter

    init(
        _ responder: @escaping HTTPChannelHandler.Responder, _ bounds: ServerBounds, _ budget: ByteBudget,
        counter: ConnectionCounter
    ) {
        let head = HTTP1Channel.Configuration.DecoderConfiguration(
            maxHeaderFieldSize: ServerBounds.head, maxHeaderListSize: ServerBounds.head,
            maxHeaderFieldCount: ServerBounds.headFields)
        http = HTTP1Channel(
            responder: responder,
            configuration: .init(
                additionalChannelHandlers: [ConnectionDeadlines(bounds, budget)], httpDecoderConfiguration: head))
        self.counter = counter
    }

    func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<HTTP1Channel.Value> {
        let peer = IPAddress(channel.remoteAddress)
        guard counter.enter(peer) else {
            channel.close(promise: nil)
            return channel.eventLoop.makeFailedFuture(ChannelError.alreadyClosed)
        }
        channel.closeFuture.whenComplete { _ in counter.leave(peer) }
        channel.setBuffers()
        return http.setup(channel: channel, logger: logger)
    }

    func handle(value: HTTP1Channel.Value, logger: Logger) async {
        let connection = ClientConnection(
            peer: IPAddress(value.channel.remoteAddress), closed: value.channel.closeFuture)
        await ClientConnection.$current.withValue(connection) {
            await withTaskExecutorPreference(EventLoopExecutor(loop: value.channel.eventLoop)) {
                await http.handle(value: value, logger: logger)
            }
        }
    }
}

extension Channel {
    /// Bounds what one connection keeps in memory, here and in the kernel. A connection that is closed already has no options.
    fileprivate func setBuffers() {
        let allocator = FixedSizeRecvByteBufferAllocator(capacity: ServerBounds.readSize)
        try? syncOptions?.setOption(.recvAllocator, value: allocator)
        try? syncOptions?.setOption(.maxMessagesPerRead, value: 1)
        try? syncOptions?.setOption(.socketOption(.so_rcvbuf), value: .init(ServerBounds.socketBuffer))
        try? syncOptions?.setOption(.socketOption(.so_sndbuf), value: .init(ServerBounds.socketBuffer))
    }
}

/// Runs tasks on the thread of an event loop.
package final class EventLoopExecutor: TaskExecutor {
    private let loop: any EventLoop

    package init(loop: any EventLoop) {
        self.loop = loop
    }

    package func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        loop.execute { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}
