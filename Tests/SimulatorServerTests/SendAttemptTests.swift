// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import NIOCore
import SimulatorServer
import Testing

/// What the App Store's word for a failed delivery is, by what the server under test did.
@Suite(.timeLimit(.minutes(60))) struct SendAttemptTests {
    private func result(_ behaviour: RawServer.Behaviour, scheme: String = "http") async throws -> SendAttemptResult {
        var result = SendAttemptResult.other
        try await RawServer.run(behaviour) { port in
            result = await NotificationDeliverer.post([0x7b, 0x7d], to: "\(scheme)://127.0.0.1:\(port)/")
        }
        return result
    }

    @Test(arguments: [
        ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", SendAttemptResult.success),
        ("HTTP/1.1 206 Partial\r\nContent-Length: 2\r\n\r\nok", .success),
        ("HTTP/1.1 207 Multi\r\nContent-Length: 0\r\n\r\n", .unsuccessfulHTTPResponseCode),
        ("HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n", .unsuccessfulHTTPResponseCode),
        ("HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", .circularRedirect),
        ("", .noResponse), ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort", .prematureClose),
        ("NONSENSE\r\n\r\n", .invalidResponse),
    ])
    func `an answer has its result`(answer: String, expected: SendAttemptResult) async throws {
        let found = try await result(.closesAfter(answer))
        #expect(found == expected)
    }

    @Test func `a server without TLS is a TLS issue`() async throws {
        #expect(try await result(.closesAfter("HTTP/1.1 400 Bad\r\n\r\n"), scheme: "https") == .tlsIssue)
    }

    @Test func `a port on which no server listens is a socket issue`() async throws {
        var unused = 0
        try await RawServer.run(.staysSilent) { unused = $0 }
        #expect(await NotificationDeliverer.post([], to: "http://127.0.0.1:\(unused)/") == .socketIssue)
    }

    @Test func `a silent server is timed out`() async throws {
        try await RawServer.run(.staysSilent) { port in
            let result = await NotificationDeliverer.post(
                [], to: "http://127.0.0.1:\(port)/", timeout: .milliseconds(50))
            #expect(result == .timedOut)
        }
    }
}
