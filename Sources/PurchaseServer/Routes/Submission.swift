// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import InputForms
import PurchaseLedger

/// The documents of a submission: `{"documents": [signed transaction, app transaction or base64 app receipt, …]}`, or a
/// single `{"document": …}`. A string may have any form that ``InputForm`` accepts, and may contain several documents.
struct Submission: Sendable {
    /// The maximum length of a body in bytes: one receipt of the largest size as base64, as for verifyReceipt.
    static let bodyLimit = Limits.verifyReceiptRequest

    /// The maximum number of documents with a server key: many times a customer's whole history.
    static let limit = 1000

    /// The maximum number of documents with a client key. Each document costs signature checks. A device presents only
    /// the documents that StoreKit has for it now: a few transactions, or a receipt.
    static let clientLimit = 20

    private let documents: [(reference: String, document: InputDocument)]

    /// Whether the body has `"correct": true`: the claim is a correction.
    let corrects: Bool

    /// - Throws: ``Refusal`` 400 if there is no document or there are too many, or if a string contains no document.
    @inline(never)
    init(_ document: String?, _ list: JSONValue?, corrects: Bool, role: APIKey.Role) throws(Refusal) {
        self.corrects = corrects
        guard !corrects || Roles.backends.contains(role) else {
            throw .invalid("“correct” needs a server key, which can correct the owner.")
        }
        let list = (list?.array ?? []).compactMap(\.string).enumerated().map { ("documents[\($0.offset)]", $0.element) }
        let strings = document.map { [("document", $0)] } ?? list
        guard !strings.isEmpty, document == nil || list.isEmpty else {
            throw .invalid("Exactly one of “document” and “documents” is needed.")
        }
        let limit = Roles.apps.contains(role) ? Self.clientLimit : Self.limit
        let excess = Refusal.invalid("Send at most \(limit) documents at once with a \(role) key.")
        guard strings.count <= limit else { throw excess }
        var documents: [(reference: String, document: InputDocument)] = []
        for (reference, string) in strings { documents += try Self.documents(in: string, at: reference) }
        guard documents.count <= limit else { throw excess }
        self.documents = documents
    }

    /// The documents in a string. If the string has several documents, each reference also has the document's index.
    private static func documents(
        in string: String, at reference: String
    ) throws(Refusal) -> [(reference: String, document: InputDocument)] {
        var inner = reference
        do {
            let found = try InputForm(recognizing: Array(string.utf8)[...]).documents
            var documents: [(reference: String, document: InputDocument)] = []
            for (index, document) in found.enumerated() {
                inner = found.count > 1 ? "\(reference)[\(index)]" : reference
                documents.append((inner, try document.get()))
            }
            return documents
        } catch {
            throw Refusal(error).about(inner)
        }
    }

    /// Verifies all documents. Equal documents count once.
    ///
    /// - Throws: ``Refusal``, which names the first refused document.
    func verified(by verifier: AppStoreVerifier, at now: Timestamp) async throws -> [Evidence] {
        var presented = PresentedDocuments()
        var seen: Set<InputDocument> = []
        for (reference, document) in documents where seen.insert(document).inserted {
            do {
                try await presented.add(document, at: reference, by: verifier, at: now)
            } catch {
                throw Refusal(error, namesApps: true).about(reference)
            }
        }
        return try presented.evidence()
    }
}

extension Refusal {
    /// The refusal with the reference of the document in its message.
    fileprivate func about(_ reference: String) -> Refusal {
        var refusal = self
        refusal.message = "\(reference): \(message)"
        return refusal
    }
}

/// The verified documents of a submission.
private struct PresentedDocuments {
    private var names: Set<DocumentDigest> = []
    private var found: [Evidence] = []
    private var transactions: [Verified<JWSTransactionDecodedPayload>] = []
    /// The renewal info. It names no app itself, so it is accepted only beside a transaction of the same subscription,
    /// which names the app.
    private var renewals: [(reference: String, renewal: Verified<JWSRenewalInfoDecodedPayload>)] = []

    /// Verifies a document: a signed transaction, renewal info, an app transaction, or an app receipt.
    mutating func add(
        _ document: InputDocument, at reference: String, by verifier: AppStoreVerifier, at now: Timestamp
    ) async throws(VerificationError) {
        switch document {
        case .receipt(let bytes): add(Evidence(try await verifier.verify(receipt: bytes, at: now)))
        case .token(let token): try await add(token, at: reference, by: verifier, at: now)
        case .transactionReceipt:
            throw VerificationError(
                .otherKind,
                "An old transaction receipt does not sign its environment and proves no purchase: send an app receipt."
            )
        }
    }

    private mutating func add(
        _ token: [UInt8], at reference: String, by verifier: AppStoreVerifier, at now: Timestamp
    ) async throws(VerificationError) {
        do throws(VerificationError) {
            let transaction = try await verifier.verify(token, as: JWSTransactionDecodedPayload.self, at: now)
            transactions.append(transaction)
            add(Evidence(transaction))
        } catch {
            guard error.code == .otherKind else { throw error }
            // The token may be renewal info: Apple's answers about subscriptions have it beside each transaction.
            if let renewal = try? await verifier.verify(token, as: JWSRenewalInfoDecodedPayload.self, at: now) {
                renewals.append((reference, renewal))
            } else {
                try await add(appTransaction: token, by: verifier, at: now, orThrow: error)
            }
        }
    }

    /// - Parameter otherKind: The error for a document of any other kind. It names the expected kind.
    private mutating func add(
        appTransaction token: [UInt8], by verifier: AppStoreVerifier, at now: Timestamp,
        orThrow otherKind: VerificationError
    ) async throws(VerificationError) {
        do throws(VerificationError) {
            add(Evidence(try await verifier.verify(token, as: AppTransaction.self, at: now)))
        } catch {
            throw error.code == .otherKind ? otherKind : error
        }
    }

    private mutating func add(_ evidence: Evidence?) {
        guard let evidence, names.insert(evidence.id).inserted else { return }
        found.append(evidence)
    }

    /// All documents as evidence.
    ///
    /// - Throws: ``Refusal`` for renewal info without a transaction of its subscription.
    @inline(never)
    mutating func evidence() throws(Refusal) -> [Evidence] {
        for (reference, renewal) in renewals {
            let candidates = transactions.ordered(by: renewal)
            guard let bound = candidates.lazy.compactMap({ Evidence(renewal, boundBy: $0) }).first else {
                let message = "Renewal info names no app: send a transaction of its subscription with it."
                throw Refusal(VerificationError(.otherKind, message)).about(reference)
            }
            add(bound)
        }
        return found
    }
}

extension [Verified<JWSTransactionDecodedPayload>] {
    /// The transactions in the order in which they are tried for renewal info. Transactions whose period ends at the
    /// renewal date come first, then the newest purchases. The order matters in Xcode, where two subscriptions may have
    /// the same id.
    fileprivate func ordered(by renewal: Verified<JWSRenewalInfoDecodedPayload>) -> Self {
        let end = renewal.payload.renewalDate
        func rank(_ transaction: Verified<JWSTransactionDecodedPayload>) -> (Int, Int64) {
            let payload = transaction.payload
            return (end != nil && payload.expiresDate == end ? 1 : 0, payload.purchaseDate?.milliseconds ?? 0)
        }
        return sorted { rank($0) > rank($1) }
    }
}
