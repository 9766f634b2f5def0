// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// A response of a simulated App Store to an HTTP request, as a value: a server sends it to the client.
public struct StoreResponse: Hashable, Sendable {
    /// The HTTP status.
    public var status: Int
    /// The headers, by name in lower case.
    public var headers: [String: String] = [:]
    /// The bytes of the body; empty if the response has none.
    public var body: [UInt8] = []
    /// Whether the client must not get this response. The server keeps the connection open and silent until the client
    /// times out.
    public var isWithheld = false
    /// The reason for a refusal, for the simulator's own log. The client does not get the reason.
    public var note: String?

    /// Creates a response without a body.
    public init(status: Int, note: String? = nil) {
        self.status = status
        self.note = note
    }

    /// A response with a body, and with exactly the content type that Apple sends.
    ///
    /// - Throws: `EncodingError`.
    init(status: Int = 200, encoding value: some Encodable) throws {
        self.init(status: status)
        headers = ["content-type": "application/json"]
        body = try JSONWriter.bytes(encoding: value)
    }
}
