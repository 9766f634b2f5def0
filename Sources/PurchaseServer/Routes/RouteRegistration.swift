// SPDX-License-Identifier: Apache-2.0

// Registers each ``APIRoute`` with the router, and answers all other methods of its path.

import HTTPTypes
import Hummingbird

extension Router<BasicRequestContext> {
    /// The methods that RFC 9110 and RFC 5789 define, in the order of `Allow`. ``RequestRules`` refuses all others.
    private static let methods: [HTTPRequest.Method] = [
        .get, .head, .post, .put, .delete, .patch, .options, .trace,
    ]

    /// Adds routes, and OPTIONS of each path and of the whole server. Other methods of a path get 405 with `Allow` (RFC
    /// 9110 section 15.5.6), unless a route of the path answers them; see ``APIRoute/otherMethods``. Call this function
    /// once per router, with all routes.
    func add(_ routes: [APIRoute]) -> Self {
        for route in routes { on(RouterPath(route.path), method: route.method, use: route.handler) }
        for (path, routes) in Dictionary(grouping: routes, by: \.path) {
            let own = Set(routes.map(\.method))
            let allowed = Self.allowed(own)
            let others = routes.lazy.compactMap(\.otherMethods).first
            // `autoGenerateHeadEndpoints` adds HEAD to each path with GET.
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
