// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel
package import AppStoreTrust
package import PurchaseLedger

// Verifies documents, and makes them evidence for a ledger.

extension AppStoreVerifier {
    /// The evidence in a signed transaction.
    package func evidence(transaction token: String, at now: Timestamp) async throws -> Evidence {
        let verified = try await verify(Array(token.utf8), as: JWSTransactionDecodedPayload.self, at: now)
        return try Self.require(Evidence(verified))
    }

    /// The evidence in a signed app transaction.
    package func evidence(appTransaction token: String, at now: Timestamp) async throws -> Evidence {
        try Self.require(Evidence(try await verify(Array(token.utf8), as: AppTransaction.self, at: now)))
    }

    /// The evidence in a notification of the App Store, version 2.
    package func evidence(notification token: String, at now: Timestamp) async throws -> Evidence {
        try Self.require(Evidence(try await verify(notification: Array(token.utf8), at: now)))
    }

    /// The evidence in an app receipt.
    package func evidence(receipt: [UInt8], at now: Timestamp) async throws -> Evidence {
        try Self.require(Evidence(try await verify(receipt: receipt, at: now)))
    }

    private static func require(_ evidence: Evidence?) throws -> Evidence {
        guard let evidence else { throw NoEvidence() }
        return evidence
    }

    /// A ledger records nothing of the document.
    private struct NoEvidence: Error {}
}
