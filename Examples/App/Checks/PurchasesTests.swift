// SPDX-License-Identifier: Apache-2.0

#if !canImport(StoreKit)
import Foundation
import FoundationNetworking
import Synchronization
import TestData
import Testing

/// Tests Purchases.swift on a device of stand-ins, with a server that answers as the examples in `docs/openapi.json`.
@Suite struct PurchasesTests {
    /// A server that answers each request in the same way, or is away.
    private final class Server: Sendable {
        struct State {
            var answer: (status: Int, body: String)?
            var lines: [String] = []
            /// The only valid token, and how many were asked for.
            var valid = "token 1"
            var made = 0
        }

        let state = Mutex(State())

        func newToken() -> String {
            state.withLock { state in
                state.made += 1
                return "token \(state.made)"
            }
        }

        func perform(_ request: URLRequest) throws -> (Data, URLResponse) {
            let body = String(decoding: request.httpBody ?? Data(), as: UTF8.self)
            let token = request.value(forHTTPHeaderField: "Quittance-Customer-Token")
            let answer = state.withLock { state in
                state.lines.append("\(request.httpMethod ?? "") \(request.url?.path ?? "") \(body)")
                let isValid = token == state.valid || state.answer == nil
                return isValid ? state.answer : (401, PurchasesTests.error("customerTokenInvalid"))
            }
            guard let answer, let url = request.url,
                let response = HTTPURLResponse(
                    url: url, statusCode: answer.status, httpVersion: nil, headerFields: nil)
            else { throw URLError(.notConnectedToInternet) }
            return (Data(answer.body.utf8), response)
        }
    }

    private let device = Device()
    private let server = Server()
    private let customer = UUID()
    private let bought = Transaction(id: 1, productID: "com.example.notes.pro.monthly")

    private static func example(_ schema: String) throws -> String {
        let text = try Project.text("docs/openapi.json")
        let document = try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any]
        let schemas = (document?["components"] as? [String: Any])?["schemas"] as? [String: Any]
        let examples = (schemas?[schema] as? [String: Any])?["examples"] as? [Any]
        let example = try JSONSerialization.data(withJSONObject: try #require(examples?.first))
        return String(decoding: example, as: UTF8.self)
    }

    private static func error(_ code: String, retryable: Bool = false) -> String {
        #"{"error":{"code":"\#(code)","message":"","retryable":\#(retryable)}}"#
    }

    private func with<Value: Sendable>(
        _ status: Int? = nil, _ body: String = "", do work: (Purchases) async throws -> Value
    ) async throws -> Value {
        server.state.withLock { $0.answer = status.map { ($0, body) } }
        device.state.withLock { $0.result = .success(.verified(bought)) }
        device.state.withLock { $0.unfinished = [bought] }
        device.state.withLock { $0.entitlements = [bought] }
        let purchases = Purchases(
            .init(
                server: URL(filePath: "/"), clientKey: "qt_1", customer: customer,
                newToken: { [server] in server.newToken() }, products: [bought.productID: ["pro"]],
                perform: { [server] in try server.perform($0) }))
        return try await Device.$current.withValue(device) { try await work(purchases) }
    }

    private var isFinished: Bool { device.state.withLock { $0.unfinished.isEmpty } }

    @Test func `a purchase carries the customer, and is finished once the server has it`() async throws {
        let outcome = try await with(200, Self.example("Submission")) { try await $0.buy(Product()) }
        #expect(outcome == .recorded && isFinished)
        #expect(device.state.withLock { $0.accounts } == [customer])
        let line = #"POST /v1/customers/\#(customer.uuidString)/purchases {"document":"jws of 1"}"#
        #expect(server.state.withLock { $0.lines } == [line])
    }

    @Test func `while the server is away a purchase waits unfinished, and unlocks by the device`() async throws {
        try await with { purchases in
            #expect(try await purchases.buy(Product()) == .waiting)
            #expect(!isFinished)
            #expect(await purchases.has("pro"))
            #expect(await purchases.has("gold") == false)
            server.state.withLock { $0.answer = (503, Self.error("overloaded", retryable: true)) }
            await purchases.sendAgain()
            #expect(!isFinished)
            let body = try Self.example("Submission")
            server.state.withLock { $0.answer = (200, body) }
            await purchases.sendAgain()
            #expect(isFinished)
        }
    }

    @Test(arguments: [(200, true), (404, false)])
    func `the answer of a proxy finishes nothing`(status: Int, isPage: Bool) async throws {
        let outcome = try await with(status, isPage ? "<html>" : "{}") { try await $0.buy(Product()) }
        #expect(outcome == .waiting && !isFinished)
    }

    @Test func `a refused purchase stays unfinished, and names the code`() async throws {
        let outcome = try await with(400, Self.error("otherApp")) { try await $0.buy(Product()) }
        #expect(outcome == .refused(code: "otherApp") && !isFinished)
    }

    @Test func `a purchase that stays with another customer is finished, and says so`() async throws {
        let body = try Self.example("Submission").replacing(#""keptByOthers":[]"#, with: #""keptByOthers":["1"]"#)
        let outcome = try await with(200, body) { try await $0.buy(Product()) }
        #expect(outcome == .ofOtherCustomer && isFinished)
    }

    @Test func `an expired token is replaced once`() async throws {
        server.state.withLock { $0.valid = "token 2" }
        let outcome = try await with(200, Self.example("Submission")) { try await $0.buy(Product()) }
        #expect(outcome == .recorded && server.state.withLock { $0.made } == 2)
        server.state.withLock { $0.valid = "none" }
        let refused = try await with(200, Self.example("Submission")) { try await $0.buy(Product()) }
        #expect(refused == .refused(code: "customerTokenInvalid") && server.state.withLock { $0.made } == 4)
    }

    @Test func `a customer who cancels, and one who waits for a parent, send nothing`() async throws {
        let outcomes = try await with { purchases in
            device.state.withLock { $0.result = .userCancelled }
            let cancelled = try await purchases.buy(Product())
            device.state.withLock { $0.result = .pending }
            return [cancelled, try await purchases.buy(Product())]
        }
        #expect(outcomes == [.cancelled, .waiting] && server.state.withLock { $0.lines } == [])
    }

    @Test func `a restore asks the App Store, and submits what it has`() async throws {
        let outcomes = try await with(200, Self.example("Submission")) { try await $0.restore() }
        #expect(outcomes == [.recorded] && device.state.withLock { $0.syncs } == 1)
    }

    @Test(.timeLimit(.minutes(5))) func `purchases without a tap are submitted`() async throws {
        device.updates.continuation.yield(.verified(Transaction(id: 2, productID: bought.productID)))
        try await with(200, Self.example("Submission")) { purchases in
            await purchases.start()
            while !(server.state.withLock { $0.lines.contains { $0.contains("jws of 2") } }) {
                try await Task.sleep(for: .milliseconds(1))
            }
            await purchases.stop()
        }
        #expect(isFinished)
    }

    @Test func `the stand-ins have at most 80 lines`() throws {
        #expect(try Project.text("Examples/App/Checks/StoreKit.swift").split(separator: "\n").count <= 80)
    }

    @Test func `a young answer is not asked for again`() async throws {
        let body = try Self.example("Customer")
        try await with(200, body) { purchases in
            #expect(await purchases.has("pro"))
            #expect(await purchases.has("gold") == false)
        }
        #expect(server.state.withLock { $0.lines } == ["GET /v1/customers/\(customer.uuidString) "])
    }
}
#endif
