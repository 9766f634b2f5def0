// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// A simulated App Store's answer to an HTTP request, without the connection that it goes by.
public struct StoreResponse: Hashable, Sendable {
    /// The HTTP status.
    public var status: Int
    /// By name in lower case.
    public var headers: [String: String] = [:]
    /// The body's bytes; empty if there is none.
    public var body: [UInt8] = []
    /// Whether the client must not get this answer: the server keeps the connection open and silent, so that the client
    /// runs into its own time limit.
    public var isWithheld = false
    /// Why the request was refused, for the simulator's own log. The client does not get it.
    public var note: String?

    /// Creates an answer without a body.
    public init(status: Int, note: String? = nil) {
        self.status = status
        self.note = note
    }

    /// An answer with a body, of exactly the content type that Apple uses.
    ///
    /// - Throws: `EncodingError`.
    init(status: Int = 200, encoding value: some Encodable) throws {
        self.init(status: status)
        headers = ["content-type": "application/json"]
        body = try JSONWriter.bytes(encoding: value)
    }
}
