// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import ArgumentParser
import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTP1
import OutgoingHTTP
import PurchaseServer

/// `quittance watch`: prints a customer's entitlements after each change.
struct Watch: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Print what a customer may use, and each change of it.",
        usage: "quittance watch <customer> [options]",
        discussion: """
            Asks a running server twice a second, and prints a line when the answer changes. Counts the environments \
            that the server counts for your app. Ends with Ctrl-C, or after the first answer with --once.

              quittance watch anna --key qt_…
              QUITTANCE_KEY=qt_… quittance watch anna --json \\
                  --server https://purchases.example.com

            Exit status: 0 with --once; 1 if the server refuses the request; 2 if it does not answer.
            """)

    @Argument(help: "The customer: one of your app's ids.")
    var customer: String

    @Option(help: "The address of the server.")
    var server = "http://127.0.0.1:8080"

    @Option(help: "An API key of the app. Default: the variable QUITTANCE_KEY, which other users cannot see.")
    var key: String?

    @Option(
        help: "Ask about this environment alone: production, sandbox, xcode or localTesting.",
        transform: { try Environment.option($0, allowed: Environment.allCases) })
    var environment: Environment?

    @Flag(help: "Print each answer as a JSON document on one line.")
    var json = false

    @Flag(help: "Print the first answer, and end.")
    var once = false

    /// The pause between two requests: short enough to show a change soon, and long enough to keep the load on the
    /// server low.
    private static let interval = Duration.milliseconds(500)

    /// The timeout of a request, until its answer has arrived.
    private static let timeout = TimeAmount.seconds(10)

    /// The maximum number of redirects. A proxy may redirect from http to https, or to a different host.
    private static let redirects = 5

    private static let client = HTTPClient.plain(timeout: timeout, redirects: redirects)

    /// The maximum size of an answer in bytes, enough for a customer with thousands of purchases.
    private static let answerLimit = 16 << 20

    func validate() throws {
        guard let url = URL(string: server), ["http", "https"].contains(url.scheme), url.host()?.isEmpty == false else {
            throw ValidationError("--server takes an address such as http://127.0.0.1:8080.")
        }
    }

    func run() async throws {
        let variable = ProcessInfo.processInfo.environment["QUITTANCE_KEY"]
        guard let key = key ?? variable, !key.isEmpty else {
            throw ValidationError("Which key? Pass --key, or set QUITTANCE_KEY. quittance keys create makes one.")
        }
        var shown: WatchedCustomer?
        repeat {
            let answer = try await answer(key)
            if answer != shown { try Terminal.print(json ? answer.json : answer.line) }
            shown = answer
            if !once { try await Task.sleep(for: Self.interval) }
        } while !once
    }

    private func answer(_ key: String) async throws -> WatchedCustomer {
        var allowed = CharacterSet.urlPathAllowed
        allowed.remove(charactersIn: "/;")
        let id = customer.addingPercentEncoding(withAllowedCharacters: allowed) ?? customer
        let query = environment.map { "?environment=\($0.rawValue.lowercased())" } ?? ""
        var request = HTTPClientRequest(url: "\(server)/v1/customers/\(id)\(query)")
        request.headers.add(name: "Authorization", value: "Bearer \(key)")
        let (status, body) = try await response(to: request)
        let json = JSONValue(readable: body.readableBytesView)
        if status == .ok, let json { return WatchedCustomer(json) }
        let message = json?["error"]?["message"]?.string ?? "This is no Quittance server."
        throw Terminal.failure("\(server) answers \(status.code). \(message.printable)")
    }

    private func response(to request: HTTPClientRequest) async throws -> (HTTPResponseStatus, ByteBuffer) {
        do {
            let response = try await Self.client.execute(request, timeout: Self.timeout)
            return (response.status, try await response.body.collect(upTo: Self.answerLimit))
        } catch {
            Terminal.printError("quittance: \(server) does not answer: \(reason(of: error))")
            throw ExitCode(2)
        }
    }
}

/// The shown part of an answer about a customer. Answers that differ only in their time are equal.
struct WatchedCustomer: Equatable {
    private let entitlements: [JSONValue]
    private let asOf: Int64?

    /// - Parameter answer: The answer of `GET /v1/customers/{id}`.
    init(_ answer: JSONValue) {
        entitlements = answer["entitlements"]?.array ?? []
        asOf = answer["asOf"]?.integer
    }

    static func == (one: Self, other: Self) -> Bool { one.entitlements == other.entitlements }

    /// The time and the entitlements, for people.
    var line: String {
        let list = entitlements.map { entitlement in
            let until = entitlement["until"]?.integer.map { " until \(Timestamp(milliseconds: $0).iso8601)" } ?? ""
            let name = entitlement["name"]?.string ?? ""
            let reason = entitlement["reason"]?.string ?? ""
            return "\(name) (\(reason)\(until))".printable
        }
        let time = asOf.map { Timestamp(milliseconds: $0).iso8601 } ?? ""
        return "\(time.padded(to: 24))  \(list.isEmpty ? "nothing" : list.joined(separator: ", "))"
    }

    /// The time and the entitlements as a JSON document.
    var json: String {
        let time = asOf.map { JSONValue.number("\($0)") } ?? .null
        return JSONValue.object([.init("asOf", time), .init("entitlements", .array(entitlements))]).compactText
    }
}
