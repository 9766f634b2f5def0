// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import HTTPTypes
import PurchaseLedger
import PurchaseServer

/// What `scripts/openapi` cannot read in the sources: the routes, as the values of the program have them.
struct RouteTable {
    let routes: [APIRoute]

    var json: JSONValue {
        .object([
            .init("version", .string(ServerApplication.version)),
            .init("routes", .array(routes.map(Self.row))),
            .init(
                "errors",
                .array(
                    ErrorCode.allCases.map { code in
                        .object([.init("code", .string(code.rawValue)), .init("status", .number(code.status.code))])
                    })),
            .init("groups", .object(Self.groups.map { .init($0, Self.list($1)) })),
        ])
    }

    /// The codes that several routes share.
    private static let groups = [
        ("any route", ErrorCode.ofAnyRoute), ("a route with a body, and `DELETE`", ErrorCode.ofBodies),
        ("a route that needs a key", ErrorCode.ofKeys), ("a client key", ErrorCode.ofCustomerTokens),
        ("*document*", ErrorCode.ofDocuments), ("*App Store*", ErrorCode.ofAppStore),
    ]

    private static func row(_ route: APIRoute) -> JSONValue {
        .object([
            .init("name", .string(name(of: route))),
            .init("method", .string(route.method.rawValue)),
            .init("path", .string(route.path)),
            .init("summary", .string(route.summary)),
            .init("roles", .array(route.roles.map(\.rawValue).sorted().map { .string($0) })),
            .init("bodyLimit", route.bodyLimit.map { .number($0) } ?? .null),
            .init("statuses", .array(route.statuses.map { .number($0.code) })),
            .init("answer", .string("\(route.answer)")),
            .init("command", .string(command(of: route))),
            .init("errors", list(route.errors)),
            .init("ownErrors", list(route.ownErrors)),
            .init("fields", .array(route.fields.map(row))),
        ])
    }

    /// The name of the operation, such as `getCustomer`; of other routes the words of the path.
    private static func name(of route: APIRoute) -> String {
        let type = Operation.all.first { $0.operation.method == route.method && $0.operation.path == route.path }
        let words =
            type.map { [String(describing: $0)] }
            ?? route.path.split { !$0.isLetter && !$0.isNumber }.map { String($0) }
        let name = words.map { $0.prefix(1).uppercased() + $0.dropFirst() }.joined()
        return name.prefix(1).lowercased() + name.dropFirst()
    }

    private static func command(of route: APIRoute) -> String {
        let all = Operation.all.map { $0.operation }
        return all.first { $0.method == route.method && $0.path == route.path }?.command ?? ""
    }

    /// In the order of ``ErrorCode``.
    private static func list(_ codes: Set<ErrorCode>) -> JSONValue {
        .array(ErrorCode.allCases.filter(codes.contains).map { .string($0.rawValue) })
    }

    private static func row(_ field: Field) -> JSONValue {
        .object([
            .init("name", .string(field.name)),
            .init("place", .string("\(field.place)")),
            .init("meaning", .string(field.explanation(isOption: false))),
            .init("required", .bool(field.isRequired)),
            .init("schema", field.schema),
        ])
    }
}

// MARK: - JSON Schema

extension Field {
    /// The values of the field. The server refuses further ones, such as a text of blanks alone.
    fileprivate var schema: JSONValue {
        var members = members
        if isNullable {
            members[0].value = .array([members[0].value, .string("null")])
            members = members.map { $0.name == "enum" ? .init("enum", .array(($0.value.array ?? []) + [.null])) : $0 }
        }
        return .object(members + (standardValue.map { [.init("default", $0)] } ?? []))
    }

    /// What counts without the field, if that is a value.
    private var standardValue: JSONValue? {
        switch form {
        case .number: standard.flatMap { Int($0) }.map { .number($0) }
        case .flag: standard.flatMap { Bool($0) }.map { .bool($0) }
        case .word(let words) where words.contains(standard ?? ""): standard.map { .string($0) }
        default: isNullable && standard == "all" ? .null : nil
        }
    }

    /// The members of the schema, the type first.
    private var members: [JSONValue.Member] {
        switch form {
        case .text(let form): Self.text(form)
        case .document: [Self.type("string")]
        case .time: [Self.type("integer"), .init("format", .string("int64")), .init("minimum", .number(0))]
        case .number(let range):
            [
                Self.type("integer"), .init("format", .string("int64")),
                .init("minimum", .number("\(range.lowerBound)")), .init("maximum", .number("\(range.upperBound)")),
            ]
        case .flag: [Self.type("boolean")]
        case .word(let words): Self.word(words)
        case .words(let words):
            [
                Self.type("array"), .init("items", .object(Self.word(words))), .init("minItems", .number(1)),
                .init("uniqueItems", .bool(true)),
            ]
        case .list(let form, let limit):
            [
                Self.type("array"), .init("items", .object(form.map(Self.text) ?? [Self.type("string")])),
                .init("minItems", .number(1)), .init("maxItems", .number(limit)),
            ]
        case .object: [Self.type("object")]
        }
    }

    private static func type(_ name: String) -> JSONValue.Member { .init("type", .string(name)) }

    private static func word(_ words: [String]) -> [JSONValue.Member] {
        [type("string"), .init("enum", .array(words.map { .string($0) }))]
    }

    /// A length in bytes bounds the number of characters too.
    private static func text(_ form: TextForm) -> [JSONValue.Member] {
        let pattern =
            switch form.characters {
            case .line: #"^[^\u0000-\u001f\u007f-\u009f\u2028\u2029]*$"#
            case .lines: #"^[^\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u2028\u2029]*$"#
            case .letters(let others): "^[A-Za-z0-9\(escaped(others))]*$"
            case .only(let characters, _): "^[\(escaped(characters))]*$"
            }
        let least = form.length.lowerBound == 0 ? [] : [JSONValue.Member("minLength", .number(form.length.lowerBound))]
        return [type("string")] + least
            + [.init("maxLength", .number(form.length.upperBound)), .init("pattern", .string(pattern))]
    }

    private static func escaped(_ characters: String) -> String {
        characters.map { #"\^$.|?*+()[]{}/-"#.contains($0) ? "\\\($0)" : "\($0)" }.joined()
    }

    /// The form of the field's text, or of each of its texts.
    var textForm: TextForm? {
        switch form {
        case .text(let form): form
        case .list(let form, _): form
        default: nil
        }
    }
}

extension JSONValue {
    fileprivate static func number(_ value: Int) -> JSONValue { .number("\(value)") }
}

extension APIRoute {
    func fields(in place: Field.Place) -> [Field] { fields.filter { $0.place == place } }

    /// The path with a value for each of its parameters.
    var example: String { path.replacing(/\{[^}]*\}/, with: "1") }
}
