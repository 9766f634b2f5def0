// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import ArgumentParser
import PurchaseLedger

/// `quittance watch`: prints a customer's entitlements after each change.
struct Watch: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Print what a customer may use, and each change of it.",
        usage: "quittance watch <customer> [options]",
        discussion: """
            Asks a running server twice a second, and prints a line when the answer changes. Counts the environments \
            that the server counts for your app. Ends with Ctrl-C, or after the first answer with --once.

              quittance watch anna --key-file key
              quittance watch anna --key-file key --json --server https://example.com

            Exit status: 0 with --once; 1 if the server refuses the request; 2 if it does not answer.
            """)

    @Argument(help: "Your app's id of the customer.")
    var customer: String

    @OptionGroup var server: RunningServer

    @Flag(help: "Print each answer as a JSON document on one line.")
    var json = false

    @Flag(help: "Print the first answer, and end.")
    var once = false

    /// The pause between two requests: short enough to show a change soon, and long enough to keep the load on the
    /// server low.
    private static let interval = Duration.milliseconds(500)

    func validate() throws { try TextForm.customerID.require(customer, in: "<customer>") }

    func run() async throws {
        var shown: WatchedCustomer?
        repeat {
            let body = try await server.get(["customers", customer], ["environment": server.environment?.optionName])
            guard let answer = WatchedCustomer(body) else { throw server.isNotOurs }
            if shown == nil { server.reportUnknown(customer, body) }
            if answer != shown { try Terminal.print(json ? answer.json : answer.line) }
            shown = answer
            if !once { try await Task.sleep(for: Self.interval) }
        } while !once
    }
}

/// The part of an answer about a customer that the command shows. Two answers are equal if they differ only in their
/// time.
struct WatchedCustomer: Equatable {
    private let entitlements: [JSONValue]
    private let asOf: Int64?

    /// - Parameter answer: The answer of `GET /v1/customers/{id}`. `nil` if it is another.
    init?(_ answer: JSONValue) {
        guard let entitlements = answer["entitlements"]?.array else { return nil }
        self.entitlements = entitlements
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
