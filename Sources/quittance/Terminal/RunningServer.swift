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

    @Option(
        help: "The file with an API key of the app. Default: the variable QUITTANCE_KEY.", completion: .file())
    var keyFile: String?

    @Option(
        help: "Ask about this environment alone: production, sandbox, xcode or localTesting.",
        transform: { try Environment.option($0, allowed: Environment.allCases) })
    var environment: AppStoreModel.Environment?

    func validate() throws { try ServerConnection.require(server) }

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
        let parameters = query.compactMap { name, value in value.map { (name, $0) } }
        let connection = try ServerConnection(server, keyFile: keyFile)
        return try await connection.answer(to: "GET", ["v1"] + path, parameters, wait: wait).success()
    }

    /// Says that no customer has an id, which a person may have mistyped. A customer may get the id later.
    ///
    /// - Parameter answer: The answer about the customer.
    func reportUnknown(_ id: String, _ answer: JSONValue) {
        if answer["ids"]?.array == [] { Terminal.report("No customer has the id “\(id.printable)” yet.") }
    }

    /// The error if an answer does not have the members that our servers send.
    var isNotOurs: any Error { Terminal.failure("\(server) answers, but is no Quittance server.") }
}

/// An answer of the API, from a running server or from the ledger.
struct APIAnswer {
    let status: Int
    let bytes: [UInt8]
    /// The address of the server; `nil` for the ledger.
    var server: String?

    /// The JSON of a success. Of the refusals, which are thrown, only the operation's own read as those of the ledger.
    @inline(never)
    func success(of operation: PurchaseServer.Operation? = nil) throws -> JSONValue {
        let json = JSONValue(readable: bytes)
        if let json, operation?.isAnswer(json, status: status) ?? (status == 200) { return json }
        let error = json?["error"]
        guard var message = error?["message"]?.string else {
            throw Terminal.failure("\(server ?? "It") answers \(status), but is no Quittance server.")
        }
        let code = (error?["code"]?.string).flatMap(ErrorCode.init) ?? .internal
        // A member may have the name of a part of the path, which stands before it.
        for field in (operation?.fields ?? []).reversed() {
            message.replace("“\(field.name)”", with: field.name(isOption: true))
        }
        let number = (error?["appStoreCode"]?.integer).flatMap(APIErrorCode.init)
        if number == .transactionIdNotFound || number == .originalTransactionIdNotFound {
            message += " Only one environment was asked: pass --environment for the other."
        }
        let isOwn = operation?.errors.union([.invalidRequest]).contains(code) == true && message != ErrorCode.noRoute
        if let server, !isOwn { message = "\(server) answers \(status). \(message)" }
        message = message.printableLines.withoutAPIKeys
        let neverSucceeds = [.invalidRequest, .invalidCursor, .webhookURLRefused].contains(code)
        throw isOwn && neverSucceeds ? ValidationError(message) : Terminal.failure(message)
    }
}

/// A running server, and an API key.
struct ServerConnection {
    private let address: String
    @Hidden private var key: String

    /// The timeout of a request, until its answer has arrived. A server asks the App Store or a receiver for up to 20
    /// seconds before it answers.
    private static let timeout = Duration.seconds(25)

    /// The greatest wait of a request for events, as the server allows.
    private static let maxWait = Duration.seconds(60)

    /// It follows no redirects: a POST would become a GET, and another host would not get the key.
    private static let client = PlainClient(timeout: TimeAmount(timeout + maxWait))

    /// The maximum size of an answer in bytes, enough for a customer with thousands of purchases.
    private static let answerLimit = 16 << 20

    static func require(_ address: String, option: String = "--server") throws {
        // Other users see a password, and a query would swallow the path.
        let url = URL(string: address)
        guard url?.isReachable == true, url?.user ?? url?.password ?? url?.query ?? url?.fragment == nil else {
            throw ValidationError("\(option) takes an address such as http://127.0.0.1:8080, without ?, # and a user.")
        }
    }

    /// - Parameter keyFile: The file with the key; `nil` for the key in the environment. No argument is a key, because
    ///   other users see the arguments of a process.
    init(_ address: String, keyFile: String?) throws {
        let text = try keyFile.map { file in
            try asUsage("--key-file \(file): ") { String(decoding: try Input.read(file), as: UTF8.self) }
        }
        let variable = ProcessInfo.processInfo.environment[ServerConfiguration.keyVariable]
        let key = (text ?? variable ?? "").trimmingCharacters(in: .whitespacesAndNewlines)
        guard !key.isEmpty else {
            throw ValidationError(
                "Which key? Set QUITTANCE_KEY, or pass --key-file. quittance keys create makes a key.")
        }
        // An HTTP library's error would show the whole key.
        guard key.utf8.allSatisfy({ (0x21...0x7e).contains($0) }) else {
            throw ValidationError("The key has a character that no key has. Copy it again.")
        }
        self.address = address
        self.key = key
    }

    /// - Throws: Exit status 2 if the server does not answer.
    func answer(
        to method: String, _ path: [String], _ query: [(name: String, value: String)] = [], body: JSONValue? = nil,
        wait: Duration = .zero
    ) async throws -> APIAnswer {
        var request = HTTPClientRequest(url: url(path, query))
        request.method = HTTPMethod(rawValue: method)
        request.headers.add(name: "Authorization", value: "Bearer \(key)")
        if let body { request.body = .bytes(ByteBuffer(string: body.compactText)) }
        let answer: PlainAnswer
        do {
            answer = try await Self.client.answer(to: request, within: Self.timeout + wait, upTo: Self.answerLimit)
        } catch {
            let rest = method == "GET" || isUnsent(error) ? "" : " The server may have done it all the same."
            Terminal.printError("quittance: \(address) does not answer: \(reason(of: error)).\(rest)")
            throw ExitCode(2)
        }
        guard !(300...399).contains(answer.status.code) else {
            let place = answer.headers.first(name: "Location").map { " to \($0.shortened.printable)" } ?? ""
            Terminal.printError(
                "quittance: \(address) redirects\(place), and did nothing. Pass the address of the server itself.")
            throw ExitCode(2)
        }
        return APIAnswer(status: Int(answer.status.code), bytes: Array(buffer: answer.body), server: address)
    }

    private func url(_ path: [String], _ query: [(name: String, value: String)]) -> String {
        var allowed = CharacterSet.urlPathAllowed
        allowed.remove(charactersIn: "/;&+=?")
        func encoded(_ text: String) -> String { text.addingPercentEncoding(withAllowedCharacters: allowed) ?? text }
        let parameters = query.map { "\($0.name)=\(encoded($0.value))" }
        let address = address.hasSuffix("/") ? String(address.dropLast()) : address
        return "\(address)/\(path.map(encoded).joined(separator: "/"))"
            + (parameters.isEmpty ? "" : "?\(parameters.joined(separator: "&"))")
    }
}
