// SPDX-License-Identifier: Apache-2.0

public import AppStoreAPI
public import AppStoreModel
import AsyncHTTPClient
import NIOCore
import NIOHTTP1
import OutgoingHTTP

/// Sends requests to Apple's servers over HTTPS, or to other hosts such as a simulator.
public struct HTTPAppStoreTransport: AppStoreTransport {
    private static let client = HTTPClient.plain(timeout: .seconds(30))

    private let hosts: [AppStoreModel.Environment: String]
    private let clock: any Clock<Duration>

    /// Called with the time in the `Date` field of each answer that has the form of Apple's answers. Other answers
    /// probably come from a proxy, whose clock may differ from Apple's.
    package var onDate: @Sendable (Timestamp) -> Void = { _ in }

    /// Creates a transport. All transports share one pool of connections for the lifetime of the process.
    ///
    /// - Parameters:
    ///   - hosts: The scheme and host of each environment, such as a simulator's: `http://127.0.0.1:8091`.
    ///   - clock: Measures the timeout of answers.
    public init(hosts: [AppStoreModel.Environment: String] = AppStoreHosts.apple, clock: any Clock<Duration>) {
        self.hosts = hosts
        self.clock = clock
    }

    /// Sends a request, and reads the answer.
    public func answer(
        to request: APIRequest, in environment: AppStoreModel.Environment, within timeout: Duration
    ) async throws -> APIAnswer {
        guard let host = hosts[environment] else {
            throw TransportError.unreachable("There is no host for \(environment.rawValue).")
        }
        let outgoing = HTTPClientRequest(request, to: host)
        let clock = clock
        // The client's own deadline covers only the head of the answer. Without the second task, a body that arrives
        // one byte at a time could take for ever.
        return try await withThrowingTaskGroup(of: APIAnswer.self) { group in
            group.addTask { try await Self.answer(to: outgoing, within: timeout) }
            group.addTask {
                try await clock.sleep(for: timeout)
                throw TransportError.timedOut
            }
            defer { group.cancelAll() }
            guard let answer = try await group.next() else { throw CancellationError() }
            if answer.mayBeApples, let date = answer.date { onDate(date) }
            return answer
        }
    }

    private static func answer(to request: HTTPClientRequest, within timeout: Duration) async throws -> APIAnswer {
        do {
            let response = try await client.execute(request, timeout: TimeAmount(timeout))
            let body = try await response.body.collect(upTo: APIAnswer.bodyLimit)
            let headers = response.headers.map { ($0.name.lowercased(), $0.value) }
            return APIAnswer(
                status: Int(response.status.code), headers: Dictionary(headers) { first, _ in first },
                body: Array(body.readableBytesView))
        } catch is NIOTooManyBytesError {
            throw TransportError.answerTooLong
        } catch let error as HTTPClientError
            where [.deadlineExceeded, .readTimeout, .connectTimeout].contains(error)
        {
            throw TransportError.timedOut
        } catch let error as HTTPClientError where error == .cancelled {
            throw CancellationError()
        }
    }
}

extension HTTPClientRequest {
    fileprivate init(_ request: APIRequest, to host: String) {
        self.init(url: host + request.target)
        method = HTTPMethod(rawValue: request.method)
        for (name, value) in request.headers { headers.add(name: name, value: value) }
        if !request.body.isEmpty { body = .bytes(request.body) }
    }
}
