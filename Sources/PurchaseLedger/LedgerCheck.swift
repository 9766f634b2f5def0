// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
public import AppStoreTrust

extension Ledger {
    /// A document in the ledger that is not what it was when it came.
    public struct Fault: Hashable, Sendable {
        /// Its place in the order of arrival; of one that is damaged the number behind which it is.
        public var number: Int64
        /// `nil` where it cannot be read.
        public var document: Provenance?
        public var error: String
    }

    /// Verifies every document again.
    ///
    /// - Parameters:
    ///   - verifier: With the roots, apps and environments of those who verified them. Whether certificates were revoked since is
    ///     no business of this.
    ///   - onDocuments: Told how many were verified so far.
    ///   - work: Given each document with what it says, in the order of arrival.
    /// - Returns: How many there are, and those that do not verify.
    /// - Throws: ``LedgerStorageError`` other than `damaged`, and what `work` throws. It ends on any damage.
    public func check(
        by verifier: AppStoreVerifier, onDocuments: (_ count: Int) -> Void = { _ in },
        work: ([Evidence]) async throws -> Void = { _ in }
    ) async throws -> (documents: Int, faults: [Fault], last: Int64) {
        var walk = DocumentWalk(storage)
        var (count, faults) = (0, [Fault]())
        while let step = try await walk.next() {
            switch step {
            case .damage(let number, let message):
                // Many documents in a row may be missing for one reason.
                if faults.last?.error != message { faults.append(Fault(number: number, error: message)) }
            case .documents(let page):
                let results = await Self.verify(page, by: verifier)
                for case (let document, .failure(let fault)) in zip(page, results) {
                    faults.append(Fault(document, fault.message))
                }
                try await work(results.compactMap { try? $0.get() ?? nil })
                count += page.count
                onDocuments(count)
            }
        }
        return (count, faults, walk.last)
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

extension Ledger.Fault {
    fileprivate init(_ document: StoredDocument, _ error: String) {
        self.init(
            number: document.number, document: Provenance(document.id, signed: document.signedDate), error: error)
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
