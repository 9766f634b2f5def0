// SPDX-License-Identifier: Apache-2.0

// Verifies every stored document again, and reads every chain.

import AppStoreModel
public import AppStoreTrust

extension Ledger {
    /// A document that was changed or cannot be verified, or a purchase that cannot be read.
    public struct Fault: Hashable, Sendable {
        /// The name of the document; `nil` for a purchase, or if the name cannot be read.
        public var document: Provenance?
        /// What is wrong, as a sentence.
        public var error: String

        init(document: Provenance? = nil, error: String) {
            self.document = document
            self.error = error
        }

        /// A purchase that cannot be read.
        init(unreadable key: ChainKey, _ error: LedgerStorageError) {
            let name = "\(key.originalTransactionId) of \(key.scope.bundleId)"
            self.init(error: "The purchase \(name) cannot be read: \(error.message)")
        }
    }

    /// Verifies every document again, and reads every purchase.
    ///
    /// - Parameters:
    ///   - verifier: A verifier with the same roots, apps and environments as when the documents arrived. This does not
    ///     check whether certificates were revoked since.
    ///   - onDocuments: Called with the number of documents verified so far.
    /// - Returns: How many documents there are, and all faults.
    /// - Throws: ``LedgerStorageError`` other than `damaged`. Damage never stops it.
    public func check(
        by verifier: AppStoreVerifier, onDocuments: (_ count: Int) -> Void = { _ in }
    ) async throws -> (documents: Int, faults: [Fault]) {
        var (cursor, count, faults) = (ScanCursor?.none, 0, [Fault]())
        repeat {
            let page = try await storage.scanDocuments(after: cursor, limit: Self.page)
            // One damaged page may make many documents in a row unreadable.
            for damage in page.damage where faults.last?.error != damage { faults.append(Fault(error: damage)) }
            for case (let document, .failure(let fault)) in zip(
                page.items, await Evidence.verify(page.items, by: verifier))
            {
                faults.append(Fault(document: document.name, error: fault.message))
            }
            count += page.items.count
            onDocuments(count)
            cursor = page.next
        } while cursor != nil
        return (count, faults + (try await unreadableChains()) + (try await rootFaults(verifier.roots)))
    }

    /// What the notes of roots say about these roots, and what of the notes cannot be read.
    private func rootFaults(_ roots: TrustRoots) async throws -> [Fault] {
        var (cursor, faults, notes) = (ScanCursor?.none, [Fault](), [Job]())
        repeat {
            let page = try await storage.scanJobs(after: cursor, limit: Self.page)
            faults += page.damage.map { Fault(error: $0) }
            notes += page.items.filter { $0.id.kind == .trustAnchors }
            cursor = page.next
        } while cursor != nil
        if let refusal = Self.refusal(of: roots, by: notes) { faults.append(Fault(error: refusal.message)) }
        return faults
    }

    private func unreadableChains() async throws -> [Fault] {
        var (cursor, faults) = (ScanCursor?.none, [Fault]())
        repeat {
            let page = try await storage.scanChains(after: cursor, limit: Self.page)
            faults += page.damage.map { Fault(error: $0) }
            let damaged = try await Self.skippingDamaged(page.items) { keys in
                _ = try await storage.load(LedgerQuery { ($0.chains, $0.owners) = (Set(keys), true) })
            }
            for (key, error) in damaged.sorted(by: { $0.key < $1.key }) {
                faults.append(Fault(unreadable: key, error))
            }
            cursor = page.next
        } while cursor != nil
        return faults
    }

    /// How many documents or chains are read at once: about 10 MB.
    private static let page = 500
}

/// Why a document does not verify any more.
struct DocumentFault: Error {
    var message: String
}

/// What a stored document is after it was verified again.
enum VerifiedAgain {
    /// Evidence; `nil` if it names no app.
    case evidence(Evidence?)
    /// Renewal info, which other evidence binds to an app.
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
                repeating: .failure(DocumentFault(message: "")), count: documents.count)
            for await (index, result) in group { results[index] = result }
            return results
        }
    }

    private static func verify(
        _ stored: StoredDocument, by verifier: AppStoreVerifier
    ) async -> Result<VerifiedAgain, DocumentFault> {
        guard DocumentDigest(stored.document, stored.kind) == stored.id else {
            return .failure(DocumentFault(message: "Its bytes do not match its digest."))
        }
        do throws(VerificationError) {
            let (token, time) = (stored.document, stored.receivedAt)
            switch stored.kind {
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
            return .failure(DocumentFault(message: "\(error.code.rawValue): \(error.message)"))
        }
    }
}
