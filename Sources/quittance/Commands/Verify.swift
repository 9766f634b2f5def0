// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import ArgumentParser
import PurchaseServer
import ReceiptCoding
import Synchronization

struct Verify: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Check that the App Store signed a document, for your app and environment.",
        discussion: """
            Reads an app receipt (binary or base64), an old transaction receipt, a compact JWS of any kind, a \
            {"signedPayload": …} notification or a verifyReceipt request; or many, one a line.

            Exit status: 0 verified; 1 refused, with code and reason on standard error; 2 unreadable input or wrong usage.

              quittance verify receipt.b64 --bundle-id com.example.notes
              quittance verify - --bundle-id com.example.notes --environment sandbox --json < transaction.jws
              quittance verify xcode.jws --bundle-id com.example.notes --environment xcode --root StoreKitTest.cer
            """)

    @Argument(help: "The file with the document; - or nothing for standard input.")
    var file: String?

    @Option(name: .customLong("bundle-id"), help: "The app that is accepted. May be given more than once.")
    var bundleIds: [String]

    @Option(help: "The app's Apple ID, compared where a production document names one.")
    var appAppleId: Int64?

    @Option(
        name: .customLong("environment"),
        help:
            "The environment that is accepted: production (the default), sandbox, xcode or localTesting. May be repeated.",
        transform: Environment.option)
    var environments: [Environment] = []

    @Option(
        name: .customLong("root"),
        help: "A root certificate to trust instead of Apple's, PEM or DER. May be given more than once.",
        completion: .file())
    var roots: [String] = []

    @Flag(help: "Trust Apple's roots besides those named with --root.")
    var alsoAppleRoots = false

    @Option(
        name: .customLong("intermediates"),
        help: """
            Apple's intermediate certificates, which old transaction receipts leave out: a folder of .cer, .crt, .der or \
            .pem files, or one file. They are checked against the roots.
            """,
        completion: .directory)
    var intermediates: String?

    @Option(
        help: """
            Ask Apple's responders whether the signer's certificates were revoked: ask refuses what was revoked, require also \
            what nobody knows about.
            """)
    var revocation: Revocation?

    enum Revocation: String, ExpressibleByArgument, CaseIterable {
        case ask
        case require

        fileprivate var configured: ServerConfiguration.Revocation {
            switch self {
            case .ask: .ask
            case .require: .require
            }
        }
    }

    @Option(
        help:
            "The time at which certificates are judged where the document has no signing date, in ISO 8601. Default: now.",
        transform: { text in
            guard let instant = Timestamp(iso8601: text) else {
                throw ValidationError("--at takes a time like 2026-01-31T12:00:00Z, not \(text).")
            }
            return instant
        })
    var at: Timestamp?

    @Option(
        name: .customLong("device"),
        help: "Also check that a receipt was issued to this device: identifierForVendor (iOS) or MAC address (macOS).",
        transform: { text in
            guard let device = DeviceIdentifier(text) else {
                throw ValidationError("--device takes a UUID or a MAC address, not \(text).")
            }
            return device
        })
    var device: DeviceIdentifier?

    @Flag(help: "Show every check in order: what was expected and what was found.")
    var explain = false

    @Flag(help: "Print one JSON document for each input, and nothing else.")
    var json = false

    func validate() throws {
        guard !bundleIds.contains("") else {
            throw ValidationError("--bundle-id takes an app's bundle id, not nothing.")
        }
        guard appAppleId == nil || bundleIds.count == 1 else {
            throw ValidationError("--app-apple-id belongs to one app: give one --bundle-id with it.")
        }
    }

    func run() async throws {
        var verifier = try verifier()
        let checks = Checks()
        if explain { verifier.onCheck = { checks.add($0) } }
        let now = at ?? SystemClock.now()
        var status: Int32 = 0
        for item in Input.documents(file) {
            let verdict = await Verdict(item.document, verifier: verifier, device: device, at: now)
            status = max(status, verdict.exitStatus)
            let passed = explain ? checks.take() : nil
            if let passed, !json { try Terminal.print(verdict.explanation(passed)) }
            if let errorText = verdict.errorText { Terminal.printError("quittance: \(item.place)\(errorText)") }
            if json {
                try Terminal.print(verdict.json(passed))
            } else if let text = verdict.text {
                try Terminal.print(text)
            }
        }
        if status != 0 { throw ExitCode(status) }
    }

    private func verifier() throws -> AppStoreVerifier {
        var configuration = ServerConfiguration()
        (configuration.roots, configuration.alsoAppleRoots) = (roots, alsoAppleRoots)
        (configuration.intermediates, configuration.revocation) = (intermediates, revocation?.configured ?? .off)
        var verifier = try Composition(configuration).verifier()
        verifier.apps = .only(bundleIds.map { AppIdentity(bundleId: $0, appAppleId: appAppleId) })
        verifier.environments = environments.isEmpty ? [.production] : Set(environments)
        return verifier
    }
}

