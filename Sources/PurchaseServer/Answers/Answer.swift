// SPDX-License-Identifier: Apache-2.0

// Responses with JSON.

import AppStoreModel
import HTTPTypes
import Hummingbird

/// A successful response with an encoded JSON body.
struct Answer<Body: Encodable & Sendable>: Sendable {
    let response: Response

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
        var response = Response(status, json: json)
        response.headers.append(contentsOf: headers)
        self.response = response
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
