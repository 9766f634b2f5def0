// SPDX-License-Identifier: Apache-2.0

public import AppStoreAPI
public import AppStoreModel
import AsyncHTTPClient
import NIOCore
import NIOHTTP1
import OutgoingHTTP

/// Sends requests to Apple's servers over HTTPS, or to other hosts such as a simulator.
public struct HTTPAppStoreTransport: AppStoreTransport {
    private static let client = PlainClient(timeout: .seconds(30))

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
        let answer = try await answer(to: HTTPClientRequest(request, to: host), within: timeout)
        if answer.mayBeApples, let date = answer.date { onDate(date) }
        return answer
    }

    private func answer(to request: HTTPClientRequest, within timeout: Duration) async throws -> APIAnswer {
        do {
            return APIAnswer(
                try await Self.client.answer(to: request, within: timeout, upTo: APIAnswer.bodyLimit, clock: clock))
        } catch {
            switch (error as? BrokenBody)?.reason ?? error {
            case is NIOTooManyBytesError: throw TransportError.answerTooLong
            case let error as HTTPClientError
            where [.deadlineExceeded, .readTimeout, .connectTimeout].contains(error):
                throw TransportError.timedOut
            case let error as HTTPClientError where error == .cancelled: throw CancellationError()
            case let error: throw error
            }
        }
    }
}

extension APIAnswer {
    fileprivate init(_ answer: PlainAnswer) {
        let headers = answer.headers.map { ($0.name.lowercased(), $0.value) }
        self.init(
            status: Int(answer.status.code), headers: Dictionary(headers) { first, _ in first },
            body: Array(answer.body.readableBytesView))
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