/// The checks that a document passed so far.
private final class Checks: Sendable {
    private let passed = Mutex<[VerificationCheck]>([])

    func add(_ check: VerificationCheck) { passed.withLock { $0.append(check) } }

    func take() -> [VerificationCheck] {
        passed.withLock { checks in
            defer { checks = [] }
            return checks
        }
    }
}

extension Environment {
    /// Reads an option's value: Apple's word, in any case.
    static func option(_ text: String) throws -> Environment {
        guard let match = allCases.first(where: { $0.rawValue.lowercased() == text.lowercased() }) else {
            throw ValidationError("--environment takes production, sandbox, xcode or localTesting, not \(text).")
        }
        return match
    }
}

/// What came of one document.
private enum Verdict {
    case receipt(Verified<AppReceipt>)
    case transactionReceipt(VerifiedTransactionReceipt)
    case token(Verified<JSONValue>)
    case refused(VerificationError)
    case unreadable(InputError)

    init(
        _ document: Result<Document, InputError>, verifier: AppStoreVerifier, device: DeviceIdentifier?,
        at now: Timestamp
    ) async {
        do {
            switch try document.get() {
            case .receipt(let bytes):
                let receipt = try await verifier.verify(receipt: bytes, at: now)
                if let device { try receipt.requireDevice(device) }
                self = .receipt(receipt)
            case .jws where device != nil, .transactionReceipt where device != nil:
                self = .unreadable(InputError(description: "--device can be checked for app receipts only."))
            case .jws(let bytes):
                self = .token(try await verifier.verifyAndRead(bytes, at: now))
            case .transactionReceipt(_, let bytes):
                self = .transactionReceipt(try await verifier.verify(transactionReceipt: bytes, at: now))
            case .json:
                self = .unreadable(
                    InputError(description: "This JSON is signed by nobody, so there is nothing to verify."))
            }
        } catch let error as VerificationError {
            self = .refused(error)
        } catch {
            self = .unreadable(error as? InputError ?? InputError(description: "\(error)"))
        }
    }

    var isVerified: Bool { exitStatus == 0 }

    var exitStatus: Int32 {
        switch self {
        case .receipt, .transactionReceipt, .token: 0
        case .refused: 1
        case .unreadable: 2
        }
    }

    /// What standard error tells: code and reason of a refusal.
    var errorText: String? {
        switch self {
        case .receipt, .transactionReceipt, .token: nil
        case .refused(let error): "refused, \(error.code.rawValue): \(error.message.printable)"
        case .unreadable(let error): error.description.printable
        }
    }

    private var codeAndReason: (code: String, reason: String) {
        switch self {
        case .receipt, .transactionReceipt, .token: ("verified", "")
        case .refused(let error): (error.code.rawValue, error.message)
        case .unreadable(let error): (VerificationError.Code.malformed.rawValue, error.description)
        }
    }

    /// - Parameter checks: Those that were passed, where they are wanted.
    func json(_ checks: [VerificationCheck]?) -> String {
        var writer = JSONWriter()
        writer.object { json in
            json.name("verified")
            json.bool(isVerified)
            switch self {
            case .receipt(let receipt):
                json.summary(of: receipt)
                json.name("payload")
                json.literal(Receipt(receipt.payload, requestDate: nil).json)
            case .token(let token):
                json.summary(of: token)
                json.name("payload")
                json.value(token.payload)
            case .transactionReceipt(let receipt):
                json.summary(of: receipt)
                json.name("payload")
                json.literal(receipt.payload.json)
            case .refused, .unreadable:
                json.member("code", codeAndReason.code)
                json.member("reason", codeAndReason.reason)
            }
            if let checks {
                json.name("checks")
                json.beginArray()
                for check in checks { json.check(check) }
                if case .refused(let error) = self { json.failedCheck(error) }
                json.endArray()
            }
        }
        return String(decoding: writer.bytes, as: UTF8.self)
    }

