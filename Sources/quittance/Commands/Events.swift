// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import ArgumentParser
import NIOCore
import PurchaseLedger

/// `quittance events`: prints the events of a running server.
struct Events: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Print the events of an app, and follow them.",
        usage: "quittance events [options]",
        discussion: """
            Asks a running server for the events of the key's app (GET /v1/events), the oldest first. Needs a read, \
            support or server key. With --follow the command waits for further events, and ends with Ctrl-C.

              quittance events --key-file key
              quittance events --follow --kind subscription.renewed,purchase.made
              quittance events --key-file key --follow --server https://example.com
              quittance events --follow --forward http://localhost:3000/webhooks

            With --forward the command sends each event to your program, as the server sends webhooks: a signed POST \
            request (docs/webhooks.md). It prints the secret on standard error, and the answer to each request. It \
            sends the events in order. If a request fails, the command sends the event again after 5 seconds and \
            after 5 minutes, or later if the answer has Retry-After, and then goes on with the next event. A server \
            goes on for three days. After the answer 410 the command ends.

            Exit status: 0 after the last event; 1 if the server refuses a request, or a receiver answers 410; 2 if \
            the server does not answer.
            """)

    @OptionGroup var server: RunningServer

    @Flag(help: "Wait for further events.")
    var follow = false

    @Option(help: "Begin after this cursor: an event's id. Default: with the first event.")
    var after: String?

    @Option(help: "Print only events of these kinds, separated by commas.")
    var kind: String?

    @Option(help: "Print only events of this customer: your app's id.")
    var customer: String?

    @Flag(help: "Print each event as a JSON document on one line.")
    var json = false

    @Option(help: "Send each event to this URL, such as http://localhost:3000/webhooks.")
    var forward: String?

    @Option(help: "The secret that signs the requests of --forward: whsec_… Default: a random secret.")
    var secret: String?

    /// The maximum number of events per request.
    private static let pageLimit = 500

    /// The time that the server waits for an event, in seconds.
    private static let wait = 50

    /// The pause after an empty answer without a wait: the server has too many followers, or a short request timeout.
    private static let pause = Duration.seconds(5)

    func validate() throws {
        if let customer { try TextForm.customerID.require(customer, in: "--customer") }
        guard forward != nil || secret == nil else { throw ValidationError("--secret needs --forward.") }
        guard forward == nil || !json else { throw ValidationError("Pass either --forward or --json.") }
    }

    func run() async throws {
        let forwarder = try forward.map { try EventForwarder(to: $0, secret: secret, clock: ContinuousClock()) }
        if let customer { server.reportUnknown(customer, try await server.get(["customers", customer])) }
        var cursor = after
        var isAtEnd = false
        repeat {
            let start = ContinuousClock.now
            let wait = follow && isAtEnd ? Self.wait : 0
            let page = try await server.get(
                ["events"],
                [
                    "after": cursor, "limit": "\(Self.pageLimit)", "wait": wait > 0 ? "\(wait)" : nil, "kind": kind,
                    "environment": server.environment?.optionName, "customer": customer,
                ], wait: .seconds(Int64(wait)))
            guard let events = page["items"]?.array else { throw server.isNotOurs }
            for event in events {
                guard let forwarder else {
                    try Terminal.print(json ? event.compactText : Self.line(event))
                    continue
                }
                try await forwarder.send(event) { try Terminal.print("\(Self.line(event))  \($0)") }
            }
            let next = page["nextCursor"]?.string
            isAtEnd = next == cursor || next == nil
            if isAtEnd, !events.isEmpty { throw server.isNotOurs }
            cursor = next ?? cursor
            let isEarly = start.duration(to: .now) < .seconds(1)
            if wait > 0, events.isEmpty, isEarly { try await Task.sleep(for: Self.pause) }
        } while follow || !isAtEnd
    }

    /// The time, the customer, the kind, the purchase and its state, for people.
    private static func line(_ event: JSONValue) -> String {
        let time = event["recordedAt"]?.integer.map { Timestamp(milliseconds: $0).iso8601 } ?? ""
        let state = event["after"]
        let word = state?["hasAccess"] == .bool(false) ? "ended" : "until"
        let until = state?["until"]?.integer.map { "\(word) \(Timestamp(milliseconds: $0).iso8601)" }
        let parts = [
            event["kind"]?.string, event["productId"]?.string, state?["status"]?.string, until,
            event["detail"]?.string,
        ]
        let environment = event["environment"]?.string == "Production" ? nil : event["environment"]?.string
        let customer = event["customer"]?.string ?? "-"
        let text = (parts + [environment]).compactMap(\.self).joined(separator: "  ")
        return "\(time.padded(to: 24))  \(customer)  \(text)".printable
    }
}
