// SPDX-License-Identifier: Apache-2.0

import Foundation
import Synchronization

/// Answers each request with 204, on a thread of its own, and counts the requests.
final class WebhookReceiver: Sendable {
    let port: Int
    private let requests = Atomic<Int>(0)

    /// The number of requests so far.
    var count: Int { requests.load(ordering: .relaxed) }

    init() throws {
        let (listener, port) = try Socket.listen()
        self.port = port
        Thread.detachNewThread { [self] in serve(listener) }
    }

    /// Waits until no request has come for some time.
    func wait(quietFor time: Duration) {
        var last = -1
        while last != count {
            last = count
            Thread.sleep(forTimeInterval: time / .seconds(1))
        }
    }

    private func serve(_ listener: Int32) {
        var requests: [Int32: ReceivedRequest] = [:]
        var buffer = [UInt8](repeating: 0, count: 64 << 10)
        while true {
            var files = ([listener] + requests.keys).map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
            guard poll(&files, nfds_t(files.count), -1) > 0 else { continue }
            for file in files where file.revents != 0 {
                guard file.fd != listener else {
                    let socket = accept(listener, nil, nil)
                    if socket >= 0 { requests[socket] = ReceivedRequest() }
                    continue
                }
                let count = recv(file.fd, &buffer, buffer.count, 0)
                guard count > 0 else {
                    close(file.fd)
                    requests[file.fd] = nil
                    continue
                }
                if requests[file.fd]?.add(buffer[..<count]) == true { answer(file.fd) }
            }
        }
    }

    private func answer(_ socket: Int32) {
        requests.add(1, ordering: .relaxed)
        _ = Self.answer.withUnsafeBytes { send(socket, $0.baseAddress, $0.count, 0) }
    }

    private static let answer = Array("HTTP/1.1 204 No Content\r\n\r\n".utf8)
}

/// The bytes of a request that has not ended.
private struct ReceivedRequest {
    private var bytes: [UInt8] = []
    private var length: Int?

    /// Adds bytes.
    ///
    /// - Returns: Whether the request has ended. Its sender waits for the answer before the next request.
    mutating func add(_ more: ArraySlice<UInt8>) -> Bool {
        bytes += more
        if length == nil { length = Self.length(of: bytes) }
        guard let length, bytes.count >= length else { return false }
        bytes.removeAll(keepingCapacity: true)
        self.length = nil
        return true
    }

    /// The length of a request with its head; `nil` if the head has not ended.
    private static func length(of bytes: [UInt8]) -> Int? {
        let text = String(decoding: bytes, as: UTF8.self)
        guard let head = text.range(of: "\r\n\r\n"), let field = text.range(of: "content-length: ") else { return nil }
        let body = Int(text[field.upperBound...].prefix { $0.isNumber }) ?? 0
        return text.utf8.distance(from: text.startIndex, to: head.upperBound) + body
    }
}
