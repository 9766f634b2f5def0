// SPDX-License-Identifier: Apache-2.0

// Responses with JSON.

import AppStoreModel
package import HTTPTypes
import Hummingbird

/// A successful answer.
package struct Reply: Sendable {
    /// The body as JSON.
    package var json: [UInt8]
    package var status = HTTPResponse.Status.ok
    /// Further header fields.
    var headers: HTTPFields = [:]
    /// Makes the answer instead, after the memory of the request's body was released.
    var later: (@Sendable () async throws -> Reply?)?

    /// The number of the status.
    package var code: Int { status.code }

    var response: Response {
        var response = Response(status, json: json)
        response.headers.append(contentsOf: headers)
        return response
    }
}

/// A successful answer whose body has this type.
struct Answer<Body: Encodable & Sendable>: Sendable {
    let reply: Reply

    init(_ body: Body, _ status: HTTPResponse.Status = .ok) throws {
        self.init(json: try JSONWriter.bytes(publishing: body), status)
    }

    /// - Returns: `nil` if there is no body.
    init?(_ body: Body?) throws {
        guard let body else { return nil }
        try self.init(body)
    }

    /// - Parameters:
    ///   - json: The body as JSON.
    ///   - headers: Further header fields.
    init(json: [UInt8], _ status: HTTPResponse.Status = .ok, headers: HTTPFields = [:]) {
        reply = Reply(json: json, status: status, headers: headers)
    }

    /// An answer that is made after the memory of the request's body was released, because a long answer reserves
    /// memory itself.
    init(afterBody make: @escaping @Sendable () async throws -> Answer?) {
        reply = Reply(json: [], later: { try await make()?.reply })
    }
}

extension Response {
    /// A response with the bytes of encoded JSON.
    init(_ status: HTTPResponse.Status = .ok, json: [UInt8]) {
        self.init(
            status: status, headers: [.contentType: "application/json"],
            body: ResponseBody(byteBuffer: ByteBuffer(bytes: json)))
    }
}
