// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import ArgumentParser
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

    @Flag(help: "Print the JSON of the HTTP API.")
    var json = false

    func validate() throws {
        if let server { try ServerConnection.require(server) }
        guard server != nil || keyFile == nil else { throw ValidationError("--key-file needs --server.") }
        guard server == nil || bundleId == nil else { throw ValidationError("The app is that of the key.") }
    }
}

/// The codes of errors that stand for wrong usage: the same command can never succeed.
private let wrongUsage = ["invalidRequest", "invalidCursor", "webhookURLRefused", "unknownEntitlement"]

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

    private static var operation: Operation { Name.operation }

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
        let fields = Self.operation.fields
        if fields.contains(.customer), !fields.contains(.isNew) {
            // A person may have mistyped the id. The other operations refuse such an id themselves, or make a customer.
            _ = try values(words, at: SystemClock.now())
            let found = try await OperationCommand<ShowSupport>(target).reply(["id": words["customer"] ?? []])
            // A client key may not ask, and gets another status.
            if found.status == 404 { _ = try Self.read(found) }
        }
        return try Self.read(await reply(words))
    }

    /// - Throws: See ``answer(_:)``.
    @inline(never)
    private static func read(_ reply: (status: Int, bytes: [UInt8])) throws -> (bytes: [UInt8], json: JSONValue) {
        let json = JSONValue(readable: reply.bytes)
        if (200..<300).contains(reply.status), let json { return (reply.bytes, json) }
        let message = json?["error"]?["message"]?.string ?? "This is no Quittance server."
        guard !wrongUsage.contains(json?["error"]?["code"]?.string ?? "") else { throw ValidationError(message) }
        throw Terminal.failure(message.replacing("“new”", with: "--new").printableLines.withoutAPIKeys)
    }

    /// The answer as HTTP has it, also to a refusal.
    func reply(_ words: [String: [String]]) async throws -> (status: Int, bytes: [UInt8]) {
        try await target.server == nil ? ledgerReply(words) : serverReply(words)
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

    private func serverReply(_ words: [String: [String]]) async throws -> (status: Int, bytes: [UInt8]) {
        let connection = try ServerConnection(target.server ?? "", keyFile: target.keyFile)
        let values = try values(words, at: SystemClock.now())
        let operation = Self.operation
        let question = "\(operation.abstract) Do it? It cannot be undone."
        try await prepare(values, operation.isConfirmed ? question : nil)
        return try await connection.answer(
            to: operation.verb, values.path(operation.path), values.query,
            body: operation.bodyLimit == nil ? nil : values.body)
    }

    // MARK: - The ledger

    private func ledgerReply(_ words: [String: [String]]) async throws -> (status: Int, bytes: [UInt8]) {
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
                    if Name.self == DeleteCustomer.self, let journal = try composition.erasureJournal()?.journal {
                        service.keepErasures(in: journal)
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
        return reply.map { ($0.code, $0.json) } ?? (500, [])
    }

    private func perform(
        _ values: FieldValues, of apps: [String], _ service: LedgerService, _ composition: Composition
    ) async throws -> Reply? {
        do {
            return try await composition.server(service, composition.logger()).perform(
                Self.operation, values, of: apps
            ) { try await prepare(values, $0) }
        } catch let error as AppStoreAPIError where error.isUnknownTransaction {
            throw Terminal.failure(
                "\(error) Only one environment was asked: pass --environment for the other.".printable)
        }
    }
}
