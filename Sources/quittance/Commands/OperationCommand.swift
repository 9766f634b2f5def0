// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import ArgumentParser
import Foundation
import PurchaseLedger
import PurchaseServer
import Reconciliation

/// Where the command of an operation works: on the ledger of a configuration, with the rights of the operator, or on a
/// running server, with the rights of a key.
struct OperationTarget: ParsableArguments {
    @OptionGroup(visibility: .inTopic) var options: ServerOptions
    @OptionGroup(visibility: .inTopic) var trust: TrustOptions
    @OptionGroup(visibility: .inTopic) var appStoreServer: AppStoreServerOptions

    @Option(help: "The app. May be omitted if the configuration has a single app.")
    var bundleId: String?

    @Option(help: "Ask this running server instead of using the ledger.")
    var server: String?

    @Option(
        help: "The file with the API key for --server. Default: the variable QUITTANCE_KEY.", completion: .file())
    var keyFile: String?

    @Flag(help: "Print the JSON of the HTTP API. Commands that print no lines always do.")
    var json = false

    func validate() throws {
        if let server { try ServerConnection.require(server) }
        guard server != nil || keyFile == nil else { throw ValidationError("--key-file needs --server.") }
        guard server == nil || bundleId ?? options.config ?? options.database ?? options.roots.first == nil else {
            throw ValidationError("--server takes no --bundle-id, --config, --database or --root: the key has an app.")
        }
    }
}

/// The command of an operation. Its arguments, options and help follow from the fields of the operation.
///
/// ArgumentParser finds the arguments of a command by reflection. ``customMirror`` shows it the fields.
struct OperationCommand<Name: NamedOperation>: AsyncParsableCommand, CustomReflectable {
    @OptionGroup var target: OperationTarget
    @OptionGroup var confirmation: Confirmation
    /// The given words, by the names of their fields' options.
    private(set) var words: [String: [String]] = [:]
    /// Whether a search without `--bundle-id` is about all apps.
    private var isInAllApps = false

    private static var operation: PurchaseServer.Operation { Name.operation }

    static var configuration: CommandConfiguration { operation.configuration }

    init() {}

    /// The command without words of its own, for another command that asks the same operation.
    init(_ target: OperationTarget, inAllApps isInAllApps: Bool = false) {
        self.target = target
        self.isInAllApps = isInAllApps
    }

