// SPDX-License-Identifier: Apache-2.0

import AppStoreSimulator
import Foundation

/// Sends requests over loopback. Each connection sends the next request as soon as its last is answered.
///
/// It uses one thread, plain sockets and prepared requests, because it shares the cores with the server that it
/// measures.
final class LoadGenerator {
    /// The outcome of a number of requests.
    struct Outcome {
        var seconds = 0.0
        /// The server's CPU time for all of them.
        var cpuSeconds = 0.0
        /// In milliseconds, the shortest first.
        var latencies: [Double] = []

        var rate: Double { Double(latencies.count) / seconds }

        /// The server's CPU time per request in microseconds.
        var cpuMicroseconds: Double { cpuSeconds / Double(latencies.count) * 1_000_000 }

        /// The latency that `share` of all requests did not exceed.
        func percentile(_ share: Double) -> Double {
            latencies.isEmpty ? .nan : latencies[min(latencies.count - 1, Int(Double(latencies.count) * share))]
        }
    }

    private var buffer = [UInt8](repeating: 0, count: 64 << 10)

    private let server: ServerProcess
    private let count: Int

    init(_ server: ServerProcess, connections count: Int) {
        self.server = server
        self.count = count
    }

    /// Sends the requests that `next` returns until it returns `nil`, and waits for the last answer. Opens new
    /// connections, since the server closes idle ones.
    ///
    /// - Throws: An error if an answer is not 200.
    func run(_ next: () -> [UInt8]?) throws -> Outcome {
        var connections = try (0..<count).map { _ in Connection(socket: try Socket.connect(server.port)) }
        defer { for connection in connections { close(connection.socket) } }
        let clock = ContinuousClock()
        var outcome = Outcome()
        let (start, cpuStart) = (clock.now, server.cpuTime)
        for index in connections.indices { try connections[index].begin(next()) }
        while connections.contains(where: \.isBusy) {
            for index in try Socket.ready(connections) {
                guard let latency = try connections[index].proceed(&buffer) else { continue }
                outcome.latencies.append(latency / .milliseconds(1))
                try connections[index].begin(next())
            }
        }
        outcome.seconds = (clock.now - start) / .seconds(1)
        outcome.cpuSeconds = server.cpuTime - cpuStart
        outcome.latencies.sort()
        return outcome
    }

    /// Sends each request once.
    func run(_ requests: [[UInt8]]) throws -> Outcome {
        var rest = requests[...]
        return try run { rest.popFirst() }
    }

    /// Sends each request once, no more than `rate` requests a second.
    func run(_ requests: [[UInt8]], rate: Int) throws -> Outcome {
        let start = ContinuousClock.now
        var sent = 0
        return try run {
            guard sent < requests.count else { return nil }
            let wait = start + .seconds(Double(sent) / Double(rate)) - ContinuousClock.now
            if wait > .zero { Thread.sleep(forTimeInterval: wait / .seconds(1)) }
            sent += 1
            return requests[sent - 1]
        }
    }

    /// Sends requests in random order until `duration` has passed.
    func run(_ requests: [[UInt8]], for duration: Duration, _ random: inout SeededRandom) throws -> Outcome {
        let end = ContinuousClock.now + duration
        return try run {
            ContinuousClock.now < end ? requests[Int.random(in: requests.indices, using: &random)] : nil
        }
    }
}

/// A connection that sends one request after another.
struct Connection {
    let socket: Int32
    private var request: [UInt8] = []
    private var sent = 0
    private var answer: [UInt8] = []
    private var start = ContinuousClock.now
    private(set) var isBusy = false

    init(socket: Int32) {
        self.socket = socket
    }

    var isSending: Bool { sent < request.count }

    /// Sends the next request, if there is one.
    mutating func begin(_ next: [UInt8]?) throws {
        isBusy = next != nil
        guard let next else { return }
        request = next
        sent = 0
        start = ContinuousClock.now
        try sendMore()
    }

