// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation
import HTTPTypes
import Hummingbird
import NIOCore
import PurchaseLedger
import PurchaseServer
import TestData
import Testing

/// The routes of a server without a socket. An answer that its route does not declare, or that has not the form in
/// `docs/openapi.json`, is an issue of the test.
func checkedApplication(of server: ServerApplication) -> Application<DeclaredAnswers> {
    Application(
        responder: DeclaredAnswers(router: server.router().buildResponder(), routes: server.routes),
        logger: server.logger)
}

/// Answers like a router, and records answers that are not as declared.
struct DeclaredAnswers: HTTPResponder {
    fileprivate let router: RouterResponder<BasicRequestContext>
    fileprivate let routes: [APIRoute]

    func respond(to request: Request, context: BasicRequestContext) async throws -> Response {
        var response = try await router.respond(to: request, context: context)
        let path = request.uri.path.split(separator: "/")
        let route = routes.first { $0.method == request.method && Self.matches($0.path.split(separator: "/"), path) }
        guard let route, response.status != .notModified else { return response }
        let status = response.status
        response.body = response.body.map { body in
            for fault in try Self.faults(in: JSONValue(parsing: body.readableBytesView), of: route, status) {
                Issue.record("\(route.method) \(route.path) answers \(status.code): \(fault)")
            }
            return body
        }
        return response
    }

    private static func faults(
        in answer: JSONValue, of route: APIRoute, _ status: HTTPResponse.Status
    ) throws -> [String] {
        let faults = try AnswerSchemas.ofDocument.get().faults(in: answer, of: route, status)
        guard !route.statuses.contains(status) else { return faults }
        let code = answer["error"]?["code"]?.string
        let isDeclared = code.flatMap(ErrorCode.init).map(route.errors.contains) ?? false
        return faults + (isDeclared ? [] : ["\(code ?? "the status") is not declared"])
    }

    private static func matches(_ template: [Substring], _ path: [Substring]) -> Bool {
        template.count == path.count && zip(template, path).allSatisfy { $0 == $1 || $0.hasPrefix("{") }
    }
}

/// The schemas of `docs/openapi.json`. To clients they allow further members, which a newer version may send. Here they
/// allow none.
struct AnswerSchemas: Sendable {
    static let ofDocument = Result { AnswerSchemas(document: try JSONValue(parsing: Data(contentsOf: file))) }

    private static let file = Project.root.appending(path: "docs/openapi.json")

    private let paths: JSONValue?
    /// The parts of the document that others refer to.
    private let components: [String: JSONValue]

    init(document: JSONValue) {
        paths = document["paths"]
        let sections = document["components"]?.members ?? []
        let parts = sections.flatMap { section in
            (section.value.members ?? []).map { ("#/components/\(section.name)/\($0.name)", $0.value) }
        }
        components = Dictionary(parts) { first, _ in first }
    }

    func faults(in answer: JSONValue, of route: APIRoute, _ status: HTTPResponse.Status) -> [String] {
        let responses = paths?[route.path]?[route.method.rawValue.lowercased()]?["responses"]
        let codes = ["\(status.code)", "\(status.code / 100)XX"]
        guard let response = codes.lazy.compactMap({ responses?[$0] }).first.map(resolved) else {
            return ["docs/openapi.json lacks the status"]
        }
        guard let schema = response["content"]?["application/json"]?["schema"] else { return ["no body is declared"] }
        return faults(in: answer, schema, "the answer")
    }

    /// - Returns: A sentence for each place where the value has not the form of the schema.
    func faults(in value: JSONValue, _ schema: JSONValue, _ place: String) -> [String] {
        if schema["$ref"]?.string == "#/components/schemas/Event", let kind = value["kind"]?.string {
            // Tests make events of newer versions, whose members nobody knows.
            guard LedgerEvent.Kind(rawValue: kind) != nil else { return [] }
        }
        let schema = resolved(schema)
        if let choices = schema["anyOf"]?.array {
            let faults = choices.map { self.faults(in: value, $0, place) }
            return faults.contains([]) ? [] : faults.flatMap(\.self)
        }
        let types = schema["type"]?.array?.compactMap(\.string) ?? [schema["type"]?.string].compactMap(\.self)
        guard types.isEmpty || types.contains(where: value.isOf) else { return ["\(place) is no \(types)"] }
        if let words = schema["enum"]?.array, !words.contains(value) {
            return ["\(place) has the undeclared value \(value.compactText)"]
        }
        return memberFaults(in: value, schema, place)
            + (value.array ?? []).flatMap { element in
                schema["items"].map { faults(in: element, $0, place + "[]") } ?? []
            }
    }

    private func memberFaults(in value: JSONValue, _ schema: JSONValue, _ place: String) -> [String] {
        guard let members = value.members else { return [] }
        let others = schema["additionalProperties"]
        let isOpen = others == .bool(true) || schema["properties"] == nil && others == nil
        let missing = (schema["required"]?.array ?? []).compactMap(\.string).filter { value[$0] == nil }
        return missing.map { "\(place) lacks \($0)" }
            + members.flatMap { member in
                let own = schema["properties"]?[member.name] ?? (others?.members == nil ? nil : others)
                guard let own else { return isOpen ? [] : ["\(place) has the undeclared member \(member.name)"] }
                return faults(in: member.value, own, "\(place).\(member.name)")
            }
    }

    /// The schema or response itself, in place of a reference.
    private func resolved(_ value: JSONValue) -> JSONValue {
        value["$ref"]?.string.map { components[$0] ?? .null } ?? value
    }
}

extension JSONValue {
    /// Whether the value has a type of JSON Schema.
    fileprivate func isOf(_ type: String) -> Bool {
        switch type {
        case "null": self == .null
        case "string": string != nil
        case "boolean": bool != nil
        case "integer": integer != nil
        case "array": array != nil
        case "object": members != nil
        default: false
        }
    }
}
