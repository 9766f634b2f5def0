// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import PurchaseServer
import ReceiptCoding

/// The outcome of `verify`, from the best to the worst.
enum VerifyStatus: Int, Comparable {
    case verified
    /// The signature is genuine, but the document names no app to compare.
    case appUnknown
    case refused
    case unreadable

    /// The exit status.
    var code: Int32 {
        switch self {
        case .verified: 0
        case .appUnknown: 3
        case .refused: 1
        case .unreadable: 2
        }
    }

    static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }
}

/// The outcome for one document.
enum Verdict {
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
                self = .unreadable(InputError(description: "--device applies to app receipts only."))
            case .jws(let bytes):
                self = .token(try await verifier.verifyAndRead(bytes, at: now))
            case .transactionReceipt(_, let bytes):
                self = .transactionReceipt(try await verifier.verify(transactionReceipt: bytes, at: now))
            case .json(_, let signed):
                self = await Verdict(signed, verifier: verifier, device: device, at: now)
            }
        } catch let error as VerificationError {
            self = .refused(error)
        } catch {
            self = .unreadable(error as? InputError ?? InputError(description: "\(error)"))
        }
    }

    var status: VerifyStatus {
        switch self {
        case .receipt, .transactionReceipt: .verified
        case .token(let token): token.namesApp ? .verified : .appUnknown
        case .refused: .refused
        case .unreadable: .unreadable
        }
    }

    /// The line for standard error: the code and the reason; `nil` if the document is verified.
    var errorText: String? {
        switch self {
        case .receipt, .transactionReceipt, .token: nil
        case .refused(let error): "refused, \(error.code.rawValue): \(error.message.printable)"
        case .unreadable(let error): error.description.printable
        }
    }

    /// The outcome as JSON.
    ///
    /// - Parameter checks: The passed checks; `nil` to omit them.
    func json(of item: Item, _ checks: [VerificationCheck]?) -> String {
        var writer = JSONWriter()
        writer.object { json in
            json.reference(to: item)
            json.name("verified")
            json.bool(status < .refused)
            switch self {
            case .receipt(let receipt):
                json.summary(
                    receipt.kind.rawValue, receipt.environment.rawValue, bundleId: receipt.bundleId,
                    signed: receipt.signedDate)
                json.name("payload")
                json.literal(Receipt(receipt.payload, requestDate: nil).json)
            case .token(let token):
                json.summary(
                    token.kind.rawValue, token.environment.rawValue, bundleId: token.bundleId, signed: token.signedDate)
                json.name("payload")
                json.value(token.payload)
            case .transactionReceipt(let receipt):
                json.summary("transactionReceipt", nil, bundleId: receipt.bundleId, signed: receipt.purchaseDate)
                json.name("payload")
                json.literal(receipt.payload.json)
            case .refused(let error):
                json.member("code", error.code.rawValue)
                json.member("reason", error.message)
            case .unreadable(let error):
                json.unreadable(error)
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

    /// The passed checks in order, and the failed check.
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

    /// The text for people; `nil` for a refusal, which is reported on standard error.
    var text: String? {
        switch self {
        case .receipt(let receipt): "Verified: ".styled(.green) + Report.receipt(receipt.payload)
        case .transactionReceipt(let receipt):
            "Verified: ".styled(.green) + Report.transactionReceipt(receipt.receipt)
                + "  The environment is not signed: a sandbox purchase looks the same.\n"
        case .token(let token):
            "Verified: ".styled(.green) + Report.payload(token.payload, JSONDocument(recognizing: token.payload))
                + (token.namesApp ? "" : "  The document has no bundle id, so none was compared.\n")
        case .refused, .unreadable: nil
        }
    }
}

extension Verified {
    /// Whether the document names its app. If it does, the verifier compared the app. A retention request has no bundle
    /// id, but in production it has the app's Apple ID.
    fileprivate var namesApp: Bool { bundleId != nil || kind == .retentionRequest && environment == .production }
}

extension JSONWriter {
    /// Adds the document's line number and its number in its list, if the input has several lines or documents.
    mutating func reference(to item: Item) {
        if let line = item.line { member("line", number: Int64(line)) }
        if let number = item.number { member("document", number: Int64(number)) }
    }

    /// Adds the reason why the input is no document.
    mutating func unreadable(_ error: InputError) {
        member("code", VerificationError.Code.malformed.rawValue)
        member("form", error.form)
        member("reason", error.description)
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

    /// The properties of a document besides its payload. Null means that the document lacks the property, or that the
    /// property is not signed.
    fileprivate mutating func summary(
        _ kind: String, _ environment: String?, bundleId: String?, signed date: Timestamp?
    ) {
        member("kind", kind)
        name("environment")
        if let environment { string(environment) } else { null() }
        name("bundleId")
        if let bundleId { string(bundleId) } else { null() }
        name("signedDate")
        if let date { number(date.milliseconds) } else { null() }
    }
}
