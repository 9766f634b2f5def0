// SPDX-License-Identifier: Apache-2.0

// Verifies stored documents again, and names their faults.

import AppStoreModel
import AppStoreTrust

extension Ledger {
    /// A fault of a ledger, such as a changed or unverifiable document, or an unreadable purchase.
    public struct Fault: Hashable, Sendable {
        /// The kind of fault, for programs and summaries: a code of `VerificationError`, `wrongDigest` for a changed
        /// document, `unknownKind` for a document that only a newer version can verify, `damaged` for an unreadable
        /// record, `differing` for a purchase whose facts differ from its documents, or `otherRoots` for documents of
        /// untrusted or mixed roots.
        public var code: String
        /// The name of the document; `nil` if the fault concerns no document, or if the name cannot be read.
        public var document: Provenance?
        /// A sentence about the fault.
        public var error: String

        init(_ code: String = "damaged", document: Provenance? = nil, error: String) {
            self.code = code
            self.document = document
            self.error = error
        }

        /// The fault of an unreadable purchase.
        init(unreadable key: ChainKey, _ error: LedgerStorageError) {
            let name = "\(key.originalTransactionId) of \(key.scope.bundleId)"
            self.init(error: "The purchase \(name) cannot be read: \(error.message)")
        }

        /// The fault of a purchase whose facts differ from its documents.
        init(differing key: ChainKey) {
            let name = "\(key.originalTransactionId) of \(key.scope.bundleId)"
            self.init(
                "differing", error: "The purchase \(name) differs from its documents: quittance rebuild corrects it")
        }
    }
}

/// The reason why a document no longer verifies.
struct DocumentFault: Error {
    /// As ``Ledger/Fault/code``.
    var code: String
    var message: String
}

/// A stored document after its second verification.
enum VerifiedAgain {
    /// Evidence; `nil` if the document names no app.
    case evidence(Evidence?)
    /// Renewal info. It names no app, so other evidence must show the app.
    case renewalInfo(Verified<JWSRenewalInfoDecodedPayload>)
}

extension Evidence {
    /// Verifies documents on all cores.
    static func verify(
        _ documents: [StoredDocument], by verifier: AppStoreVerifier
    ) async -> [Result<VerifiedAgain, DocumentFault>] {
        await withTaskGroup(of: (Int, Result<VerifiedAgain, DocumentFault>).self) { group in
            for (index, document) in documents.enumerated() {
                group.addTask { (index, await verify(document, by: verifier)) }
            }
            var results = [Result<VerifiedAgain, DocumentFault>](
                repeating: .failure(DocumentFault(code: "", message: "")), count: documents.count)
            for await (index, result) in group { results[index] = result }
            return results
        }
    }

    private static func verify(
        _ stored: StoredDocument, by verifier: AppStoreVerifier
    ) async -> Result<VerifiedAgain, DocumentFault> {
        guard DocumentDigest(stored.document, stored.kind.known) == stored.id else {
            return .failure(DocumentFault(code: "wrongDigest", message: "Its bytes do not match its digest."))
        }
        guard let kind = stored.kind.known else {
            return .failure(
                DocumentFault(
                    code: "unknownKind",
                    message: "A newer version stored the document as \(stored.kind.rawValue). This version cannot "
                        + "verify the kind."))
        }
        do throws(VerificationError) {
            let token = stored.document
            let time = stored.receivedAt
            switch kind {
            case .transaction:
                let transaction = try await verifier.verify(token, as: JWSTransactionDecodedPayload.self, at: time)
                return .success(.evidence(Evidence(transaction)))
            case .renewalInfo:
                return .success(
                    .renewalInfo(try await verifier.verify(token, as: JWSRenewalInfoDecodedPayload.self, at: time)))
            case .appTransaction:
                return .success(
                    .evidence(Evidence(try await verifier.verify(token, as: AppTransaction.self, at: time))))
            case .notification:
                return .success(.evidence(Evidence(try await verifier.verify(notification: token, at: time))))
            case .receipt:
                return .success(.evidence(Evidence(try await verifier.verify(receipt: token, at: time))))
            }
        } catch {
            return .failure(
                DocumentFault(code: error.code.rawValue, message: "\(error.code.rawValue): \(error.message)"))
        }
    }
}
