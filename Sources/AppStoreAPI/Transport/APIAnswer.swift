// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel

/// An answer of Apple's servers, without its connection.
public struct APIAnswer: Hashable, Sendable {
    /// The maximum size of a body in bytes: 1 MiB, as in Apple's own client. A page of 20 transactions has some 120 KB.
    public static let bodyLimit = 1 << 20

    /// The maximum length, in bytes, of the part of an unexpected body that an error shows: enough for a proxy's name.
    static let shownLimit = 200

    /// The HTTP status.
    public var status: Int
    /// The header fields by name, in lower case.
    public var headers: [String: String]
    /// The body's bytes; empty if the answer has no body.
    public var body: [UInt8]

    /// Creates an answer.
    public init(status: Int, headers: [String: String] = [:], body: [UInt8] = []) {
        self.status = status
        self.headers = headers
        self.body = body
    }
}

extension APIAnswer {
    /// The time of the answer by the clock of its server (RFC 9110 section 6.6.1); `nil` if the answer has no date.
    package var date: Timestamp? { headers["date"].flatMap(HTTPDate.time) }
}
