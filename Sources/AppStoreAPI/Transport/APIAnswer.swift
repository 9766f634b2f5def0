// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel

/// An answer of Apple's servers, without the connection that it came by.
public struct APIAnswer: Hashable, Sendable {
    /// The most bytes of a body: 1 MiB, as in Apple's own client. A page of 20 transactions has some 120 KB.
    public static let bodyLimit = 1 << 20

    /// The HTTP status.
    public var status: Int
    /// By name in lower case.
    public var headers: [String: String]
    /// The body's bytes; empty if there is none.
    public var body: [UInt8]

    /// Creates an answer.
    public init(status: Int, headers: [String: String] = [:], body: [UInt8] = []) {
        self.status = status
        self.headers = headers
        self.body = body
    }
}

extension APIAnswer {
    /// When the answer was made, by the clock of the server that made it (RFC 9110 section 6.6.1); `nil` if it does not
    /// say.
    package var date: Timestamp? { headers["date"].flatMap(HTTPDate.time) }
}
