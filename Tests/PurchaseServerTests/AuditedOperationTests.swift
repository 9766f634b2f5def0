// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import HTTPTypes
import PurchaseLedger
import PurchaseServer
import Synchronization
import Testing

/// Who asks for a change and why, over HTTP: each operation that changes something takes both, and its entry on the
/// audit list has them.
@Suite struct AuditedOperationTests {
    private typealias World = LedgerRoutesTests.World

    /// A request, without a name and a reason.
    private struct Request {
        let operation: PurchaseServer.Operation
        let id: String
        let members: String

        init(_ type: any NamedOperation.Type, _ id: String = "anna", _ members: String = "") {
            operation = type.operation
            self.id = id
            self.members = members
        }

        var isQuery: Bool { operation.bodyLimit == nil }

        /// The fields of the name and of the reason.
        var fields: [Field] {
            operation.fields.filter { [.text(.author), .text(.reason), .text(.why)].contains($0.form) }
        }

        func send(_ world: World, _ texts: [String]) async throws -> (HTTPResponse.Status, JSONValue) {
            let path = operation.path.replacing("{id}", with: id).replacing("{grant}", with: "x-1")
            let query = zip(fields, texts).map { "\($0.name)=\($1)" }.joined(separator: "&")
            guard !isQuery else { return try await world.send(operation.method, "\(path)?\(query)") }
            let added = zip(fields, texts).map { #""\#($0.name)":"\#($1)""# }
            let body = "{\((added + [members].filter { !$0.isEmpty }).joined(separator: ","))}"
            return try await world.send(operation.method, path, body)
        }
    }

    /// A clock of the machine that advances at each reading.
    private final class WallClock: Sendable {
        private let time = Mutex(LedgerRoutesTests.now)

        func read() -> Timestamp {
            time.withLock { time in
                time = time.advanced(by: .milliseconds(1))
                return time
            }
        }
    }

