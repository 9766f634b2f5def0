// SPDX-License-Identifier: Apache-2.0

import HTTPTypes
import Synchronization

/// Names for requests, by which a client's log and the server's can be compared.
final class RequestIDs: Sendable {
    /// The longest id that a client may give, in bytes: more than any usual one has.
    static let longest = 128

    private let prefix: String
    private let count = Atomic<UInt64>(0)

    /// - Parameter seed: A random number, so that ids differ from those before a restart.
    init(seed: UInt64) {
        prefix = String(seed, radix: 16) + "-"
    }

    /// The id that the client gave, or a new one.
    func id(_ headers: HTTPFields) -> String {
        Self.given(headers) ?? prefix + String(count.wrappingAdd(1, ordering: .relaxed).newValue, radix: 16)
    }

    /// `X-Request-Id`, or the trace id of `traceparent` (W3C Trace Context). What has any other form is ignored.
    static func given(_ headers: HTTPFields) -> String? {
        if let id = HTTPField.Name.requestID.flatMap({ headers[$0] }), isWellFormed(id) { return id }
        return HTTPField.Name.traceparent.flatMap { headers[$0] }.flatMap(trace)
    }

    /// Letters, digits, hyphens, periods and underscores, as in UUIDs and the ids of proxies.
    private static func isWellFormed(_ id: String) -> Bool {
        (1...longest).contains(id.utf8.count)
            && id.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"):
                    true
                default: false
                }
            }
    }

    /// Of `00-<32 digits>-<16 digits>-<2 digits>`, all hexadecimal and in lower case, the first; not if it is all zeros.
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
