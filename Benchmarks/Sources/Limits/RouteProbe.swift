// SPDX-License-Identifier: Apache-2.0

import Foundation
import Glibc
import LedgerSQLite
import Logging
import PurchaseLedger
import PurchaseServer

/// The processor time that a server takes for one request, on a ledger in a file.
struct RouteProbe {
    /// What a request may take, in microseconds: for each byte of request and answer together, and in all if that is
    /// more.
    private static let (perByte, atLeast) = (5.0, 500.0)
    private static let rounds = 100

    let line: String

    init(_ route: RouteCase) async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let storage = try SQLiteLedgerStorage(path: folder.appendingPathComponent("ledger.sqlite").path)
        let (record, store) = (Store.history(periods: route.periods, in: route.scope), try Store())
        try await storage.commit(LedgerQuery([.chain(record.key)])) { _ in
            var changes = LedgerChanges()
            changes.chains = [record]
            return .commit(changes, ())
        }
        let request = try route.request(store)
        var logger = Logger(label: "limits")
        logger.logLevel = .critical
        let server = ServerApplication(
            ledger: LedgerService(ledger: Ledger(storage: storage), verifier: store.verifier), requestSeed: 1,
            now: { Store.now }, logger: logger)
        let (ports, listening) = AsyncStream.makeStream(of: Int.self)
        let running = Task {
            try await server.run(hostname: "127.0.0.1", port: 0) { _, port in listening.yield(port) }
        }
        var found: Int?
        for await port in ports {
            found = port
            break
        }
        let client = try PlainClient(port: found ?? 0)
        var answer = 0
        for _ in 0..<10 { answer = try client.send(request) }
        // The client's own time is that of this thread.
        let (start, own) = (Self.time(CLOCK_PROCESS_CPUTIME_ID), Self.time(CLOCK_THREAD_CPUTIME_ID))
        for _ in 0..<Self.rounds { answer = try client.send(request) }
        let (end, ownEnd) = (Self.time(CLOCK_PROCESS_CPUTIME_ID), Self.time(CLOCK_THREAD_CPUTIME_ID))
        let time = ((end - start) - (ownEnd - own)) / Double(Self.rounds)
        let bytes = request.count + answer
        let isWithin = time <= max(Self.atLeast, Self.perByte * Double(bytes))
        line =
            "| \(route.name) | \(route.periods) | \(request.count) | \(answer) | "
            + String(format: "%.0f µs | %.3f µs | ", time, time / Double(bytes)) + (isWithin ? "yes |" : "NO |")
        running.cancel()
    }

    /// The value of a clock, in microseconds.
    private static func time(_ clock: clockid_t) -> Double {
        var time = timespec()
        clock_gettime(clock, &time)
        return Double(time.tv_sec) * 1e6 + Double(time.tv_nsec) / 1e3
    }
}

/// A connection on which one request after another is sent, and each answer read whole.
private final class PlainClient {
    private let socket: Int32
    private var buffer = [UInt8](repeating: 0, count: 1 << 20)

    init(port: Int) throws {
        socket = Glibc.socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = in_port_t(port).bigEndian
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        let code = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(socket, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard code == 0 else { throw POSIXError(.ECONNREFUSED) }
    }

    deinit { close(socket) }

    /// - Returns: The length of the answer's body.
    func send(_ request: [UInt8]) throws -> Int {
        guard Glibc.send(socket, request, request.count, 0) == request.count else { throw POSIXError(.EPIPE) }
        var (received, body, length) = ([UInt8](), 0, Int?.none)
        while length.map({ body < $0 }) ?? true {
            let count = recv(socket, &buffer, buffer.count, 0)
            guard count > 0 else { throw POSIXError(.ECONNRESET) }
            if length != nil {
                body += count
                continue
            }
            received += buffer[..<count]
            let text = String(decoding: received.prefix(4096), as: UTF8.self).lowercased()
            guard let end = text.range(of: "\r\n\r\n"), let field = text.range(of: "content-length: ") else { continue }
            length = Int(text[field.upperBound...].prefix { $0.isNumber }) ?? 0
            body = received.count - text[..<end.upperBound].utf8.count
        }
        return body
    }
}
