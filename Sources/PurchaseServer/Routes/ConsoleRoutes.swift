// SPDX-License-Identifier: Apache-2.0

import CConsole
import HTTPTypes
import Hummingbird

/// The files of the console: a client of `/v1` in a browser, which a person gives a key.
enum ConsoleRoutes {
    private static let files: [(path: String, type: String, summary: String)] = [
        ("/", "text/html; charset=utf-8", "returns the page of the console"),
        ("/console.css", "text/css; charset=utf-8", "returns the style sheet of the console"),
        ("/console.js", "text/javascript; charset=utf-8", "returns the script of the console"),
        ("/icon.svg", "image/svg+xml", "returns the icon of the console"),
    ]

    static let routes = files.enumerated().map { index, file in
        // One buffer for all answers.
        let number = Int32(index)
        let body = ByteBuffer(
            bytes: UnsafeRawBufferPointer(
                start: quittance_console(number), count: quittance_console_length(number)))
        return APIRoute(.get, file.path, file.summary, answer: String.self, statuses: [.ok]) { _ in
            Response(status: .ok, headers: [.contentType: file.type], body: ResponseBody(byteBuffer: body))
        }
    }
}

/// Gives each response of the console's port, also an error, the fields that keep its pages to themselves: no other
/// origin may frame them, read them or run a script in them. ``RequestLog`` lets no cache keep any response.
struct ConsoleHeaders: RouterMiddleware {
    private static let fields: HTTPFields = {
        let rules = [
            "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self'", "connect-src 'self'",
            "form-action 'none'", "frame-ancestors 'none'", "base-uri 'none'",
        ]
        var fields: HTTPFields = [
            .contentSecurityPolicy: rules.joined(separator: "; "), .xContentTypeOptions: "nosniff",
        ]
        for (name, value) in [("Referrer-Policy", "no-referrer"), ("Cross-Origin-Resource-Policy", "same-origin")] {
            if let name = HTTPField.Name(name) { fields[name] = value }
        }
        return fields
    }()

    func handle(
        _ request: Request, context: BasicRequestContext,
        next: (Request, BasicRequestContext) async throws -> Response
    ) async throws -> Response {
        var response = try await next(request, context)
        for field in Self.fields { response.headers[field.name] = field.value }
        return response
    }
}
