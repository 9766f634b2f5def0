// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import ArgumentParser
import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTP1
import OutgoingHTTP
import PurchaseServer

/// The options of commands that send requests to a running server.
struct RunningServer: ParsableArguments {
    @Option(help: "The address of the server.")
    var server = "http://127.0.0.1:8080"

    @Option(help: "An API key of the app. Default: the variable QUITTANCE_KEY, which other users cannot see.")
    var key: String?

    /// The timeout of a request, until its answer has arrived.
    private static let timeout = Duration.seconds(10)

    /// The maximum number of redirects. A proxy may redirect from http to https, or to a different host.
    private static let redirects = 5

    /// The greatest wait of a request for events, as the server allows.
    private static let maxWait = Duration.seconds(60)

    private static let client = PlainClient(timeout: TimeAmount(timeout + maxWait), redirects: redirects)

    /// The maximum size of an answer in bytes, enough for a customer with thousands of purchases.
    private static let answerLimit = 16 << 20

    func validate() throws {
        guard URL(string: server)?.isReachable == true else {
            throw ValidationError("--server takes an address such as http://127.0.0.1:8080.")
        }
    }

    /// The answer to a GET request.
    ///
    /// - Parameters:
    ///   - path: The segments of the path after `/v1`.
    ///   - query: The parameters of the query, without those that are `nil`.
    ///   - wait: The time that the server may wait before it answers.
    /// - Throws: Exit status 1 if the server refuses the request, 2 if it does not answer. `ValidationError` if no key
    ///   was passed.
    func get(
        _ path: [String], _ query: KeyValuePairs<String, String?> = [:], wait: Duration = .zero
    ) async throws -> JSONValue {
        var request = HTTPClientRequest(url: url(path, query))
        request.headers.add(name: "Authorization", value: "Bearer \(try requireKey())")
        let answer = try await answer(to: request, within: Self.timeout + wait)
        let json = JSONValue(readable: answer.body.readableBytesView)
        if answer.status == .ok, let json { return json }
        let message = json?["error"]?["message"]?.string ?? "This is no Quittance server."
        throw Terminal.failure("\(server) answers \(answer.status.code). \(message.printable)")
    }

    /// The error if an answer does not have the members that our servers send.
    var isNotOurs: any Error { Terminal.failure("\(server) answers, but is no Quittance server.") }

    /// The API key, without the line break of a file.
    private func requireKey() throws -> String {
        let variable = ProcessInfo.processInfo.environment[ServerConfiguration.keyVariable]
        let key = (key ?? variable ?? "").trimmingCharacters(in: .whitespacesAndNewlines)
        guard !key.isEmpty else {
            throw ValidationError("Which key? Pass --key, or set QUITTANCE_KEY. quittance keys create makes a key.")
        }
        // An HTTP library's error would show the whole key.
        guard key.utf8.allSatisfy({ (0x21...0x7e).contains($0) }) else {
            throw ValidationError("The key has a character that no key has. Copy it again.")
        }
        return key
    }

    private func url(_ path: [String], _ query: KeyValuePairs<String, String?>) -> String {
        var allowed = CharacterSet.urlPathAllowed
        allowed.remove(charactersIn: "/;&+=?")
        func encoded(_ text: String) -> String { text.addingPercentEncoding(withAllowedCharacters: allowed) ?? text }
        let parameters = query.compactMap { name, value in value.map { "\(name)=\(encoded($0))" } }
        let address = server.hasSuffix("/") ? String(server.dropLast()) : server
        return "\(address)/v1/\(path.map(encoded).joined(separator: "/"))"
            + (parameters.isEmpty ? "" : "?\(parameters.joined(separator: "&"))")
    }

    private func answer(to request: HTTPClientRequest, within timeout: Duration) async throws -> PlainAnswer {
        do {
            return try await Self.client.answer(to: request, within: timeout, upTo: Self.answerLimit)
        } catch {
            Terminal.printError("quittance: \(server) does not answer: \(reason(of: error))")
            throw ExitCode(2)
        }
    }
}
