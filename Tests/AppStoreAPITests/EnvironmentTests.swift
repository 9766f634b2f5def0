// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import Testing

/// Which environment a client asks, and in which order.
@Suite struct EnvironmentTests {
    private static let good = ScriptedTransport.Step.answer(200, #"{"signedTransactionInfo":"x"}"#)
    private static let unknown = ScriptedTransport.Step.code(.transactionIdNotFound)
    private static let unauthorized = ScriptedTransport.Step.answer(401, "", headers: [:])

    struct Case: Sendable {
        var production: ScriptedTransport.Step
        var sandbox: ScriptedTransport.Step
        /// The environment that answers, or the code of the error.
        var result: String
        var calls: [Environment] = [.production, .sandbox]
    }

    /// Each refused token is replaced by a new one once.
    private static let twice: [Environment] = [.production, .production]

    static let cases = [
        Case(production: good, sandbox: good, result: "Production", calls: [.production]),
        Case(production: unknown, sandbox: good, result: "Sandbox"),
        Case(production: .code(.originalTransactionIdNotFound), sandbox: good, result: "Sandbox"),
        Case(production: unknown, sandbox: unknown, result: "refused"),
        Case(production: unauthorized, sandbox: good, result: "Sandbox", calls: twice + [.sandbox]),
        Case(production: unauthorized, sandbox: unknown, result: "credentials", calls: twice + [.sandbox]),
        Case(
            production: unauthorized, sandbox: unauthorized, result: "credentials",
            calls: twice + [.sandbox, .sandbox]),
        Case(
            production: unknown, sandbox: unauthorized, result: "credentials",
            calls: [.production, .sandbox, .sandbox]),
        Case(production: .code(.accountNotFound), sandbox: good, result: "refused", calls: [.production]),
    ]

    private func find(_ fixture: ClientFixture) async -> String {
        do throws(AppStoreAPIError) {
            return try await fixture.client.find(.transactionInfo("1")).environment.rawValue
        } catch {
            return error.code.rawValue
        }
    }

    @Test(arguments: cases) func `production is asked first, and the sandbox if it may know more`(
        example: Case
    ) async throws {
        let fixture = try ClientFixture(production: [example.production], sandbox: [example.sandbox])
        #expect(await find(fixture) == example.result)
        #expect(fixture.transport.calls.map(\.environment) == example.calls)
    }

    @Test func `an app that production refuses is asked about in the sandbox alone for an hour`() async throws {
        let fixture = try ClientFixture(production: [Self.unauthorized], sandbox: [Self.good])
        for _ in 0..<3 { #expect(await find(fixture) == "Sandbox") }
        #expect(fixture.transport.calls.map(\.environment) == Self.twice + [.sandbox, .sandbox, .sandbox])
        fixture.clock.advance(3_599_999)
        #expect(await find(fixture) == "Sandbox")
        #expect(fixture.transport.calls.count == 6)
        fixture.clock.advance(1)
        fixture.transport.play([Self.good], in: .production)
        #expect(await find(fixture) == "Production")
        #expect(fixture.transport.calls.last?.environment == .production)
    }

    @Test func `while production is not asked first, it is asked about what the sandbox does not know`() async throws {
        let fixture = try ClientFixture(production: [Self.unauthorized], sandbox: [Self.good, Self.unknown])
        #expect(await find(fixture) == "Sandbox")
        #expect(await find(fixture) == "credentials")
        #expect(fixture.transport.calls.map(\.environment) == Self.twice + [.sandbox, .sandbox] + Self.twice)
        fixture.transport.play([Self.good], in: .production)
        #expect(await find(fixture) == "Production")
        #expect(fixture.transport.calls.suffix(2).map(\.environment) == [.sandbox, .production])
        // Production has accepted the key, and is asked first again.
        #expect(await find(fixture) == "Production")
        #expect(fixture.transport.calls.last?.environment == .production)
        #expect(fixture.transport.calls.count == 9)
    }

    @Test(arguments: [good, unknown, .code(.generalInternal), .code(.rateLimitExceeded)])
    func `a key that production has accepted is not given up because of refusals`(
        answer: ScriptedTransport.Step
    ) async throws {
        let fixture = try ClientFixture(production: [answer], sandbox: [Self.good])
        _ = try? await fixture.client.send(.transactionInfo("1"), to: .production)
        fixture.clock.advance(3_600_000)
        fixture.transport.play([Self.unauthorized], in: .production)
        #expect(await find(fixture) == "Sandbox")
        fixture.transport.play([Self.good], in: .production)
        #expect(await find(fixture) == "Production")
    }

    @Test func `the page of a proxy is no sign that production has accepted the key`() async throws {
        let page = ScriptedTransport.Step.answer(403, "<html>", headers: ["content-type": "text/html"])
        let fixture = try ClientFixture(production: [page], sandbox: [Self.good])
        _ = try? await fixture.client.send(.transactionInfo("1"), to: .production)
        fixture.transport.play([Self.unauthorized], in: .production)
        #expect(await find(fixture) == "Sandbox")
        fixture.transport.play([Self.good], in: .production)
        #expect(await find(fixture) == "Sandbox")
    }

    @Test func `a key that both refuse is tried again each time`() async throws {
        let fixture = try ClientFixture(production: [Self.unauthorized], sandbox: [Self.unauthorized])
        for _ in 0..<2 { #expect(await find(fixture) == "credentials") }
        #expect(fixture.transport.calls.count == 8)
    }

    @Test func `another key starts with production`() async throws {
        let fixture = try ClientFixture(production: [Self.unauthorized], sandbox: [Self.good])
        #expect(await find(fixture) == "Sandbox")
        fixture.client.replaceKey(by: try ClientFixture.key.get())
        fixture.transport.play([Self.good], in: .production)
        #expect(await find(fixture) == "Production")
    }

    @Test func `an endpoint of production alone is not asked in the sandbox`() async throws {
        let fixture = try ClientFixture(production: [Self.unknown], sandbox: [Self.good])
        let error = await #expect(throws: AppStoreAPIError.self) { try await fixture.client.find(.lookUpOrder("M1")) }
        #expect(error?.code == .refused)
        #expect(fixture.transport.calls.map(\.environment) == [.production])
    }

    @Test func `an endpoint of the sandbox alone is not asked in production`() async throws {
        let fixture = try ClientFixture(sandbox: [.answer(200, #"{"groups":[]}"#)])
        #expect(try await fixture.client.find(.customerGroups("1")).environment == .sandbox)
        #expect(fixture.transport.calls.map(\.environment) == [.sandbox])
    }

    @Test func `both environments share one deadline`() async throws {
        let fixture = try ClientFixture(production: [.silent, Self.unknown], sandbox: [.silent])
        _ = try? await fixture.client.find(.transactionInfo("1"), within: .seconds(50))
        #expect(fixture.clock.elapsed <= 51_000)
    }
}
