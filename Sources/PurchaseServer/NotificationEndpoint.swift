// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import PurchaseLedger
import ReceiptCoding

/// Apple's server notifications, taken in for good: when this returns, the evidence is durable.
struct NotificationEndpoint: Sendable {
    /// The longest body, in bytes: genuine ones stay below 30 KB.
    static let bodyLimit = 256 << 10

    let ledger: Ledger
    let verifier: AppStoreVerifier

    /// Takes in a version 2 notification: `{"signedPayload": …}`.
    ///
    /// - Returns: Whether it is new.
    /// - Throws: ``VerificationError`` where it can never be accepted, or may be later (`isRetryable`);
    ///   ``LedgerStorageError`` where it could not be stored; ``Refusal`` where it is no notification at all, and 503 where it is
    ///   genuine and this version cannot read it, so that it comes again to a newer one.
    func receive(v2 body: [UInt8], at now: Timestamp) async throws -> Bool {
        guard let payload = (try? JSONValue(parsing: body))?["signedPayload"]?.string else {
            throw Refusal.invalid("The body is not {\"signedPayload\": …}.")
        }
        let notification: VerifiedNotification
        do throws(VerificationError) {
            notification = try await verifier.verify(notification: payload.utf8, at: now)
        } catch {
            guard error.code == .unreadable else { throw error }
            throw Refusal.unreadable(error)
        }
        guard let evidence = Evidence(notification) else {
            throw Refusal.invalid("The notification names no app.")
        }
        return try await ledger.record([evidence], at: now).new > 0
    }

    /// Takes in a version 1 notification. It is not signed: only the receipt inside of it counts, and nothing else is read.
    ///
    /// - Throws: As ``receive(v2:at:)``.
    func receive(v1 body: [UInt8], at now: Timestamp) async throws {
        guard let receipt = ResponseBodyV1.latestReceipt(in: body) else {
            throw Refusal.invalid("The body is not {\"unified_receipt\": {\"latest_receipt\": …}}.")
        }
        guard let evidence = Evidence(try await verifier.verify(receipt: receipt, at: now)) else {
            throw Refusal.invalid("The receipt names no app.")
        }
        _ = try await ledger.record([evidence], at: now)
    }
}
