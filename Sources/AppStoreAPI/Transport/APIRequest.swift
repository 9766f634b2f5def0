// SPDX-License-Identifier: Apache-2.0

/// A request to Apple's servers, without its host and its connection.
public struct APIRequest: Hashable, Sendable {
    /// A parameter of the query, not escaped.
    public struct QueryItem: Hashable, Sendable {
        /// The name.
        public var name: String
        /// The value.
        public var value: String

        init(_ name: String, _ value: String) {
            self.name = name
            self.value = value
        }
    }

    /// The method in upper case, such as `GET`.
    public let method: String
    /// The path from the first slash, with percent escapes, such as `/inApps/v1/transactions/410000000000001`.
    public let path: String
    /// The query parameters in their order. A name may occur several times.
    public package(set) var query: [QueryItem] = []
    /// The header fields by name, in lower case.
    public package(set) var headers = ["accept": "application/json", "user-agent": "quittance"]
    /// The body's bytes; empty if the request has no body.
    public package(set) var body: [UInt8] = []
    /// The reason why this request cannot be sent; `nil` if it can.
    private(set) var fault: String?

    /// Creates a request.
    ///
    /// - Parameters:
    ///   - template: The path with `*` for each variable segment.
    ///   - segments: The variable segments, not escaped.
    package init(_ method: String, _ template: String, _ segments: [String] = []) {
        var rest = segments[...]
        self.method = method
        path = template.split(separator: "/", omittingEmptySubsequences: false)
            .map { $0 == "*" ? (rest.popFirst() ?? "").escaped : String($0) }.joined(separator: "/")
        // Servers and proxies resolve dot segments, escaped or not, so such a request would reach a different endpoint.
        if segments.contains(where: { ["", ".", ".."].contains($0) }) {
            fault = "A part of its path is empty, '.' or '..'."
        }
    }

    /// The request target in the first line of the request: the path, and the query after a question mark.
    public var target: String {
        guard !query.isEmpty else { return path }
        return "\(path)?\(query.map { "\($0.name.escaped)=\($0.value.escaped)" }.joined(separator: "&"))"
    }

    /// Adds a parameter for each value.
    mutating func add(_ name: String, _ values: [String]) {
        query += values.map { QueryItem(name, $0) }
    }

    /// Replaces a parameter.
    mutating func replace(_ name: String, by value: String) {
        query.removeAll { $0.name == name }
        add(name, [value])
    }

    /// Adds a body with its content type, or stores a fault if the body is `nil` because its encoding failed.
    mutating func add(body: [UInt8]?, type: String = "application/json") {
        guard let body else {
            fault = "Its body contains a number that JSON cannot write."
            return
        }
        self.body = body
        headers["content-type"] = type
    }
}

extension String {
    /// The text, percent-escaped except for the unreserved characters of RFC 3986 section 2.3. All other characters may
    /// have a meaning in a URL.
    fileprivate var escaped: String {
        utf8.reduce(into: "") { text, byte in
            switch byte {
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
                UInt8(ascii: "~"):
                text.unicodeScalars.append(Unicode.Scalar(byte))
            default:
                text += (byte < 16 ? "%0" : "%") + String(byte, radix: 16, uppercase: true)
            }
        }
    }
}
