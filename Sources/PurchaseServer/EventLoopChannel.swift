// SPDX-License-Identifier: Apache-2.0

import HummingbirdCore
import Logging
package import NIOCore
import NIOHTTPTypes

/// Answers the requests of a connection on the thread that reads and writes it.
///
/// Else each chunk of a body, each step of its handling and each answer would change threads, which costs more than most of the
/// steps. What waits for the disk waits elsewhere, and so does what takes long; see ``aside(_:_:)``.
struct EventLoopChannel: ServerChildChannel {
    let http: HTTP1Channel

    func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<HTTP1Channel.Value> {
        http.setup(channel: channel, logger: logger)
    }

    func handle(value: HTTP1Channel.Value, logger: Logger) async {
        await withTaskExecutorPreference(EventLoopExecutor(loop: value.channel.eventLoop)) {
            await http.handle(value: value, logger: logger)
        }
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

/// The longest body that is dealt with on its connection's thread: all that the App Store sends, and most receipts. The worst of
/// this size takes some milliseconds, for which the other connections of the thread wait.
private let longestQuickBody = 64 << 10

/// Does what a body asks for, on another thread where it is long.
package func aside<Result: Sendable>(
    _ body: [UInt8], _ work: @Sendable ([UInt8]) async throws -> Result
) async rethrows -> Result {
    guard body.count > longestQuickBody else { return try await work(body) }
    return try await withTaskExecutorPreference(globalConcurrentExecutor) { try await work(body) }
}