    /// Requests about a customer `anna` with the transaction 1, in their order.
    private static let requests = [
        Request(MakeGrant.self, "anna", #""id":"x-1","entitlement":"gold","forever":true"#), Request(EndGrant.self),
        Request(SetAttributes.self, "bert", #""attributes":{"plan":{"value":"gold"}}"#),
        Request(RecordConsent.self, "anna", #""customerConsented":true"#),
        Request(AddAlias.self, "anna", #""alias":"bert""#), Request(UnmergeCustomer.self, "bert"),
        Request(AddAlias.self, "anna", #""alias":"ann""#), Request(UnlinkCustomer.self, "anna", #""alias":"ann""#),
        Request(DenyPurchase.self, "1"), Request(AllowPurchase.self, "1"),
        Request(MovePurchase.self, "1", #""customers":["bert"]"#), Request(DeleteCustomer.self),
        Request(AddWebhook.self, "", #""url":"https://example.com/hooks""#),
    ]

    private static func ofWebhook(_ id: String) -> [Request] {
        [
            Request(ChangeWebhook.self, id, #""ordered":true"#), Request(PauseWebhook.self, id),
            Request(ResumeWebhook.self, id), Request(RotateWebhook.self, id),
            Request(ReplayWebhook.self, id, #""after":"0""#), Request(RemoveWebhook.self, id),
        ]
    }

    private static func ofAppStore(_ id: String) -> [Request] {
        let account = "0d6e5c0a-6a52-4a0b-9d4b-0f1f4e3a9b11"
        let extended = #""extendByDays":2,"extendReasonCode":3,"requestIdentifier":"#
        return [
            Request(BackfillCustomer.self, "", #""transactionId":"\#(id)""#),
            Request(ExtendSubscription.self, id, extended + #""outage 1""#),
            Request(ExtendAll.self, "", extended + #""\#(account)","productId":"month""#),
            Request(SetAppAccountToken.self, id, #""appAccountToken":"\#(account)""#),
            // The App Store tells nothing new.
            Request(SetAppAccountToken.self, id, #""appAccountToken":"\#(account)""#),
        ]
    }

    private static let supplied =
        #""customerConsented":true,"deliveryStatus":"DELIVERED","sampleContentProvided":false"#

    @Test func `the name and the reason of each change are in its entry, and nowhere else on the list`() async throws {
        var asked: Set<String> = []
        func ask(_ requests: [Request], _ world: World) async throws {
            var world = world
            let clock = WallClock()
            world.server.wall = { clock.read() }
            for (number, request) in requests.enumerated() {
                let name = request.operation.name
                let texts = ["name-\(number)-\(name)", "reason-\(number)-\(name)"]
                let fields = request.fields
                #expect(fields.count == 2 && fields.filter { $0.form == .text(.author) }.count == 1, "\(name)")
                #expect(fields.allSatisfy { $0.place == (request.isQuery ? .query : .body) }, "\(name)")
                let (status, answer) = try await request.send(world, texts)
                #expect(status.code < 300, "\(name): \(answer.compactText)")
                let list = try await world.send(.get, "/v1/audit?limit=200").1["items"]?.array ?? []
                let found = list.filter { entry in texts.contains { entry.compactText.contains($0) } }
                #expect(found.map { $0["operation"]?.string } == [name], "\(found)")
                let said = Dictionary(uniqueKeysWithValues: zip(fields.map(\.form), texts))
                #expect(found.first?["by"]?.string == said[.text(.author)], "\(found)")
                #expect(found.first?["reason"]?.string == said[.text(.reason)] ?? said[.text(.why)], "\(found)")
                asked.insert(name)
            }
        }
        let world = try await WebhookRoutesTests.world()
        try await world.submit()
        try await ask(Self.requests, world)
        let webhooks = try await world.send(.get, "/v1/webhooks").1["items"]?.array
        try await ask(Self.ofWebhook(#require(webhooks?.first?["id"]?.string)), world)
        try await ask([Request(SupplyConsumption.self, "1", Self.supplied)], ConsumptionRoutesTests.world())
        let shop = try await AppStoreRoutesTests.Shop()
        try await ask(Self.ofAppStore(shop.id), shop.server)
        let list = try await shop.server.send(.get, "/v1/audit").1["items"]?.array ?? []
        let withoutCustomer = list.filter { $0["customerId"]?.string == nil }.map { $0["operation"]?.string }
        #expect(withoutCustomer == ["extendAll"])
        #expect(asked == Set(Operation.all.map { $0.operation }.filter(\.isAudited).map(\.name)))
    }

    @Test func `a name in the query in place of the body, or in the body of a DELETE, is refused`() async throws {
        let world = try await WebhookRoutesTests.world()
        try await world.submit()
        for (method, path, body, place) in [
            (.delete, "", #"{"by":"Eva","reason":"asked"}"#, "query"),
            (.post, "/aliases?by=Eva", #"{"alias":"a"}"#, "body"),
        ] as [(HTTPRequest.Method, String, String, String)] {
            let (status, answer) = try await world.send(method, "/v1/customers/anna\(path)", body)
            let message = answer["error"]?["message"]?.string ?? ""
            #expect(status == .badRequest && message.hasPrefix("“by” belongs in the \(place)."), "\(message)")
        }
        #expect(try await world.send(.get, "/v1/audit").1["items"] == .array([]))
        #expect(try await world.send(.delete, "/v1/customers/anna?by=Eva", "{}").0 == .ok)
    }

    @Test func `what changes nothing takes neither, and no change of an app does`() {
        for operation in Operation.all.map({ $0.operation }) where !operation.isAudited {
            let names = [Field.by.name, Field.auditReason.name]
            #expect(!operation.fields.contains { names.contains($0.name) }, "\(operation.path)")
        }
    }

    @Test func `a command has both too, beside Apple's code for the reason of an extension`() {
        for operation in Operation.all.map({ $0.operation }) where operation.isAudited {
            let options = operation.fields.map(\.option)
            #expect(Set(options).count == options.count && options.contains("by"), "\(operation.command)")
            #expect(options.contains("reason") || options.contains("why"), "\(operation.command)")
        }
        let extended = ExtendSubscription.operation.fields.map(\.option)
        #expect(extended.contains("reason") && extended.contains("why"))
    }
}
