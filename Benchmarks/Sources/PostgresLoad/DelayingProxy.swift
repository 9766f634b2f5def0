// SPDX-License-Identifier: Apache-2.0

import Foundation

/// A socket that leads to a server's socket and delays what passes by a quarter of a millisecond each way, like a
/// network.
final class DelayingProxy: Sendable {
    /// The folder of the socket, as libpq wants it.
    let folder: String

    private static let delay = Duration.microseconds(250)

    init(to server: String) throws {
        folder = server + "/network"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        let (name, listener) = ("/.s.PGSQL.5432", socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0))
        let isListening = Self.withAddress(folder + name) { bind(listener, $0, $1) == 0 } && listen(listener, 64) == 0
        guard isListening else { throw LoadFailure("The proxy cannot listen in \(folder)") }
        chmod(folder + name, 0o777)
        Thread.detachNewThread {
            while case let client = accept(listener, nil, nil), client >= 0 {
                let upstream = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
                guard Self.withAddress(server + name, { connect(upstream, $0, $1) == 0 }) else {
                    close(client)
                    continue
                }
                DelayedStream.start(from: client, to: upstream, Self.delay)
                DelayedStream.start(from: upstream, to: client, Self.delay)
            }
        }
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

/// One direction of a connection. One thread reads, another one writes when the time has come.
private final class DelayedStream: @unchecked Sendable {
    private let condition = NSCondition()
    private var waiting: [(due: ContinuousClock.Instant, bytes: [UInt8])] = []

    static func start(from source: Int32, to target: Int32, _ delay: Duration) {
        let stream = DelayedStream()
        Thread.detachNewThread { stream.read(source, delay) }
        Thread.detachNewThread { stream.write(target) }
    }

    private func read(_ source: Int32, _ delay: Duration) {
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            let count = recv(source, &buffer, buffer.count, 0)
            condition.lock()
            waiting.append((ContinuousClock.now.advanced(by: delay), Array(buffer.prefix(max(0, count)))))
            condition.signal()
            condition.unlock()
            if count <= 0 { return }
        }
    }

    /// Ends at the first piece without bytes, which stands for the end.
    private func write(_ target: Int32) {
        while true {
            condition.lock()
            while waiting.isEmpty { condition.wait() }
            let (due, bytes) = waiting.removeFirst()
            condition.unlock()
            let left = ContinuousClock.now.duration(to: due) / .microseconds(1)
            if left > 0 { usleep(UInt32(left)) }
            guard !bytes.isEmpty, send(target, bytes, bytes.count, Int32(MSG_NOSIGNAL)) > 0 else {
                shutdown(target, Int32(SHUT_RDWR))
                return
            }
        }
    }
}
