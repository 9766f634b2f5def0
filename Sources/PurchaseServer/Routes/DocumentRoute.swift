// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import COpenAPI
import Crypto
import HTTPTypes
import Hummingbird

/// The route of the description of all routes (OpenAPI 3.1), from which tools make clients.
enum DocumentRoute {
    /// One buffer for all answers, and a tag by which a client knows whether it has the document already.
    private static let document: (body: ByteBuffer, tag: String) = {
        let bytes = UnsafeRawBufferPointer(start: quittance_openapi(), count: quittance_openapi_length())
        return (ByteBuffer(bytes: bytes), "\"\(Array(SHA256.hash(data: bytes)).hexadecimal)\"")
    }()

    static let route = APIRoute(
        .get, "/openapi.json", "describes the API: this document", answer: JSONValue.self,
        statuses: [.ok, .notModified]
    ) { request in
        let headers: HTTPFields = [.eTag: document.tag]
        guard request.headers[values: .ifNoneMatch].allSatisfy({ !$0.contains(document.tag) }) else {
            return Response(status: .notModified, headers: headers)
        }
        var response = Response(status: .ok, headers: headers, body: ResponseBody(byteBuffer: document.body))
        response.headers[.contentType] = "application/json"
        return response
    }
}
