// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Hummingbird
import NIOCore
import PurchaseServer
import Testing

/// The routes of a server without a socket. An answer that its route does not declare is an issue of the test.
func checkedApplication(of server: ServerApplication) -> Application<DeclaredAnswers> {
    Application(
        responder: DeclaredAnswers(router: server.router().buildResponder(), routes: server.routes),
        logger: server.logger)
}

/// Answers like a router, and records answers that their routes do not declare.
struct DeclaredAnswers: HTTPResponder {
    fileprivate let router: RouterResponder<BasicRequestContext>
    fileprivate let routes: [APIRoute]

    func respond(to request: Request, context: BasicRequestContext) async throws -> Response {
        var response = try await router.respond(to: request, context: context)
        let path = request.uri.path.split(separator: "/")
        let route = routes.first { $0.method == request.method && Self.matches($0.path.split(separator: "/"), path) }
        guard let route, !route.statuses.contains(response.status) else { return response }
        let status = response.status
        response.body = response.body.map { body in
            let code = try JSONValue(parsing: body.readableBytesView)["error"]?["code"]?.string
            let isDeclared = code.flatMap(ErrorCode.init).map(route.errors.contains) ?? false
            if !isDeclared { Issue.record("\(route.method) \(route.path) answers \(status.code) \(code ?? "")") }
            return body
        }
        return response
    }

    private static func matches(_ template: [Substring], _ path: [Substring]) -> Bool {
        template.count == path.count && zip(template, path).allSatisfy { $0 == $1 || $0.hasPrefix("{") }
    }
}
