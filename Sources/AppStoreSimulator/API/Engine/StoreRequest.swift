// SPDX-License-Identifier: Apache-2.0

import Foundation

/// An HTTP request to a simulated App Store, as a value: a server or a test fills it in.
public struct StoreRequest: Hashable, Sendable {
    /// A query parameter. Name and value are without percent-encoding.
    public struct QueryItem: Hashable, Sendable {
        /// The name.
        public var name: String
        /// The value; empty if the parameter has none.
        public var value: String

        /// Creates a parameter.
        public init(_ name: String, _ value: String) {
            self.name = name
            self.value = value
        }
    }

    /// The method in upper case, such as `GET`.
    public var method: String
    /// The path as received, with its percent escapes, such as `/inApps/v1/transactions/410000000000001`.
    public var path: String
    /// The parameters of the query in order. A name may occur several times.
    public var query: [QueryItem]
    /// The headers, by name in lower case.
    public var headers: [String: String]
    /// The bytes of the body; empty if the request has none.
    public var body: [UInt8]

    /// Creates a request.
    ///
    /// - Parameter target: The path, and after a question mark the query, as in the first line of the request.
    public init(_ method: String, _ target: String, headers: [String: String] = [:], body: [UInt8] = []) {
        let parts = target.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        self.method = method
        path = parts.first.map(String.init) ?? ""
        query = parts.count < 2 ? [] : parts[1].split(separator: "&").map { QueryItem(escaped: $0) }
        self.headers = headers
        self.body = body
    }
}

extension StoreRequest.QueryItem {
    fileprivate init(escaped text: Substring) {
        let parts = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        self.init(parts[0].unescaped, parts.count < 2 ? "" : parts[1].unescaped)
    }
}

extension Substring {
    /// The text with its percent escapes decoded; unchanged if the escapes are not UTF-8.
    var unescaped: String { removingPercentEncoding ?? String(self) }
}
