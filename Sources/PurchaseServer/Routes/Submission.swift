// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import InputForms
import PurchaseLedger

/// The documents that a customer presents: `{"documents": [signed transaction or base64 app receipt, …]}`, or a single
/// `{"document": …}`. A string may have any form that ``InputForm`` takes, and contain several documents.
struct Submission: Sendable {
    /// The longest body, in bytes: one receipt of the largest size as base64, as for verifyReceipt.
    static let bodyLimit = Limits.verifyReceiptRequest

    /// The most documents with a server key: a customer's whole history, many times over.
    private static let limit = 1000

    /// The most documents with a client key. Each costs signature checks, and a device presents what StoreKit has for
    /// it now: a few transactions, or one receipt.
    private static let clientLimit = 20

    private let documents: [(reference: String, document: InputDocument)]

    /// - Throws: ``Refusal`` 400 if the body has another form, too many documents, or a string without one.
    @inline(never)
    init(parsing body: [UInt8], role: APIKey.Role) throws(Refusal) {
        let strings = try Self.strings(in: body)
        let limit = role == .client ? Self.clientLimit : Self.limit
        let excess = Refusal.invalid("Send at most \(limit) documents at once with a \(role) key.")
        guard strings.count <= limit else { throw excess }
        var documents: [(reference: String, document: InputDocument)] = []
        for (reference, string) in strings { documents += try Self.documents(in: string, at: reference) }
        guard documents.count <= limit else { throw excess }
        self.documents = documents
    }

    private static func strings(in body: [UInt8]) throws(Refusal) -> [(reference: String, string: String)] {
        guard let json = JSONValue(readable: body) else {
            throw .invalid("The body is not JSON such as {\"document\": \"eyJ…\"}.")
        }
        if let one = json["document"]?.string { return [("document", one)] }
        guard let list = json["documents"]?.array, !list.isEmpty else {
            throw .invalid("The body is neither {\"document\": …} nor {\"documents\": […]} with at least one.")
        }
        let strings = list.compactMap(\.string)
        guard strings.count == list.count else { throw .invalid("Each document must be a string.") }
        return strings.enumerated().map { ("documents[\($0.offset)]", $0.element) }
    }

    /// The documents in one string. If there are several, each has its index in the reference too.
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

    /// Verifies all documents. Equal ones count once.
    ///
    /// - Throws: ``Refusal``, which names the first document that is refused.
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
    /// Renewal info, which names no app until a transaction binds it.
    private var renewals: [(reference: String, renewal: Verified<JWSRenewalInfoDecodedPayload>)] = []

    /// Verifies a document: a signed transaction, renewal info, or an app receipt.
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
            // Answers about subscriptions have renewal info beside each transaction. Of any other kind, the first error
            // says what is expected.
            let renewal = try? await verifier.verify(token, as: JWSRenewalInfoDecodedPayload.self, at: now)
            guard let renewal else { throw error }
            renewals.append((reference, renewal))
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
    /// The transactions in the order in which they may bind renewal info: those whose period ends at its renewal date,
    /// then the newest purchases. In Xcode two subscriptions may have one id.
    fileprivate func ordered(by renewal: Verified<JWSRenewalInfoDecodedPayload>) -> Self {
        let end = renewal.payload.renewalDate
        func rank(_ transaction: Verified<JWSTransactionDecodedPayload>) -> (Int, Int64) {
            let payload = transaction.payload
            return (end != nil && payload.expiresDate == end ? 1 : 0, payload.purchaseDate?.milliseconds ?? 0)
        }
        return sorted { rank($0) > rank($1) }
    }
}
