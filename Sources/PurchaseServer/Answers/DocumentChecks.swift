// SPDX-License-Identifier: Apache-2.0

// Verifies a document so that a person sees each check, for `quittance verify` and for stored documents.

package import AppStoreModel
package import AppStoreTrust
import PurchaseLedger
import ReceiptCoding
import Synchronization

/// Collects the passed checks of documents, one document after the other.
package final class PassedChecks: Sendable {
    private let passed = Mutex<[VerificationCheck]>([])

    package init() {}

    package func add(_ check: VerificationCheck) { passed.withLock { $0.append(check) } }

    package func take() -> [VerificationCheck] {
        passed.withLock { checks in
            defer { checks = [] }
            return checks
        }
    }
}

extension AppStoreVerifier {
    /// Verifies a token of any kind and the tokens inside a notification, and checks that the payload can be decoded.
    package func verifyAndRead(
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

/// The JSON of a check of a document.
struct CheckBody: Encodable, Sendable {
    /// The check, such as `chain` or `signature`.
    var name: String
    /// The part of the document, such as `data.signedTransactionInfo`; absent for the document itself.
    var part: String?
    /// Whether the document passed; absent if the check was not made.
    var passed: Bool?
    /// What was expected and what was found, or why the document failed.
    var text: String

    fileprivate init(_ check: VerificationCheck) {
        name = check.subject.rawValue
        part = check.part
        passed = true
        text = "expected \(check.expected), found \(check.found)"
    }

    fileprivate init(failed error: VerificationError) {
        name = error.code.subject.rawValue
        passed = false
        text = error.message
    }

    fileprivate init(omitted subject: VerificationCheck.Subject, because text: String) {
        name = subject.rawValue
        self.text = text
    }
}

/// The JSON of a stored document.
struct EvidenceBody: Encodable, Sendable {
    /// The name of the document.
    var id: String
    /// The kind of the document, such as `receipt` or `notification`.
    var kind: String
    /// `Production`, `Sandbox`, `Xcode` or `LocalTesting`.
    var environment: String
    /// The time at which the App Store signed the document, in milliseconds since 1970; `null` if it has no date.
    @Nullable var signedDate: Timestamp?
    /// The time at which the document arrived, in milliseconds since 1970.
    var receivedAt: Timestamp
    /// Apple's word for the type of a notification; absent for other documents.
    var notificationType: String?
    /// Apple's word for the subtype of the notification; absent if the notification has no subtype.
    var subtype: String?
    /// Apple's id of the notification.
    var notificationUUID: String?
    /// The document: a token as text, a receipt as base64.
    var document: String?
    /// The checks of the document as of its arrival, in order; only if the request asks with `explain`, as is the next
    /// member.
    var checks: [CheckBody]?
    /// The payload, with the payloads of the signed texts in it in their place, and of a receipt the members of
    /// verifyReceipt; absent if the document was refused.
    var payload: JSONValue?

    /// - Parameter withBytes: Whether the answer includes the document, and Apple's id of the notification.
    init(_ stored: StoredDocument, withBytes: Bool = true) {
        id = "\(stored.name)"
        kind = stored.kind.rawValue
        environment = stored.scope.environment.rawValue
        signedDate = stored.signedDate
        receivedAt = stored.receivedAt
        notificationType = stored.notification?.type
        subtype = stored.notification?.subtype
        guard withBytes else { return }
        notificationUUID = stored.notification?.uuid
        // A receipt is binary, a token is text.
        document =
            stored.kind == .receipt
            ? Base64.encode(stored.document) : String(decoding: stored.document, as: UTF8.self)
    }
}

extension EvidenceBody {
    /// Verifies the document again as of its arrival, and adds the checks and the payload.
    ///
    /// - Parameter verifier: Revocation is not checked, because each look at a document would then ask Apple.
    mutating func explain(_ stored: StoredDocument, by verifier: AppStoreVerifier) async {
        let passed = PassedChecks()
        var verifier = verifier
        verifier.revocation = .notChecked
        verifier.onCheck = { passed.add($0) }
        var refusal: VerificationError?
        do throws(VerificationError) {
            if stored.kind == .receipt {
                payload = Self.payload(try await verifier.verify(receipt: stored.document, at: stored.receivedAt))
            } else {
                payload = try await verifier.verifyAndRead(stored.document, at: stored.receivedAt).payload.withParts
            }
        } catch {
            refusal = error
        }
        checks =
            passed.take().map { CheckBody($0) } + [refusal].compactMap(\.self).map { CheckBody(failed: $0) }
            + [
                CheckBody(
                    omitted: .revocation, because: "not checked again: it was when the document arrived, if asked")
            ]
    }

    /// Not inlined into its asynchronous caller, because this compiler's optimizer miscompiles the result.
    @inline(never)
    private static func payload(_ receipt: Verified<AppReceipt>) -> JSONValue? {
        JSONValue(readable: Receipt(receipt.payload, requestDate: nil).json)
    }
}

extension JSONValue {
    /// The payload, with the payloads of the signed texts in it, such as `signedTransactionInfo`, in their place.
    fileprivate var withParts: JSONValue {
        guard let members else { return self }
        return .object(
            members.map { member in
                var value = member.value.withParts
                // A text that is no token stays as it is.
                if let text = value.string, member.name.hasPrefix("signed"), let part = try? JWS(text.utf8) {
                    value = JSONValue(readable: part.payload) ?? value
                }
                return Member(member.name, value)
            })
    }
}
