// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import ArgumentParser
import PurchaseServer

/// `quittance verify`: verifies documents.
struct Verify: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Verify that the App Store signed a document for your app and environment.",
        usage: "quittance verify [<file>] --bundle-id <bundle-id> ... [options]",
        discussion: """
            Reads an app receipt (binary or base64), an old transaction receipt, any compact JWS, or JSON that has \
            them inside, such as {"signedPayload": …}, a verifyReceipt request or answer, and pages of the App Store \
            Server API. Quotes, line ends, other alphabets of base64, hexadecimal, gzip and more are undone first; of \
            anything else the error names the form. A file may contain many documents, one per line or as a list in \
            JSON. Each answer then names its line and its number in the list, and answers have the order of the \
            documents. All cores are used, and files of any size take little memory. From a pipe, the first answer \
            comes once the second line begins: until then the input may be one document.

            Exit status: 0 verified; 1 refused, with code and reason on standard error; 2 unreadable input or wrong \
            usage; 3 genuine, but the document (such as renewal info) names no app to compare with --bundle-id. Verify \
            the transaction with the same originalTransactionId too. Of many documents the worst counts: 2, 1, 3, 0.

              quittance verify receipt.b64 --bundle-id com.example.notes
              quittance verify - --bundle-id com.example.notes --json < transaction.jws
              quittance verify xcode.jws --bundle-id com.example.notes \\
                  --environment xcode --root StoreKitTest.cer
            """)

    @Argument(help: "The file with the document; omit it or pass - for standard input.")
    var file: String?

    @Option(name: .customLong("bundle-id"), help: "The bundle id to accept. May be repeated.")
    var bundleIds: [String]

    @Option(help: "The app's Apple ID to accept, if a production document has an Apple ID.")
    var appAppleId: Int64?

    @Option(
        name: .customLong("environment"),
        help:
            "The environment to accept: production (the default), sandbox, xcode or localTesting. May be repeated.",
        transform: { try Environment.option($0) })
    var environments: [Environment] = []

    @Option(
        name: .customLong("root"),
        help: "A root certificate (PEM or DER) to trust instead of Apple's. May be repeated.",
        completion: .file())
    var roots: [String] = []

    @Flag(help: "Trust Apple's roots in addition to the roots of --root.")
    var alsoAppleRoots = false

    @Option(
        name: .customLong("intermediates"),
        help: """
            Apple's intermediate certificates, which old transaction receipts omit: a folder of .cer, .crt, .der or \
            .pem files, or a single file. The certificates must lead to a trusted root.
            """,
        completion: .directory)
    var intermediates: String?

    @Option(
        help: """
            Check the signer's certificates for revocation with Apple's responders: ask refuses revoked certificates, \
            require also refuses certificates whose status is unknown.
            """)
    var revocation = ServerConfiguration.Revocation.off

    @Option(
        help:
            "The time (ISO 8601) at which certificates must be valid if the document has no date. Default: now.",
        transform: Timestamp.option)
    var at: Timestamp?

    @Option(
        name: .customLong("device"),
        help: "Also require a receipt for this device: its identifierForVendor (iOS) or MAC address (macOS).",
        transform: { text in
            try DeviceIdentifier(text).require(
                as: \.self, else: ValidationError("--device takes a UUID or a MAC address, not \(text)."))
        })
    var device: DeviceIdentifier?

    @Flag(help: "Show each check in order, with the expected and the found value.")
    var explain = false

    @Flag(help: "Print only a JSON object per document to standard output.")
    var json = false

    func validate() throws {
        guard !bundleIds.contains("") else {
            throw ValidationError("--bundle-id takes a bundle id, and it is empty.")
        }
        guard appAppleId == nil || bundleIds.count == 1 else {
            throw ValidationError("--app-apple-id is for a single app: pass exactly one --bundle-id with it.")
        }
    }

    func run() async throws {
        let verification = BatchVerification(
            verifier: try verifier(), device: device, now: at ?? SystemClock.now(), explain: explain, json: json)
        let status = try await verification.run(BatchReader(file))
        if status != .verified { throw ExitCode(status.code) }
    }

    private func verifier() throws -> AppStoreVerifier {
        var configuration = ServerConfiguration()
        configuration.set(\.roots, to: roots, "roots", by: "--root")
        configuration.set(\.intermediates, to: intermediates, "intermediates", by: "--intermediates")
        configuration.alsoAppleRoots = alsoAppleRoots
        configuration.revocation = revocation
        var verifier = try Composition(configuration: configuration).verifier()
        verifier.apps = .only(bundleIds.map { AppIdentity(bundleId: $0, appAppleId: appAppleId) })
        verifier.environments = environments.isEmpty ? [.production] : Set(environments)
        return verifier
    }
}

extension Environment {
    /// Parses an option's value: Apple's name of the environment, in upper or lower case.
    ///
    /// - Parameter allowed: The environments that the option accepts.
    static func option(_ text: String, allowed: [Environment] = Environment.allCases) throws -> Environment {
        guard let environment = Environment(named: text), allowed.contains(environment) else {
            let names = allowed.map(\.optionName)
            throw ValidationError(
                "--environment takes \(names.dropLast().joined(separator: ", ")) or \(names.last ?? ""), "
                    + "not \(text.printable).")
        }
        return environment
    }

    /// The name in the help: Apple's name, with the first letter in lower case.
    var optionName: String { rawValue.prefix(1).lowercased() + rawValue.dropFirst() }
}

extension Timestamp {
    /// Parses the value of `--at`.
    static func option(_ text: String) throws -> Timestamp {
        try Timestamp(iso8601: text).require(
            as: \.self, else: ValidationError("--at takes a time like 2026-01-31T12:00:00Z, not \(text)."))
    }
}
