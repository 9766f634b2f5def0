// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import HTTPTypes
import PurchaseLedger
import Synchronization

/// Gives each request an id. With these ids, people find the same request in the client's log and in the server's log.
final class RequestIDs: Sendable {
    private let prefix: String
    private let count = Atomic<UInt64>(0)

    /// - Parameter seed: A random number, so that ids differ from the ids before a restart.
    init(seed: UInt64) { prefix = String(seed, radix: 16) + "-" }

    /// The id in the header fields, or a new id.
    func id(_ headers: HTTPFields) -> String {
        Self.sentID(headers) ?? prefix + String(count.wrappingAdd(1, ordering: .relaxed).newValue, radix: 16)
    }

    /// The client's id: `X-Request-Id`, or the trace id of `traceparent` (W3C Trace Context). Malformed values are
    /// ignored.
    private static func sentID(_ headers: HTTPFields) -> String? {
        if let id = HTTPField.Name.requestID.flatMap({ headers[$0] }), TextForm.requestID.allows(id) { return id }
        return HTTPField.Name.traceparent.flatMap { headers[$0] }.flatMap(trace)
    }

    /// The trace id: the 32 digits in `00-<32 digits>-<16 digits>-<2 digits>`, all hexadecimal and lower case; `nil` if
    /// all zeros.
    private static func trace(_ header: String) -> String? {
        let parts = header.split(separator: "-", omittingEmptySubsequences: false)
        let isHexadecimal = parts.allSatisfy { $0.utf8.allSatisfy("0123456789abcdef".utf8.contains) }
        guard parts.map(\.utf8.count) == [2, 32, 16, 2], isHexadecimal else { return nil }
        return parts[1].utf8.allSatisfy { $0 == UInt8(ascii: "0") } ? nil : String(parts[1])
    }
}

extension HTTPField.Name {
    static let requestID = HTTPField.Name("X-Request-Id")
    static let traceparent = HTTPField.Name("traceparent")
}
