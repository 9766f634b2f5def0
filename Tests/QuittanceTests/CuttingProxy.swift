// SPDX-License-Identifier: Apache-2.0

import AppStoreSimulator
import Foundation
import NIOCore
import NIOPosix
import PurchaseLedger
import Synchronization

/// Stands before PostgreSQL and cuts connections at a COMMIT: before it is passed on, or when it was passed on and its
/// answer is not back.
final class CuttingProxy: Sendable {
    enum Cut: CaseIterable {
        case before, after
    }

    private struct Plan {
        var random: SeededRandom
        var cuts = 0
        var isOver = false
    }

    private let plan: Mutex<Plan>
    private let listener: any Channel
    /// Where its socket is.
    let folder: String

    init(before server: String, in folder: URL, seed: UInt64) async throws {
        let plan = Mutex(Plan(random: SeededRandom(seed: seed)))
        self.plan = plan
        self.folder = folder.path
        let cutter = Cutter()
        listener = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { client in
                ClientBootstrap(group: client.eventLoop)
                    .channelInitializer { server in
                        server.eventLoop.makeCompletedFuture {
                            try server.pipeline.syncOperations.addHandler(PassingHandler(to: client))
                        }
                    }
                    .connect(unixDomainSocketPath: "\(server)/.s.PGSQL.5432")
                    .flatMap { server in
                        client.eventLoop.makeCompletedFuture {
                            try client.pipeline.syncOperations.addHandler(CommitHandler(to: server, cutter))
                        }
                    }
            }
            .bind(unixDomainSocketPath: "\(folder.path)/.s.PGSQL.5432", cleanupExistingSocketFile: true).get()
        cutter.draw.withLock { $0 = { [weak self] in self?.draw() } }
    }

    /// How many connections it has cut.
    var cuts: Int { plan.withLock { $0.cuts } }

    /// From now on it passes everything.
    func stop() { plan.withLock { $0.isOver = true } }

    func close() async throws { try await listener.close() }

    /// One commit in eight is cut.
    private func draw() -> Cut? {
        plan.withLock { plan in
            guard !plan.isOver, Int.random(in: 0..<8, using: &plan.random) == 0 else { return nil }
            plan.cuts += 1
            return Cut.allCases.randomElement(using: &plan.random)
        }
    }
}

/// Decides about each COMMIT. The listener needs it before there is a proxy.
private final class Cutter: Sendable {
    let draw = Mutex<@Sendable () -> CuttingProxy.Cut?>({ nil })
}

/// Passes what PostgreSQL answers.
private final class PassingHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private let peer: any Channel

    init(to peer: any Channel) { self.peer = peer }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        peer.writeAndFlush(unwrapInboundIn(data), promise: nil)
    }

    func channelInactive(context: ChannelHandlerContext) { peer.close(promise: nil) }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}

/// Passes what a client sends, up to a COMMIT that is cut.
private final class CommitHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    /// A message that runs the prepared statement: no name of a portal, and the name that follows from the text.
    private static let commit = [0] + Array("q\(DocumentDigest(Array("COMMIT".utf8)))\0".utf8)

    private let peer: any Channel
    private let cutter: Cutter
    /// The last bytes that were passed on, in which a COMMIT may begin.
    private var last: [UInt8] = []

    init(to peer: any Channel, _ cutter: Cutter) { (self.peer, self.cutter) = (peer, cutter) }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let buffer = unwrapInboundIn(data)
        let bytes = last + Array(buffer.readableBytesView)
        last = Array(bytes.suffix(Self.commit.count - 1))
        let cut = bytes.firstRange(of: Self.commit) == nil ? nil : cutter.draw.withLock { $0 }()
        // PostgreSQL reads what was passed on before it notices the end.
        if cut != .before { peer.writeAndFlush(buffer, promise: nil) }
        if cut != nil { context.close(promise: nil) }
    }

    func channelInactive(context: ChannelHandlerContext) { peer.close(promise: nil) }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}
