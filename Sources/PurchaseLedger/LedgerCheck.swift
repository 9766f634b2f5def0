// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
public import AppStoreTrust

extension Ledger {
    /// A document in the ledger that is not what it was when it came.
    public struct Fault: Hashable, Sendable {
        /// Its place in the order of arrival; of one that is damaged the place behind which it is.
        public var number: Int64
        /// `nil` where it cannot be read.
        public var document: Provenance?
        public var error: String
    }

    /// How many documents are read at once: some 10 MB of them.
    private static let page = 500

    /// Verifies every document again.
    ///
    /// - Parameters:
    ///   - verifier: With the roots, apps and environments of those who verified them. Whether certificates were revoked since is
    ///     no business of this.
    ///   - onDocuments: Told how many were verified so far.
    ///   - work: Given each document with what it says, in the order of arrival.
    /// - Returns: How many there are, and those that do not verify.
    /// - Throws: ``LedgerStorageError``, and what `work` throws.
    public func check(
        by verifier: AppStoreVerifier, onDocuments: (_ count: Int) -> Void = { _ in },
        work: ([Evidence]) async throws -> Void = { _ in }
    ) async throws -> (documents: Int, faults: [Fault], last: Int64) {
        var (count, faults, last) = (0, [Fault](), Int64(0))
        while true {
            let page: [StoredDocument]
            do {
                page = try await documents(after: last)
            } catch let error as LedgerStorageError where error.code == .damaged {
                // Behind it there may be more: it is named, and passed over.
                last += 1
                if faults.last?.error != error.message { faults.append(Fault(number: last, error: error.message)) }
                continue
            }
            guard let end = page.last else { return (count, faults, last) }
            let results = await Self.verify(page, by: verifier)
            for case (let document, .failure(let fault)) in zip(page, results) {
                faults.append(
                    Fault(
                        number: document.number, document: Provenance(document.id, signed: document.signedDate),
                        error: fault.message))
            }
            try await work(results.compactMap { try? $0.get() ?? nil })
            last = end.number
            count += page.count
            onDocuments(count)
        }
    }

    /// The next documents; where one of them is damaged those before it, and where it is the first its error.
    private func documents(after number: Int64) async throws -> [StoredDocument] {
        do {
            return try await storage.read { try $0.documents(after: number, limit: Self.page) }
        } catch let error as LedgerStorageError where error.code == .damaged {
            return try await storage.read { reader in
                var found: [StoredDocument] = []
                var last = number
                while let next = try? reader.documents(after: last, limit: 1).first {
                    found.append(next)
                    last = next.number
                }
                guard !found.isEmpty else { throw error }
                return found
            }
        }
    }

    /// On all cores: verifying is nearly all that there is to do.
    private static func verify(
        _ documents: [StoredDocument], by verifier: AppStoreVerifier
    ) async -> [Result<Evidence?, DocumentFault>] {
        await withTaskGroup(of: (Int, Result<Evidence?, DocumentFault>).self) { group in
            for (index, document) in documents.enumerated() {
                group.addTask { (index, await Evidence.verifying(document, by: verifier)) }
            }
            var results = [Result<Evidence?, DocumentFault>](
                repeating: .failure(DocumentFault(message: "")), count: documents.count)
            for await (index, result) in group { results[index] = result }
            return results
        }
    }
}

/// Why a document is not what it was.
private struct DocumentFault: Error {
    var message: String
}

extension Evidence {
    /// Verifies a document that a ledger kept; `nil` for renewal info, which nothing but the notification that it came in binds
    /// to an app.
    fileprivate static func verifying(
        _ stored: StoredDocument, by verifier: AppStoreVerifier
    ) async -> Result<Evidence?, DocumentFault> {
        guard EvidenceID(stored.document, stored.kind) == stored.id else {
            return .failure(DocumentFault(message: "Its bytes are not those of its name."))
        }
        do throws(VerificationError) {
            let (token, time) = (stored.document, stored.receivedAt)
            switch stored.kind {
            case .transaction:
                return .success(
                    Evidence(try await verifier.verify(token, as: JWSTransactionDecodedPayload.self, at: time)))
            case .renewalInfo:
                _ = try await verifier.verify(token, as: JWSRenewalInfoDecodedPayload.self, at: time)
                return .success(nil)
            case .appTransaction:
                return .success(Evidence(try await verifier.verify(token, as: AppTransaction.self, at: time)))
            case .notification:
                return .success(Evidence(try await verifier.verify(notification: token, at: time)))
            case .receipt:
                return .success(Evidence(try await verifier.verify(receipt: token, at: time)))
            }
        } catch {
            return .failure(DocumentFault(message: "\(error.code.rawValue): \(error.message)"))
        }
    }
}
