// SPDX-License-Identifier: Apache-2.0

import Foundation

/// An HTTP request to a simulated App Store, without the connection that it came by.
public struct StoreRequest: Hashable, Sendable {
    /// A parameter of the query, with its escapes decoded.
    public struct QueryItem: Hashable, Sendable {
        /// The name.
        public var name: String
        /// The value; empty if there is none.
        public var value: String

        /// Creates a parameter.
        public init(_ name: String, _ value: String) {
            self.name = name
            self.value = value
        }
    }

    /// In upper case, such as `GET`.
    public var method: String
    /// As received, with its percent escapes, such as `/inApps/v1/transactions/410000000000001`.
    public var path: String
    /// In their order. A name may occur several times.
    public var query: [QueryItem]
    /// By name in lower case.
    public var headers: [String: String]
    /// The body's bytes; empty if there is none.
    public var body: [UInt8]

    /// Creates a request.
    ///
    /// - Parameter target: The path, and after a question mark the query: what stands in the request's first line.
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
    /// The text with its percent escapes decoded; as it is if they are not UTF-8.
    var unescaped: String { removingPercentEncoding ?? String(self) }
}
