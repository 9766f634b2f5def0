// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import Foundation
import HTTPTypes
import HummingbirdTesting
import NIOCore
import PurchaseLedger
import PurchaseServer
import TestData
import TestProcess
import Testing

/// `docs/openapi.json`, and what follows from it in `docs/api.md` and `llms.txt`.
@Suite struct OpenAPITests {
    /// With the environment variable, which `make openapi` sets, the papers are written.
    @Test func `the papers are those that make openapi makes`() async throws {
        let table = RouteTable(routes: try await LedgerRoutesTests.World().server.routes)
        let folder = try TemporaryFolder()
        let file = try folder.write(table.json.compactText, to: "routes.json")
        let isWriting = ProcessInfo.processInfo.environment["WRITE_PAPERS"] != nil
        let script = Project.root.appending(path: "scripts/openapi").path
        let outcome = try TestProcess.run(["python3", script, file.path] + (isWriting ? ["--write"] : []))
        #expect(outcome.status == 0, "\(outcome.output)\n\(outcome.error)")
    }

    @Test func `servers with other settings have the same routes`() async throws {
        let plain = try await LedgerRoutesTests.World()
        let other = try await LedgerRoutesTests.World(policy: .keep, refused: ["1"]) {
            $0.environments = [.production]
        }
        #expect(RouteTable(routes: plain.server.routes).json == RouteTable(routes: other.server.routes).json)
    }

    @Test func `the server answers the document without a key, and 304 to who has it`() async throws {
        let world = try await LedgerRoutesTests.World()
        let response = try await world.respond(.get, "/openapi.json", key: nil)
        let file = try Data(contentsOf: Project.root.appending(path: "docs/openapi.json"))
        #expect(response.status == .ok && response.headers[.contentType] == "application/json")
        #expect(response.body.readableBytesView.elementsEqual(file))
        let tag = try #require(response.headers[.eTag])
        try await checkedApplication(of: world.server).test(.router) { client in
            for (sent, status) in [
                (tag, HTTPResponse.Status.notModified), ("\"x\", \(tag)", .notModified), ("\"x\"", .ok),
            ] {
                let again = try await client.execute(
                    uri: "/openapi.json", method: .get, headers: [.ifNoneMatch: sent])
                #expect(again.status == status && again.headers[.eTag] == tag, "\(sent)")
                #expect((again.body.readableBytes == 0) == (status == .notModified), "\(sent)")
            }
        }
    }

    // MARK: - Answers

    private static let schemas = AnswerSchemas(
        document: .object([
            .init("components", .object([.init("schemas", .object([.init("Customer", schema)]))]))
        ]))

    private static let schema: JSONValue = {
        let text = #"""
            {"type":"object","required":["id","until"],"properties":{
            "id":{"type":"string"},"until":{"type":["integer","null"]},"state":{"type":"string","enum":["on"]},
            "merged":{"type":"array","items":{"$ref":"#/components/schemas/Customer"}},
            "names":{"type":"object","additionalProperties":{"type":"boolean"}}}}
            """#
        return (try? JSONValue(parsing: text.utf8)) ?? .null
    }()

    @Test(arguments: [
        (#"{"id":"a","until":null,"state":"on","merged":[{"id":"b","until":1}],"names":{"x":true}}"#, []),
        (#"{"id":"a"}"#, ["it lacks until"]),
        (#"{"id":null,"until":1.5}"#, [#"it.id is no ["string"]"#, #"it.until is no ["integer", "null"]"#]),
        (#"{"id":"a","until":1,"more":1}"#, ["it has the undeclared member more"]),
        (#"{"id":"a","until":1,"state":"off"}"#, [#"it.state has the undeclared value "off""#]),
        (#"{"id":"a","until":1,"merged":[{"id":"b"}]}"#, ["it.merged[] lacks until"]),
        (#"{"id":"a","until":1,"names":{"x":1}}"#, [#"it.names.x is no ["boolean"]"#]),
    ]) func `an answer that has not its form is found`(answer: String, faults: [String]) throws {
        #expect(try Self.schemas.faults(in: JSONValue(parsing: answer.utf8), Self.schema, "it") == faults)
    }

    @Test(arguments: LedgerEvent.Kind.allCases) func `the example of each kind of event has its form`(
        kind: LedgerEvent.Kind
    ) throws {
        let now = LedgerRoutesTests.now
        let endpoint = WebhookEndpoint(id: "1", of: "com.example", url: "https://example.com", createdAt: now)
        let example = WebhookExample(kind, id: "1", for: endpoint, at: now)
        let event = JSONValue.object([.init("$ref", .string("#/components/schemas/Event"))])
        let schemas = try AnswerSchemas.ofDocument.get()
        #expect(try schemas.faults(in: JSONValue(parsing: example.body), event, "the event") == [])
    }
}
