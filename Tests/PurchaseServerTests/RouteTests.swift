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
import Testing

/// What the values of routes say, against what the server does.
@Suite struct RouteTests {
    private typealias World = LedgerRoutesTests.World

    private static let methods: [HTTPRequest.Method] = [.get, .head, .post, .put, .delete, .patch, .options, .trace]

    /// No test of a command has all members of an answer: a line with a mistyped name would only be shorter.
    @Test func `each name in a line is a member of an answer`() throws {
        let answers = try Self.sources("Answers").joined()
        for source in try Self.sources("Operations") {
            for call in source.matches(of: /[^a-z]lines\(([^()]*)\)/) {
                for name in call.output.1.matches(of: /"(?:no-)?([A-Za-z]+)/) {
                    #expect(answers.contains("var \(name.output.1): "), "\(call.output.0)")
                }
            }
        }
    }

    /// The engine refuses an undeclared field, so that a request for it has no value.
    @Test func `each field that an operation reads is one that it declares`() throws {
        let sources = try Self.sources("Operations")
        for operation in sources.flatMap({ $0.components(separatedBy: "\npackage enum ").dropFirst() }) {
            let lists = operation.matches(of: /[^\w\]]\[([^\[\]]*)\]/).flatMap { $0.output.1.split { !$0.isLetter } }
            for read in operation.matches(of: /(?:request|asked)(?:\.(?:text|number|time)\(|\[)\.?(\w+)[)\]]/) {
                let isDeclared = lists.contains(read.output.1) || operation.contains(" \(read.output.1) in\n")
                #expect(isDeclared, "\(operation.prefix { $0 != ":" }) reads \(read.output.1)")
            }
        }
    }

    private static func sources(_ folder: String) throws -> [String] {
        let path = "Sources/PurchaseServer/\(folder)"
        let files = try FileManager.default.contentsOfDirectory(atPath: Project.root.appendingPathComponent(path).path)
        return try files.map { try Project.text("\(path)/\($0)") }
    }

    @Test(arguments: VerificationError.Code.allCases.filter { $0 != .otherDevice })
    func `each reason against a document is a code of an error`(reason: VerificationError.Code) {
        #expect(ErrorCode(rawValue: reason.rawValue) != nil)
    }

    @Test func `each parameter of a path is declared, and no two parameters of a route have one name`() async throws {
        for route in try await World().server.routes {
            for place in [Field.Place.path, .query, .body] {
                let names = route.fields(in: place).map(\.name)
                #expect(Set(names).count == names.count, "\(route.path)")
            }
            let names = route.fields(in: .path).map(\.name)
            for name in route.path.matches(of: /\{([^}]*)\}/) {
                #expect(names.contains(String(name.output.1)), "\(route.path)")
            }
        }
    }

    @Test(.takesLong) func `each path has OPTIONS and its declared methods, and answers the others with 405 and Allow`()
        async throws
    {
        let world = try await World()
        for (path, routes) in Dictionary(grouping: world.server.routes, by: \.path) {
            let own = routes.map(\.method) + [.options] + (routes.contains { $0.method == .get } ? [.head] : [])
            let allow = Self.methods.filter(own.contains).map(\.rawValue).joined(separator: ", ")
            for method in Self.methods where path.hasSuffix("/verifyReceipt") ? method == .options : true {
                let response = try await world.respond(method, routes[0].example, key: nil)
                #expect((response.status == .methodNotAllowed) == !own.contains(method), "\(method) \(path)")
                let isAllowSent = method == .options || !own.contains(method)
                #expect(response.headers[.allow] == (isAllowSent ? allow : nil), "\(method) \(path)")
                guard !own.contains(method), method != .head else { continue }
                let error = try JSONValue(parsing: response.body.readableBytesView)["error"]
                #expect(error?["code"]?.string == "methodNotAllowed")
            }
        }
    }

    @Test func `a route that names a role refuses requests without a key, and with one of a lesser role`() async throws
    {
        let world = try await World()
        for route in world.server.routes {
            let (status, _) = try await world.send(route.method, route.example, key: nil)
            #expect((status == .unauthorized) == !route.roles.isEmpty, "\(route.path)")
            let (forClient, _) = try await world.send(route.method, route.example, key: .client)
            let isForClients = route.roles.isEmpty || route.roles.contains(.client)
            #expect((forClient == .forbidden) != isForClients, "\(route.path)")
        }
        #expect(world.server.routes.allSatisfy { $0.path.hasPrefix("/v1/") == !$0.roles.isEmpty })
    }

    @Test func `a body that is longer than declared is refused, by the routes that declare it`() async throws {
        let world = try await World()
        for route in world.server.routes where route.method != .get {
            let text = String(repeating: " ", count: (route.bodyLimit ?? 16 << 10) + 1)
            let (status, _) = try await world.send(route.method, route.example, text)
            let isRefused = status == .contentTooLarge
            #expect(isRefused == route.errors.contains(.tooLarge), "\(route.method) \(route.path)")
        }
    }
}
