// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation
import PurchaseLedger
import TestData
import TestWorld
import Testing

@testable import PurchaseServer

/// The examples of events for tests of an endpoint, against the table in `docs/events.md` and the genuine events in
/// `docs/events.jsonl`.
@Suite struct WebhookExampleTests {
    private static let endpoint = WebhookEndpoint(
        id: "x", of: "com.example", url: "https://example.com/", createdAt: TestStore.start)

    private static func example(_ kind: LedgerEvent.Kind, _ endpoint: WebhookEndpoint = endpoint) throws -> JSONValue {
        try JSONValue(parsing: WebhookExample(kind, id: "1", for: endpoint, at: TestStore.start).body)
    }

    /// The members in a cell of the table.
    private static func names(_ cell: String) -> Set<String> {
        Set(cell.matches(of: /`(\w+…?)`/).flatMap { EventPageTests.groups[String($0.1)] ?? [String($0.1)] })
    }

    @Test(arguments: LedgerEvent.Kind.allCases)
    func `an example has the members of genuine events of its kind, and the mark of a test`(
        kind: LedgerEvent.Kind
    ) throws {
        let page = try Project.text("docs/events.md")
        let text = try #require(page.components(separatedBy: "## Members and examples\n").last)
        let row = try #require(text.split(separator: "\n").first { $0.hasPrefix("| `\(kind.rawValue)` |") })
        let cells = row.components(separatedBy: " | ")
        let required = Self.names(cells[1])
        let allowed = required.union(Self.names(cells.count > 2 ? cells[2] : ""))
        let example = try Self.example(kind)
        let members = Set((example.members ?? []).filter { $0.value != .null }.map(\.name))
            .subtracting(["id", "kind", "recordedAt", "bundleId", "environment", "effectiveAt", "test"])
        // All events of a rare kind in the page's year may be about an offer.
        let missing = required.subtracting(members).filter { !$0.hasPrefix("offer") }
        #expect(missing.isEmpty, "missing: \(missing.sorted())")
        #expect(members.isSubset(of: allowed), "unknown: \(members.subtracting(allowed).sorted())")
        #expect(example["kind"]?.string == kind.rawValue && example["test"] == .bool(true))
        #expect(example["id"]?.string == "test_1" && example["bundleId"]?.string == "com.example")
        let isBare = [.notificationReceived, .environmentsChanged, .ledgerRestored].contains(kind)
        let customer = isBare ? nil : "quittance-test"
        #expect(example["customer"]?.string == customer)
    }

    /// The members of an event beside its body.
    private static let columns: Set<String> = [
        "id", "customer", "mergedCustomer", "removedId", "ids", "attributes", "deletedId", "deletedIds", "kind",
        "recordedAt", "bundleId", "environment", "originalTransactionId",
    ]

    /// White space makes a page read the body member by member.
    @Test(arguments: LedgerEvent.Kind.allCases)
    func `a body that a page copies gives the same event as one that it reads`(kind: LedgerEvent.Kind) throws {
        let members = (try Self.example(kind).members ?? []).filter { !Self.columns.contains($0.name) }
        let text = JSONValue.object(members).compactText.dropFirst()
        for reference in ["", #""mergedCustomer":2,"#, #""removedId":1,"#, #""attributes":["plan"],"#] {
            let events = try ["{", "{ "].map { start in
                let event = LedgerEvent(
                    Open(kind), in: LedgerScope(bundleId: "com.example", environment: .production),
                    at: TestStore.start, customer: nil, chainName: "1", body: Array((start + reference + text).utf8))
                let page = EventPage(events: [event], customerIds: [:], next: EventCursor(rawValue: "1"))
                return try JSONWriter.bytes(publishing: EventBody(event, in: page))
            }
            #expect(events[0] == events[1])
            #expect(try JSONValue(parsing: events[0]).members?.suffix(members.count) == members[...])
        }
    }

    @Test(arguments: LedgerEvent.Kind.allCases)
    func `the members of an example have the order and the types of a genuine event`(kind: LedgerEvent.Kind) throws {
        let lines = try Project.text("docs/events.jsonl").split(separator: "\n")
        let events = try lines.map { try JSONValue(parsing: Array($0.utf8)) }
        let genuine = try #require(events.first { $0["kind"]?.string == kind.rawValue })
        let example = try Self.example(kind)
        let common = Set((genuine.members ?? []).map(\.name)).intersection((example.members ?? []).map(\.name))
        func shared(_ value: JSONValue) -> [String] {
            (value.members ?? []).map(\.name).filter(common.contains)
        }
        #expect(shared(example) == shared(genuine))
        #expect(common.count >= 6)
        for name in common {
            let types = [genuine[name], example[name]].map { $0.map(Self.type) ?? "" }
            #expect(types[0] == types[1] || types.contains("null"), "\(name)")
        }
    }

    private static func type(_ value: JSONValue) -> String {
        switch value {
        case .null: "null"
        case .bool: "bool"
        case .number: "number"
        case .string: "string"
        case .array: "array"
        case .object: "object"
        }
    }

    @Test func `an example is of the sandbox, unless the endpoint wants another environment`() throws {
        #expect(try Self.example(.purchased)["environment"]?.string == "Sandbox")
        var endpoint = Self.endpoint
        endpoint.environment = .production
        let example = try Self.example(.subscriptionStarted, endpoint)
        #expect(example["environment"]?.string == "Production")
        let entitlement = example["entitlementsAfter"]?.array?.first
        #expect(entitlement?["environment"]?.string == "Production" && entitlement?["name"]?.string == "test")
    }

    @Test func `an endpoint with a filter gets examples of its kinds alone, and of what every endpoint gets`() {
        var endpoint = Self.endpoint
        #expect(WebhookExample.kinds(for: endpoint) == LedgerEvent.Kind.allCases)
        endpoint.kinds = ["grant.made", "purchase.made", "a.newer.version's"]
        #expect(WebhookExample.kinds(for: endpoint) == [.purchased, .grantMade, .ledgerRestored])
    }

    @Test func `ids of webhooks differ within a server and between servers`() {
        let first = WebhookIDs(seed: 1 << 63)
        let second = WebhookIDs(seed: 1 << 62)
        let ids = (0..<100).flatMap { _ in [first.next(), second.next()] }
        #expect(Set(ids).count == 200)
        #expect(ids.allSatisfy { $0.allSatisfy { $0.isASCII && ($0.isLowercase || $0.isNumber) } })
    }
}
