// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import HTTPTypes
import PurchaseLedger
import PurchaseServer

/// The section about routes in `docs/api.md`, as the values of the routes have it.
struct RouteTable {
    static let begin = "<!-- The routes as the sources declare them: RouteTests compares this. -->"
    static let end = "<!-- The end of the declared routes. -->"

    let routes: [APIRoute]

    var lines: [String] {
        let common = [
            ("any route", ErrorCode.ofAnyRoute), ("a route that reads a body", ErrorCode.ofBodies),
            ("a route that needs a key", ErrorCode.ofKeys), ("a client key", ErrorCode.ofCustomerTokens),
            ("*document*", ErrorCode.ofDocuments), ("*App Store*", ErrorCode.ofAppStore),
        ]
        return ["| route | key | | command | takes | answers | own errors |", "|---|---|---|---|---|---|---|"]
            + routes.map(row)
            + ["", "| parameter of the query | |", "|---|---|"] + parameters
            + ["", "| with | errors besides those of the route |", "|---|---|"]
            + common.map { "| \($0) | \(list($1)) |" }
    }

    private func row(_ route: APIRoute) -> String {
        let statuses = route.statuses.map { "\($0.code)" }.joined(separator: ", ") + " `\(route.answer)`"
        let cells = [
            "`\(route.method) \(route.path)`", key(route), route.summary, command(route), takes(route), statuses,
            ownErrors(route.ownErrors),
        ]
        return "| \(cells.joined(separator: " | ")) |"
    }

    private func command(_ route: APIRoute) -> String {
        let all = Operation.all.map { $0.operation }
        let command = all.first { $0.method == route.method && $0.path == route.path }?.command ?? ""
        return command.isEmpty ? "–" : "`\(command)`"
    }

    /// A server key has all rights of a client key.
    private func key(_ route: APIRoute) -> String {
        route.roles.isEmpty ? "–" : route.roles.contains(.client) ? "client" : "server"
    }

    private func ownErrors(_ codes: Set<ErrorCode>) -> String {
        var rest = codes
        var cells: [String] = []
        for (name, group) in [("*document*", ErrorCode.ofDocuments), ("*App Store*", ErrorCode.ofAppStore)]
        where codes.isSuperset(of: group) {
            rest.subtract(group)
            cells.append(name)
        }
        if !rest.isEmpty { cells.append(list(rest)) }
        return cells.isEmpty ? "–" : cells.joined(separator: ", ")
    }

    private func takes(_ route: APIRoute) -> String {
        let path = route.fields(in: .path).map { "`{\($0.name)}`: \($0.explanation)" }
        let query = route.fields(in: .query).map { "`?\($0.name)`" + ($0 == .environments ? " or `any`" : "") }
        let body = route.bodyLimit.map { limit in
            let members = route.fields(in: .body).map { "`\($0.name)`" }.joined(separator: ", ")
            return "a body of at most \(size(limit))" + (members.isEmpty ? "" : ": \(members)")
        }
        let parts = path + (query.isEmpty ? [] : [query.joined(separator: ", ")]) + (body.map { [$0] } ?? [])
        return parts.isEmpty ? "–" : parts.joined(separator: "; ")
    }

    private func size(_ bytes: Int) -> String {
        bytes.isMultiple(of: 1 << 20) ? "\(bytes >> 20) MiB" : "\(bytes >> 10) KiB"
    }

    private var parameters: [String] {
        var seen: Set<Field> = []
        return routes.flatMap { $0.fields(in: .query) }.filter { seen.insert($0).inserted }.map {
            "| `\($0.name)` | \($0.explanation) |"
        }
    }

    /// In the order of ``ErrorCode``.
    private func list(_ codes: Set<ErrorCode>) -> String {
        ErrorCode.allCases.filter(codes.contains).map { "`\($0.rawValue)`" }.joined(separator: ", ")
    }
}

extension APIRoute {
    func fields(in place: Field.Place) -> [Field] { fields.filter { $0.place == place } }

    /// The path with a value for each of its parameters.
    var example: String { path.replacing(/\{[^}]*\}/, with: "1") }
}

extension Field {
    /// The form of the field's text, or of each of its texts.
    var textForm: TextForm? {
        switch form {
        case .text(let form): form
        case .list(let form, _): form
        default: nil
        }
    }
}