    init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: Key.self)
        _target = try container.decode(OptionGroup<OperationTarget>.self, forKey: Key("target"))
        if Self.operation.isConfirmed {
            _confirmation = try container.decode(OptionGroup<Confirmation>.self, forKey: Key("confirmation"))
        }
        for field in Self.operation.fields {
            let key = Key(field.option)
            words[field.option] =
                if field.isSingleArgument {
                    [try container.decode(Argument<String>.self, forKey: key).wrappedValue]
                } else if field.isArgument {
                    try container.decode(Argument<[String]>.self, forKey: key).wrappedValue
                } else if field.form == .flag {
                    try container.decode(Flag<Bool?>.self, forKey: key).wrappedValue.map { ["\($0)"] } ?? []
                } else {
                    try container.decode(Option<[String]>.self, forKey: key).wrappedValue
                }
        }
    }

    private struct Key: CodingKey {
        let stringValue: String
        var intValue: Int? { nil }

        init(_ name: String) { stringValue = name }
        init?(stringValue: String) { self.stringValue = stringValue }
        init?(intValue _: Int) { return nil }
    }

    var customMirror: Mirror {
        let fields: [Mirror.Child] = Self.operation.fields.map { ($0.option, $0.commandPart) }
        let confirmation: [Mirror.Child] = Self.operation.isConfirmed ? [("_confirmation", _confirmation)] : []
        return Mirror(self, children: fields + confirmation + [("_target", _target)])
    }

    func run() async throws {
        let (bytes, json) = try await answer(bytes: words)
        if !target.json, let text = Self.operation.text?(json) {
            if text.isEmpty { return Terminal.report("There is nothing to show.") }
            try Terminal.print(text.printableLines)
            if let remark = Self.operation.remark?(json) { Terminal.printError(remark.printableLines) }
        } else {
            try Terminal.write(bytes + [UInt8(ascii: "\n")])
        }
        if Self.operation.isFailure(json) { throw ExitCode(1) }
    }

    /// The answer to the request with these words.
    ///
    /// - Throws: Exit status 1 for a refusal, 2 if the server does not answer; `ValidationError` for a wrong request.
    func answer(_ words: [String: [String]]) async throws -> JSONValue { try await answer(bytes: words).json }

    private func answer(bytes words: [String: [String]]) async throws -> (bytes: [UInt8], json: JSONValue) {
        // Wrong usage is said before a key or a ledger is looked for.
        _ = try values(words, at: SystemClock.now())
        // Operations with the flag refuse an unknown id themselves.
        let refusesUnknown = Self.operation.fields.contains { $0.name == Field.isNew.name }
        if !refusesUnknown, let id = words["customer"]?.first { try await requireKnown(id) }
        let answer = try await reply(words)
        return (answer.bytes, try answer.success(of: Self.operation))
    }

    /// Refuses an id that no customer has, which a person may have mistyped.
    private func requireKnown(_ id: String) async throws {
        let answer = try await OperationCommand<ShowSupport>(target).reply(["id": [id]])
        // A client key may not ask.
        guard answer.status != 403 else { return }
        let json = try answer.success(of: ShowSupport.operation)
        let ids = (json["items"]?.array ?? []).flatMap { $0["ids"]?.array ?? [] }
        guard !ids.contains(.string(id)) else { return }
        let found = (json["found"]?.array ?? []).compactMap(\.string).joined(separator: "; ")
        throw Terminal.failure("No customer has the id “\(id)”. It names \(found).".printable)
    }

    /// The answer as HTTP has it, also to a refusal.
    func reply(_ words: [String: [String]]) async throws -> APIAnswer {
        var words = words
        for field in Self.operation.fields where field.isFile {
            words[field.option] = try words[field.option]?.map { file in
                let bytes = try asUsage("--\(field.option): ") { try Input.read(file) }
                // A receipt on a disk need not be in base64.
                let text = String(validating: bytes, as: UTF8.self)
                return text?.trimmingCharacters(in: .whitespacesAndNewlines) ?? Base64.encode(bytes)
            }
        }
        return try await target.server == nil ? ledgerReply(words) : serverReply(words)
    }

    private func values(_ words: [String: [String]], at now: Timestamp) throws -> FieldValues {
        try asUsage {
            try FieldValues(Self.operation.fields, at: now) { field in
                let given = words[field.option] ?? []
                return given.isEmpty && field.isMadeUp ? [Composition.nonce()] : given
            }
        }
    }

    /// Asks the question, and then shows the values that were made up, before the request may get lost.
    private func prepare(_ values: FieldValues, _ question: String?) async throws {
        if let question { try await confirmation.require { question } }
        for field in Self.operation.fields where field.isMadeUp && words[field.option]?.isEmpty != false {
            Terminal.printError("To repeat this request: --\(field.option) \(values[field]?.string ?? "")")
        }
    }

    // MARK: - A running server

    private func serverReply(_ words: [String: [String]]) async throws -> APIAnswer {
        let server = target.server ?? ""
        let connection = try ServerConnection(server, keyFile: target.keyFile)
        let values = try values(words, at: SystemClock.now())
        let operation = Self.operation
        let given = operation.fields.compactMap { field in
            values[field].map { "\(field.option) \($0.string ?? $0.compactText)".shortened }
        }
        let question = "\(operation.abstract) At \(server): \(given.joined(separator: ", "))."
        try await prepare(values, operation.isConfirmed ? "\(question) It cannot be undone. Do it?" : nil)
        return try await connection.answer(
            to: operation.verb, values.path(operation.path), values.query,
            body: operation.bodyLimit == nil ? nil : values.body)
    }

    // MARK: - The ledger

    private func ledgerReply(_ words: [String: [String]]) async throws -> APIAnswer {
        let composition = try await target.options.compositionWithTime()
        let isInAllApps = isInAllApps && target.bundleId == nil
        let app = try isInAllApps ? "" : composition.configuration.bundleId(target.bundleId)
        let values = try values(words, at: composition.now())
        let operation = Self.operation
        var reply: Reply?
        try await endingOnDamage {
            guard operation.needsServer else {
                return try await composition.withStorage(operation.isRead ? .reading : .working) { storage in
                    var service = composition.service(storage, try composition.verifier())
                    if operation.errors.contains(.noWebhookSecrets) {
                        service.webhookSecrets = try composition.webhookSecrets()
                    }
                    service.webhookNetworks = composition.configuration.webhookNetworks
                    if Name.self == DeleteCustomer.self, let journal = try composition.erasureJournal() {
                        service.keepErasures(in: journal, composition.logger())
                    }
                    if operation.errors.contains(.appStoreUnavailable),
                        words.values.joined().contains(where: HistoryQuestion.isOrderId)
                    {
                        try target.appStoreServer.check(composition.configuration)
                        service.signing = try composition.signing()
                        service.reconcilers = composition.reconcilers(service)
                    }
                    let all = try await isInAllApps ? Set(service.apps.keys).union(service.ledger.apps()) : [app]
                    reply = try await perform(values, of: all.sorted(), service, composition)
                }
            }
            try target.appStoreServer.check(composition.configuration)
            let trustsOtherRoots = target.trust.trustsOtherRoots
            reply = try await composition.run(
                .working, trustsOtherRoots: trustsOtherRoots, composition.logger()
            ) { try await perform(values, of: [app], $0, $1) }
        }
        return APIAnswer(status: reply?.code ?? 500, bytes: reply?.json ?? [])
    }

    private func perform(
        _ values: FieldValues, of apps: [String], _ service: LedgerService, _ composition: Composition
    ) async throws -> Reply? {
        try await composition.server(service, composition.logger()).perform(Self.operation, values, of: apps) {
            try await prepare(values, $0)
        }
    }
}