    /// Every check in order, and the one that was not passed.
    func explanation(_ checks: [VerificationCheck]) -> String {
        var part: String?
        var lines: [String] = []
        for check in checks {
            if check.part != part { lines.append(check.part.map { "in \($0)" } ?? "in the document itself") }
            part = check.part
            let expected = "expected \(check.expected)".printable.styled(.dim)
            lines.append("  ✓ ".styled(.green) + check.subject.rawValue.padded(to: 13) + expected)
            lines.append(String(repeating: " ", count: 17) + "found \(check.found)".printable)
        }
        if case .refused(let error) = self {
            let subject = error.code.subject.rawValue.padded(to: 13)
            lines.append("  ✗ ".styled(.red) + subject + error.message.printable)
        }
        return lines.joined(separator: "\n")
    }

    /// For people; nothing for a refusal, which standard error tells.
    var text: String? {
        switch self {
        case .receipt(let receipt): "Verified: ".styled(.green) + Report.receipt(receipt.payload)
        case .transactionReceipt(let receipt):
            "Verified: ".styled(.green) + Report.transactionReceipt(receipt.receipt)
                + "  The environment is signed nowhere: a sandbox purchase looks the same.\n"
        case .token(let token):
            "Verified: ".styled(.green) + Report.payload(token.payload, JSONDocument(recognizing: token.payload))
                + (token.bundleId == nil ? "  Names no app by a bundle id, so that was not compared.\n" : "")
        case .refused, .unreadable: nil
        }
    }
}

extension AppStoreVerifier {
    /// Verifies a token of any kind, that its payload can be read as what it is, and the tokens inside of a notification.
    fileprivate func verifyAndRead(
        _ jws: [UInt8], at now: Timestamp
    ) async throws(VerificationError) -> Verified<JSONValue> {
        let token = try await verify(jws: jws, at: now)
        switch token.kind {
        case .transaction: _ = try token.read(as: JWSTransactionDecodedPayload.self)
        case .renewalInfo: _ = try token.read(as: JWSRenewalInfoDecodedPayload.self)
        case .appTransaction: _ = try token.read(as: AppTransaction.self)
        case .notification: _ = try await verify(partsOf: token.read(as: ResponseBodyV2DecodedPayload.self), at: now)
        case .retentionRequest: _ = try token.read(as: DecodedRealtimeRequestBody.self)
        case .receipt: break
        }
        return token
    }
}

extension JSONWriter {
    fileprivate mutating func summary(of receipt: VerifiedTransactionReceipt) {
        member("kind", "transactionReceipt")
        name("environment")
        null()  // Signed nowhere.
        member("bundleId", receipt.bundleId)
        name("signedDate")
        if let date = receipt.purchaseDate { number(date.milliseconds) } else { null() }
    }

    fileprivate mutating func check(_ check: VerificationCheck) {
        object { json in
            if let part = check.part { json.member("part", part) }
            json.member("check", check.subject.rawValue)
            json.name("passed")
            json.bool(true)
            json.member("expected", check.expected)
            json.member("found", check.found)
        }
    }

    fileprivate mutating func failedCheck(_ error: VerificationError) {
        object { json in
            json.member("check", error.code.subject.rawValue)
            json.name("passed")
            json.bool(false)
            json.member("reason", error.message)
        }
    }

    fileprivate mutating func summary<Payload>(of verified: Verified<Payload>) {
        member("kind", verified.kind.rawValue)
        member("environment", verified.environment.rawValue)
        // Null says that this kind names no app, so that there was nothing to compare.
        name("bundleId")
        if let bundleId = verified.bundleId { string(bundleId) } else { null() }
        name("signedDate")
        if let signedDate = verified.signedDate { number(signedDate.milliseconds) } else { null() }
    }
}
