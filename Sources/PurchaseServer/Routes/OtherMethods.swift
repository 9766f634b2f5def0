// SPDX-License-Identifier: Apache-2.0

import HTTPTypes
import Hummingbird

// The methods that routes do not name themselves.

extension Router<BasicRequestContext> {
    /// Those that RFC 9110 and RFC 5789 define, in the order of `Allow`. ``RequestRules`` refuses all others.
    private static let methods: [HTTPRequest.Method] = [
        .get, .head, .post, .put, .delete, .patch, .options, .trace,
    ]

    /// Adds OPTIONS to each route and to the server as a whole, and answers any method that a route does not have with
    /// 405 and `Allow` (RFC 9110 section 15.5.6). Call this once, after all routes were added.
    ///
    /// - Parameter verifyReceipt: The paths of routes that answer other methods as the App Store does.
    func completed(verifyReceipt: Set<String> = []) -> Self {
        let routes = Dictionary(grouping: self.routes, by: \.path.description)
        for (path, routes) in routes {
            let own = Set(routes.map(\.method))
            let allowed = Self.allowed(own)
            // `autoGenerateHeadEndpoints` adds HEAD where GET is.
            for method in Self.methods where !own.contains(method) && !(method == .head && own.contains(.get)) {
                let isApples = verifyReceipt.contains(path) && method != .options && method != .trace
                on(RouterPath(path), method: method) { _, _ in
                    if isApples { return VerifyReceiptRoutes.notPost() }
                    guard method == .options else { throw Refusal.methodNotAllowed(allowed) }
                    return Response(status: .noContent, headers: [.allow: allowed])
                }
            }
        }
        let all = Self.allowed(Set(routes.values.joined().map(\.method)))
        return on(RouterPath(RequestRules.wholeServer), method: .options) { _, _ in
            Response(status: .noContent, headers: [.allow: all])
        }
    }

    /// The value of `Allow` for a route with these methods.
    private static func allowed(_ own: Set<HTTPRequest.Method>) -> String {
        let all = own.union(own.contains(.get) ? [.head, .options] : [.options])
        return methods.filter(all.contains).map(\.rawValue).joined(separator: ", ")
    }
}
