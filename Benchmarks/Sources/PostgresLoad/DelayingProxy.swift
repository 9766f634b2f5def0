// SPDX-License-Identifier: Apache-2.0

import Foundation

/// A socket that leads to a server's socket and delays what passes by a quarter of a millisecond each way, like a
/// network.
///
/// One thread serves all connections. With threads for each direction of each, a round trip took 0.75 ms instead of
/// 0.5, and waking them took a good part of the two cores on which everything runs.
final class DelayingProxy: @unchecked Sendable {
    /// The folder of the socket, as libpq wants it.
    let folder: String
    private let server: String
    private let listener: Int32
    private var streams: [DelayedStream] = []

    private static let name = "/.s.PGSQL.5432"
    private static let delay = Duration.microseconds(250)
    /// How much later than it was asked to Linux wakes a thread.
    private static let wakingDelay = Duration.microseconds(50)

    init(to server: String) throws {
        self.server = server
        folder = server + "/network"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        listener = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        let isBound = Self.withAddress(folder + Self.name) { [listener] in bind(listener, $0, $1) == 0 }
        guard isBound, listen(listener, 64) == 0 else { throw LoadFailure("The proxy cannot listen in \(folder)") }
        chmod(folder + Self.name, 0o777)
        Thread.detachNewThread { while true { self.pass() } }
    }

    /// Waits until bytes arrive or are due, and passes them.
    private func pass() {
        var ready = DescriptorSet([listener] + streams.filter { !$0.hasEnded }.map(\.source))
        let first = streams.compactMap(\.due).min()
        ready.wait(first.map { max(.zero, ContinuousClock.now.duration(to: $0) - Self.wakingDelay) })
        let now = ContinuousClock.now
        for stream in streams where ready.contains(stream.source) {
            stream.receive(until: now.advanced(by: Self.delay))
        }
        for stream in streams { stream.send(now) }
        streams.removeAll(where: \.isOver)
        if ready.contains(listener) { accept() }
    }

    private func accept() {
        let (client, upstream) = (
            Glibc.accept(listener, nil, nil), socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        )
        guard client >= 0, Self.withAddress(server + Self.name, { connect(upstream, $0, $1) == 0 }) else {
            close(client)
            close(upstream)
            return
        }
        streams += [DelayedStream(client, upstream), DelayedStream(upstream, client)]
    }

    private static func withAddress<Value>(
        _ path: String, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Value
    ) -> Value {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8.prefix($0.count - 1)) }
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                body($0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
    }
}

/// One direction of a connection, and what has arrived but is not due yet.
private final class DelayedStream {
    let (source, target): (Int32, Int32)
    private(set) var hasEnded = false
    private(set) var isOver = false
    private var waiting: [(due: ContinuousClock.Instant, bytes: [UInt8])] = []
    private var buffer = [UInt8](repeating: 0, count: 1 << 16)

    init(_ source: Int32, _ target: Int32) { (self.source, self.target) = (source, target) }

    var due: ContinuousClock.Instant? { waiting.first?.due }

    /// Receives what has arrived. Nothing means that the source has ended.
    func receive(until due: ContinuousClock.Instant) {
        let count = recv(source, &buffer, buffer.count, 0)
        hasEnded = count <= 0
        waiting.append((due, Array(buffer.prefix(max(0, count)))))
    }

    /// Sends what is due.
    func send(_ now: ContinuousClock.Instant) {
        while let (due, bytes) = waiting.first, due <= now {
            waiting.removeFirst()
            let isSent = !bytes.isEmpty && Glibc.send(target, bytes, bytes.count, Int32(MSG_NOSIGNAL)) > 0
            guard isSent else {
                shutdown(target, Int32(SHUT_RDWR))
                isOver = true
                return
            }
        }
    }
}

/// Descriptors to wait for. `poll` waits for whole milliseconds, `pselect` for less.
private struct DescriptorSet {
    private var set = fd_set()
    private let end: Int32

    init(_ descriptors: [Int32]) {
        end = (descriptors.max() ?? -1) + 1
        withUnsafeMutableBytes(of: &set) { bits in
            for descriptor in descriptors where descriptor >= 0 && Int(descriptor) < bits.count * 8 {
                bits[Int(descriptor) / 8] |= 1 << UInt8(descriptor % 8)
            }
        }
    }

    func contains(_ descriptor: Int32) -> Bool {
        withUnsafeBytes(of: set) { bits in
            Int(descriptor) < bits.count * 8 && bits[Int(descriptor) / 8] & 1 << UInt8(descriptor % 8) != 0
        }
    }

    /// Waits until one can be read, and keeps only those that can.
    ///
    /// - Parameter limit: How long to wait, less than a second; `nil` for as long as it takes.
    mutating func wait(_ limit: Duration?) {
        var time = timespec(tv_sec: 0, tv_nsec: limit.map { Int($0 / .nanoseconds(1)) } ?? 0)
        let found =
            limit == nil
            ? pselect(end, &set, nil, nil, nil, nil) : pselect(end, &set, nil, nil, &time, nil)
        if found <= 0 { set = fd_set() }
    }
}
