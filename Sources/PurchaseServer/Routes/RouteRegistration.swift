// SPDX-License-Identifier: Apache-2.0

// The router: a route for each ``APIRoute``, and the methods that no value names.

import HTTPTypes
import Hummingbird

extension Router<BasicRequestContext> {
    /// The methods that RFC 9110 and RFC 5789 define, in the order of `Allow`. ``RequestRules`` refuses all others.
    private static let methods: [HTTPRequest.Method] = [
        .get, .head, .post, .put, .delete, .patch, .options, .trace,
    ]

    /// Adds routes, OPTIONS of each path and of the whole server, and 405 with `Allow` for any method that a path does
    /// not have (RFC 9110 section 15.5.6). Call this once.
    func add(_ routes: [APIRoute]) -> Self {
        for route in routes { on(RouterPath(route.path), method: route.method, use: route.handler) }
        for (path, routes) in Dictionary(grouping: routes, by: \.path) {
            let own = Set(routes.map(\.method))
            let allowed = Self.allowed(own)
            let others = routes.lazy.compactMap(\.otherMethods).first
            // `autoGenerateHeadEndpoints` adds HEAD where GET is.
            for method in Self.methods where !own.contains(method) && !(method == .head && own.contains(.get)) {
                on(RouterPath(path), method: method) { _, _ in
                    if method == .options { return Response(status: .noContent, headers: [.allow: allowed]) }
                    guard let others, method != .trace else { throw Refusal.methodNotAllowed(allowed) }
                    return others()
                }
            }
        }
        let all = Self.allowed(Set(routes.map(\.method)))
        return on(RouterPath(RequestRules.wholeServer), method: .options) { _, _ in
            Response(status: .noContent, headers: [.allow: all])
        }
    }

    /// The value of `Allow` for a path with these methods.
    private static func allowed(_ own: Set<HTTPRequest.Method>) -> String {
        let all = own.union(own.contains(.get) ? [.head, .options] : [.options])
        return methods.filter(all.contains).map(\.rawValue).joined(separator: ", ")
    }
}
