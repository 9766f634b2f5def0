// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import PurchaseLedger

/// The documents that a customer presents: `{"documents": [signed transaction or base64 app receipt, …]}`, or a single
/// `{"document": …}`.
struct Submission: Sendable {
    /// The longest body, in bytes: one receipt of the largest size as base64, as for verifyReceipt.
    static let bodyLimit = Limits.verifyReceiptRequest

    /// The most documents with a server key: a customer's whole history, many times over.
    private static let limit = 1000

    /// The most documents with a client key. Each costs signature checks, and a device presents what StoreKit has for
    /// it now: a few transactions, or one receipt.
    private static let clientLimit = 20

    let documents: [String]
    /// Whether the client sent a list.
    private let isList: Bool

    /// - Throws: ``Refusal`` 400 if the body has another form or too many documents.
    init(parsing body: [UInt8], role: APIKey.Role) throws(Refusal) {
        guard let json = try? JSONValue(parsing: body) else { throw .invalid("The body is not JSON.") }
        if let one = json["document"]?.string {
            (documents, isList) = ([one], false)
            return
        }
        guard let list = json["documents"]?.array, !list.isEmpty else {
            throw .invalid("The body is neither {\"document\": …} nor {\"documents\": […]} with at least one.")
        }
        let limit = role == .client ? Self.clientLimit : Self.limit
        guard list.count <= limit else { throw .invalid("Send at most \(limit) documents at once with a \(role) key.") }
        (documents, isList) = (list.compactMap(\.string), true)
        guard documents.count == list.count else { throw .invalid("Each document must be a string.") }
    }

    /// Verifies all documents. Equal ones count once.
    ///
    /// - Throws: ``Refusal``, which names the first document that is refused.
    func verified(by verifier: AppStoreVerifier, at now: Timestamp) async throws -> [Evidence] {
        var evidence: [Evidence] = []
        var (texts, names) = (Set<String>(), Set<DocumentDigest>())
        for (index, document) in documents.enumerated() where texts.insert(document).inserted {
            do {
                let verified = try await verifier.verify(presented: document, at: now)
                if names.insert(verified.id).inserted { evidence.append(verified) }
            } catch {
                var refusal = Refusal(error, namesApps: true)
                refusal.message = "\(isList ? "documents[\(index)]" : "document"): \(refusal.message)"
                throw refusal
            }
        }
        return evidence
    }
}

extension AppStoreVerifier {
    /// Verifies a signed transaction, which contains dots, or a receipt as base64, which does not.
    fileprivate func verify(presented document: String, at now: Timestamp) async throws(VerificationError) -> Evidence {
        if document.utf8.contains(UInt8(ascii: ".")) {
            let transaction = try await verify(document.utf8, as: JWSTransactionDecodedPayload.self, at: now)
            if let evidence = Evidence(transaction) { return evidence }
        } else if let bytes = Base64.decode(document.utf8) {
            if let evidence = Evidence(try await verify(receipt: bytes, at: now)) { return evidence }
        }
        throw VerificationError(.malformed, "It is neither a signed transaction nor an app receipt as base64.")
    }
}
