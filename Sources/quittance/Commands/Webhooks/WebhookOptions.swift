// SPDX-License-Identifier: Apache-2.0

// The common options of the commands for endpoints, with the secrets and the failures.

import AppStoreModel
import AppStoreTrust
import ArgumentParser
import PurchaseLedger
import PurchaseServer

/// An endpoint of an app.
struct WebhookOptions: ParsableArguments {
    @OptionGroup(visibility: .inTopic) var options: ServerOptions

    @Argument(help: "The id of the endpoint in quittance webhooks list.")
    var id: String

    @Option(help: "The app of the endpoint. May be omitted if the configuration has a single app.")
    var bundleId: String?

    /// Lets `body` use the ledger.
    func onLedger(
        _ use: LedgerUse = .working,
        _ body: (_ ledger: Ledger, _ app: String, _ composition: Composition) async throws -> Void
    ) async throws {
        let composition = try await options.compositionWithTime()
        let app = try composition.configuration.bundleId(bundleId)
        try await composition.onLedger(use) { try await body(Ledger(storage: $0), app, composition) }
    }

    /// The failure if the app has no endpoint with the id.
    func unknown(_ app: String) -> ExitCode {
        Terminal.failure("\(app) has no endpoint “\(id.printable.shortened)”: see quittance webhooks list.")
    }

    /// Changes the endpoint, and prints its line.
    ///
    /// - Parameter change: Returns the change.
    func change(
        _ verb: String, _ change: (Composition) throws -> @Sendable (inout WebhookEndpoint) -> Void
    ) async throws {
        try await onLedger { ledger, app, composition in
            let changed = try await ledger.changeWebhook(
                id, of: app, at: SystemClock.now(), try change(composition))
            guard let endpoint = changed else { throw unknown(app) }
            try Terminal.print("\(verb): \(endpoint.line)")
            let now = SystemClock.now()
            guard endpoint.state == .active, try await ledger.webhookLacksIds(endpoint, at: now, wall: now) else {
                return
            }
            try Terminal.print(
                "Events of more than 30 days ago follow, and the ids deleted or taken off then are gone: begin again.")
        }
    }
}

extension Composition {
    /// The failure if the secret file is not the file of the ledger.
    static var otherWebhookSecrets: ExitCode { Terminal.failure(WebhookSecrets.otherFile) }

    /// The secrets of the file in the configuration.
    ///
    /// - Throws: `ValidationError` if the configuration has no file, or the file cannot be used.
    func requiredWebhookSecrets() throws -> WebhookSecrets {
        guard let secrets = try webhookSecrets() else {
            throw ValidationError(
                "The configuration has no webhookSecretFile, which the signatures need: see quittance webhooks -h.")
        }
        return secrets
    }

    /// The secrets of the file in the configuration, which must be the file of the ledger's endpoints.
    func webhookSecrets(of ledger: Ledger) async throws -> WebhookSecrets {
        let secrets = try requiredWebhookSecrets()
        let known = try await ledger.webhookFingerprint()
        guard known ?? secrets.fingerprint == secrets.fingerprint else { throw Self.otherWebhookSecrets }
        return secrets
    }

    /// Refuses an environment of which the server records nothing.
    func require(_ environment: Environment) throws {
        guard !configuration.environments.contains(environment) else { return }
        throw ValidationError("--environment \(environment.rawValue): the configuration lacks it in environments.")
    }

    /// The checked URL of an endpoint.
    func webhookURL(_ text: String) throws -> WebhookURL {
        do {
            return try WebhookURL(text, allowing: configuration.webhookNetworks)
        } catch {
            throw ValidationError(error.description)
        }
    }
}

extension Terminal {
    /// The failure for a cursor without events after it.
    static func refusal(of error: EventCursorError, _ option: String) -> any Error {
        switch error {
        case .invalid: ValidationError("\(option) takes the id of an event of the app.")
        case .expired(let oldest):
            Terminal.failure(
                "The ledger no longer has the events after this cursor. The oldest begin after \(oldest.rawValue).")
        case .lost(let last):
            Terminal.failure(
                "The ledger has no event with this cursor: it is ahead of the events, or of a state before a restore. "
                    + "The last cursor that may be right is \(last.rawValue).")
        }
    }
}

extension LedgerEvent.Kind {
    /// The kinds in the value of `--kind`.
    static func option(_ text: String) throws -> Set<String> {
        let kinds = Set(text.split(separator: ",", omittingEmptySubsequences: false).map(String.init))
        guard let unknown = unknownName(in: kinds) else { return kinds }
        throw ValidationError("--kind has an unknown kind of event: “\(unknown.printable.shortened)”.")
    }
}
