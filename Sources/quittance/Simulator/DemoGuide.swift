// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTP1
import OutgoingHTTP

/// Shows a demo to people: addresses, requests with their answers, and requests to try.
struct DemoGuide: Sendable {
    /// The customer's name, in the App Store and in the server.
    let customer: String
    /// The port of the simulator's commands.
    let control: Int
    /// The server's port.
    let server: Int
    /// The port of the server's console.
    let console: Int
    let key: String
    /// The key for the console.
    let supportKey: String
    let app: String
    /// Virtual seconds per second.
    let speed: Double
    /// The kept folder; `nil` if the folder is temporary.
    let folder: String?

    /// Makes the requests, and prints everything.
    ///
    /// - Throws: ``DemoFailure`` if an answer is not as expected.
    func show() async throws {
        try await connect()
        try Terminal.print(welcome)
        let question = DemoRequest(
            "\(server)/v1/customers/\(customer)/entitlements/pro", key: key)
        try await show(1, "May \(customer) use “pro”? She has bought nothing yet.", question)
        try await show(
            2, "She subscribes in the simulated App Store: a week of trial, then paid months.",
            command("customers/\(customer)/buy", "{\"product\":\"\(app).pro.monthly\"}", characters: 365))
        try await show(
            3, "Eight days later the trial is over, and the first month is paid.",
            command("clock/advance", "{\"days\":8}"))
        try await show(4, "May she use “pro” now?", question)
        try Terminal.print(farewell)
    }

    private func show(_ number: Int, _ title: String, _ request: DemoRequest) async throws {
        let text = request.shown(String(decoding: try await request.answer(), as: UTF8.self))
        try Terminal.print("\(number). \(title)\n\n\(request.line)\n\n\(text.folded)\n")
    }

    /// Lets the simulator send notifications to the server, whose port is known only after it listens.
    private func connect() async throws {
        let url = "http://127.0.0.1:\(server)/notifications/v2"
        _ = try await command("settings", "{\"notify\":\"\(url)\",\"sandboxNotify\":\"\(url)\"}").answer()
    }

    private func command(_ path: String, _ body: String, characters: Int? = nil) -> DemoRequest {
        DemoRequest("\(control)/\(path)", body: body, characters: characters)
    }

    private var pace: String {
        switch speed {
        case 0: "its clock stands still"
        case 86_400: "a day passes in a second"
        default: "\(speed) seconds pass in a second"
        }
    }

    private var welcome: String {
        """
        A simulated App Store   http://127.0.0.1:\(control), where \(pace)
        A server                http://127.0.0.1:\(server), which has the simulator's time
        An API key of it        \(key)
        Its console             http://127.0.0.1:\(console), for people who support customers
        A key for the console   \(supportKey)

        Four requests that this demo has made, and their answers:

        """
    }

    private var farewell: String {
        let webhook = DemoRequest("\(server)/v1/webhooks", key: key, body: "{\"url\":\"http://localhost:3000/\"}")
        let path = "customers/\(customer)"
        let files = folder.map { "All files stay in \($0.printable)." } ?? "Then all files are removed."
        return """
            Now you, in another terminal; repeat 4 after each. The month is renewed; the
            next payment fails, and 16 days of grace begin; it succeeds; it is refunded,
            which ends “pro” (buy it again with 2):

            \(command("clock/advance", "{\"days\":31}").line)
            \(command("\(path)/billing/break", "{}").line)
            \(command("clock/advance", "{\"days\":31}").line)
            \(command("\(path)/billing/fix", "{}").line)
            \(command("\(path)/refund", "{}").line)

            See each change as it happens:

            QUITTANCE_KEY=\(key) \\
              \(Terminal.program) watch \(customer) --server http://127.0.0.1:\(server)

            Have it sent as a webhook to a program of yours that listens on port 3000:

            \(webhook.line)

            The App Store has a page too: open http://127.0.0.1:\(control) in a browser.
            Ctrl-C ends the demo. \(files)
            """
    }
}

/// A request of a demo: as a command line that people can repeat, and as an HTTP request that the demo makes.
private struct DemoRequest: Sendable {
    private let address: String
    private let key: String?
    private let body: String?
    /// The number of shown characters of the answer; `nil` for all of it.
    private let characters: Int?

    /// The maximum size of an answer in bytes, enough for a customer with all notifications of a day.
    private static let answerLimit = 1 << 20

    private static let timeout = Duration.seconds(60)
    private static let client = PlainClient(timeout: TimeAmount(timeout))

    /// - Parameters:
    ///   - address: A port on this machine, and a path.
    ///   - body: The body of a POST request; `nil` for GET.
    init(_ address: String, key: String? = nil, body: String? = nil, characters: Int? = nil) {
        self.address = "127.0.0.1:\(address)"
        self.key = key
        self.body = body
        self.characters = characters
    }

    /// The command line for a shell.
    var line: String {
        let parts = [
            "curl -s \(address)", key.map { "--oauth2-bearer \($0)" }, body.map { "-d '\($0)'" },
            characters.map { "| cut -c 1-\($0)" },
        ].compactMap(\.self)
        let whole = parts.joined(separator: " ")
        return whole.count <= String.terminal ? whole : parts.joined(separator: " \\\n  ")
    }

    /// The part of an answer that the command line would show: the first line, cut if necessary.
    func shown(_ answer: String) -> String {
        let answer = answer.split(separator: "\n").first ?? ""
        return String(characters.map { answer.prefix($0) } ?? answer)
    }

    /// Makes the request.
    ///
    /// - Throws: ``DemoFailure`` unless the status is 200.
    func answer() async throws -> [UInt8] {
        var request = HTTPClientRequest(url: "http://\(address)")
        if let key { request.headers.add(name: "Authorization", value: "Bearer \(key)") }
        if let body {
            request.method = .POST
            request.body = .bytes(ByteBuffer(string: body))
        }
        let answer = try await Self.client.answer(to: request, within: Self.timeout, upTo: Self.answerLimit)
        guard answer.status == .ok else {
            throw DemoFailure("\(address) answers \(answer.status.code): \(String(buffer: answer.body).printable)")
        }
        return Array(answer.body.readableBytesView)
    }
}

/// The reason why a demo fails: a sentence.
struct DemoFailure: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}

extension String {
    /// The default width of a terminal in characters.
    fileprivate static let terminal = 80

    /// The text in lines for a terminal. JSON is broken after commas between members, where white space has no meaning.
    fileprivate var folded: String {
        var lines = [""]
        for part in replacing(",\"", with: ",\u{0}\"").replacing(",{", with: ",\u{0}{").split(separator: "\u{0}") {
            if (lines.last ?? "").count + part.count > Self.terminal { lines.append("") }
            lines[lines.count - 1] += part
        }
        return lines.joined(separator: "\n")
    }
}