    /// Sends or receives as much as is possible without waiting.
    ///
    /// - Returns: How long the answer took, once it is complete.
    mutating func proceed(_ buffer: inout [UInt8]) throws -> Duration? {
        guard !isSending else {
            try sendMore()
            return nil
        }
        let count = recv(socket, &buffer, buffer.count, 0)
        guard count > 0 else { throw LoadFailure("The server closed a connection") }
        answer += buffer[..<count]
        guard try isComplete() else { return nil }
        answer.removeAll(keepingCapacity: true)
        return ContinuousClock.now - start
    }

    private mutating func sendMore() throws {
        let count = request[sent...].withUnsafeBytes { send(socket, $0.baseAddress, $0.count, 0) }
        if count < 0, errno == EAGAIN { return }
        guard count > 0 else { throw LoadFailure("A request could not be sent") }
        sent += count
    }

    /// Uses no Foundation strings, which took as long as sending a request.
    private func isComplete() throws -> Bool {
        try answer.withUnsafeBytes { answer in
            guard let end = Self.end(of: Self.endOfHead, in: answer[answer.startIndex...]) else { return false }
            guard answer.starts(with: Self.success) else { throw failure }
            guard let member = Self.end(of: Self.lengthMember, in: answer[..<end]),
                let length = Int(String(decoding: answer[member...].prefix { $0 != 13 }, as: UTF8.self))
            else { throw failure }
            return answer.count >= end + length
        }
    }

    private var failure: LoadFailure { LoadFailure(String(decoding: answer, as: UTF8.self)) }

    /// Where the first occurrence of `text` ends.
    private static func end(of text: [UInt8], in bytes: Slice<UnsafeRawBufferPointer>) -> Int? {
        guard bytes.count >= text.count else { return nil }
        return (bytes.startIndex...bytes.endIndex - text.count).first { place in
            bytes[place] == text[0] && bytes[place...].starts(with: text)
        }.map { $0 + text.count }
    }

    private static let success = Array("HTTP/1.1 200 ".utf8)
    private static let endOfHead = Array("\r\n\r\n".utf8)
    /// The field name as Quittance's server writes it.
    private static let lengthMember = Array("Content-Length: ".utf8)
}

/// Why a measurement failed.
struct LoadFailure: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) {
        self.description = description
    }
}

enum Socket {
    #if canImport(Glibc)
    static let stream = Int32(SOCK_STREAM.rawValue)
    #else
    static let stream = SOCK_STREAM
    #endif

    /// Opens a non-blocking connection to this machine.
    static func connect(_ port: Int) throws -> Int32 {
        let socket = socket(AF_INET, stream, 0)
        var address = address(port)
        let code = withUnsafePointer(to: &address) { address in
            address.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                Foundation.connect(socket, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        var one: Int32 = 1
        guard code == 0, fcntl(socket, F_SETFL, O_NONBLOCK) == 0,
            setsockopt(socket, Int32(IPPROTO_TCP), TCP_NODELAY, &one, socklen_t(MemoryLayout<Int32>.size)) == 0
        else { throw LoadFailure("No connection to port \(port)") }
        return socket
    }

    /// Listens on a free port of this machine.
    static func listen() throws -> (socket: Int32, port: Int) {
        let socket = socket(AF_INET, stream, 0)
        var address = address(0)
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let code = withUnsafeMutablePointer(to: &address) { address in
            address.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(socket, $0, size) + Foundation.listen(socket, 128) + getsockname(socket, $0, &size)
            }
        }
        guard code == 0 else { throw LoadFailure("No port is free") }
        return (socket, Int(in_port_t(bigEndian: address.sin_port)))
    }

    private static func address(_ port: Int) -> sockaddr_in {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = in_port_t(port).bigEndian
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        return address
    }

    /// Waits until a connection can send or receive.
    static func ready(_ connections: [Connection]) throws -> [Int] {
        var files = connections.map { connection in
            let events = !connection.isBusy ? 0 : connection.isSending ? POLLOUT : POLLIN
            return pollfd(fd: connection.socket, events: Int16(events), revents: 0)
        }
        guard poll(&files, nfds_t(files.count), 30_000) > 0 else { throw LoadFailure("The server does not answer") }
        return files.indices.filter { files[$0].revents != 0 }
    }
}
