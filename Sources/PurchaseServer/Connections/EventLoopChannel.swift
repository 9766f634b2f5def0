// SPDX-License-Identifier: Apache-2.0

import HummingbirdCore
import Logging
package import NIOCore
import NIOHTTPTypes

/// Handles the requests of a connection on the thread of its event loop.
///
/// Without this type, every body chunk, handler step and response would move to a different thread, and such a move
/// costs more than most of the steps. Disk access and long bodies use other threads; see ``BodyIntake``.
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
        let counter = counter
        do {
            switch counter.enter(peer, close: { channel.close(promise: nil) }) {
            case .admitted(let number):
                channel.closeFuture.whenComplete { _ in counter.leave(number, of: peer) }
                return try admit(channel, number, logger)
            case .full(isTold: true):
                channel.closeFuture.whenComplete { _ in counter.leaveRefused() }
                channel.setBuffers()
                try channel.pipeline.syncOperations.addHandler(FullServer())
                return http.setup(channel: channel, logger: logger)
            case .full, .tooMany:
                channel.close(promise: nil)
                throw ChannelError.alreadyClosed
            }
        } catch {
            return channel.eventLoop.makeFailedFuture(error)
        }
    }

    private func admit(
        _ channel: any Channel, _ number: Int, _ logger: Logger
    ) throws -> EventLoopFuture<HTTP1Channel.Value> {
        channel.setBuffers()
        let value = http.setup(channel: channel, logger: logger)
        let pipeline = channel.pipeline.syncOperations
        try RequestRules.add(to: pipeline)
        try pipeline.handler(type: ConnectionDeadlines.self).slot = (counter, number)
        return value
    }

    func handle(value: HTTP1Channel.Value, logger: Logger) async {
        let connection = ClientConnection(peer: IPAddress(value.channel.remoteAddress), channel: value.channel)
        await ClientConnection.$current.withValue(connection) {
            await withTaskExecutorPreference(EventLoopExecutor(loop: value.channel.eventLoop)) {
                await http.handle(value: value, logger: logger)
            }
        }
    }
}

extension Channel {
    /// Bounds the memory of a connection, in the process and in the kernel.
    fileprivate func setBuffers() {
        func set<Option: ChannelOption>(_ option: Option, _ value: Option.Value) {
            // A closed connection has no options.
            try? syncOptions?.setOption(option, value: value)
        }
        set(.recvAllocator, FixedSizeRecvByteBufferAllocator(capacity: ServerBounds.readSize))
        set(.maxMessagesPerRead, 1)
        set(.socketOption(.so_rcvbuf), .init(ServerBounds.socketBuffer))
        set(.socketOption(.so_sndbuf), .init(ServerBounds.socketBuffer))
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
