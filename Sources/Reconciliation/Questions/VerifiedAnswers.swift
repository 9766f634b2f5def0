// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel
public import AppStoreTrust

// Verifies the signed documents in the answers of Apple's servers. An `AppStoreClient` therefore needs no certificates.

/// A signed document in an answer, with the result of its verification. An invalid document does not affect the rest of
/// the answer.
public struct CheckedDocument<Value: Sendable>: Sendable {
    /// The compact JWS as received.
    public let document: String
    /// The verified value, or the reason why the document was not accepted.
    public let result: Result<Value, VerificationError>
}

/// A subscription in an answer of Get All Subscription Statuses.
public struct CheckedSubscription: Sendable {
    /// Apple's status, which is not signed.
    public let status: Open<SubscriptionStatus>?
    /// The subscription's newest transaction; `nil` if the answer has none.
    public let transaction: CheckedDocument<Verified<JWSTransactionDecodedPayload>>?
    /// The subscription's newest renewal info; `nil` if the answer has none.
    public let renewalInfo: CheckedDocument<Verified<JWSRenewalInfoDecodedPayload>>?
}

extension AppStoreVerifier {
    /// The transaction in an answer of Get Transaction Info.
    ///
    /// - Parameter now: The instant at which certificates must be valid if the payload has no signing date.
    public func checked(
        _ answer: TransactionInfoResponse, at now: Timestamp
    ) async -> CheckedDocument<Verified<JWSTransactionDecodedPayload>>? {
        await checked(answer.signedTransactionInfo, at: now)
    }

    /// The app transaction in an answer of Get App Transaction Info.
    public func checked(
        _ answer: AppTransactionInfoResponse, at now: Timestamp
    ) async -> CheckedDocument<Verified<AppTransaction>>? {
        await checked(answer.signedAppTransactionInfo, at: now)
    }

    /// The transactions on a page of Get Transaction History, in the order of the page.
    public func checked(
        _ page: HistoryResponse, at now: Timestamp
    ) async -> [CheckedDocument<Verified<JWSTransactionDecodedPayload>>] {
        await checked(all: page.signedTransactions, at: now)
    }

    /// The transactions on a page of Get Refund History, in the order of the page.
    public func checked(
        _ page: RefundHistoryResponse, at now: Timestamp
    ) async -> [CheckedDocument<Verified<JWSTransactionDecodedPayload>>] {
        await checked(all: page.signedTransactions, at: now)
    }

    /// The transactions in an answer of Look Up Order ID.
    public func checked(
        _ answer: OrderLookupResponse, at now: Timestamp
    ) async -> [CheckedDocument<Verified<JWSTransactionDecodedPayload>>] {
        await checked(all: answer.signedTransactions, at: now)
    }

    /// The subscriptions in an answer of Get All Subscription Statuses, from all subscription groups.
    public func checked(_ answer: StatusResponse, at now: Timestamp) async -> [CheckedSubscription] {
        var subscriptions: [CheckedSubscription] = []
        for item in (answer.data ?? []).flatMap({ $0.lastTransactions ?? [] }) {
            subscriptions.append(
                CheckedSubscription(
                    status: item.status, transaction: await checked(item.signedTransactionInfo, at: now),
                    renewalInfo: await checked(item.signedRenewalInfo, at: now)))
        }
        return subscriptions
    }

    /// The notifications on a page of Get Notification History, each verified with the signed parts inside it, in the
    /// order of the page.
    public func checked(
        _ page: NotificationHistoryResponse, at now: Timestamp
    ) async -> [CheckedDocument<VerifiedNotification>] {
        var notifications: [CheckedDocument<VerifiedNotification>] = []
        for document in (page.notificationHistory ?? []).compactMap(\.signedPayload) {
            do throws(VerificationError) {
                let verified = try await verify(notification: document.utf8, at: now)
                notifications.append(CheckedDocument(document: document, result: .success(verified)))
            } catch {
                notifications.append(CheckedDocument(document: document, result: .failure(error)))
            }
        }
        return notifications
    }

    private func checked<Payload: SignedPayload>(
        all documents: [String]?, at now: Timestamp
    ) async -> [CheckedDocument<Verified<Payload>>] {
        var all: [CheckedDocument<Verified<Payload>>] = []
        for document in documents ?? [] {
            if let document: CheckedDocument<Verified<Payload>> = await checked(document, at: now) {
                all.append(document)
            }
        }
        return all
    }

    private func checked<Payload: SignedPayload>(
        _ document: String?, at now: Timestamp
    ) async -> CheckedDocument<Verified<Payload>>? {
        guard let document else { return nil }
        do throws(VerificationError) {
            let verified = try await verify(document.utf8, as: Payload.self, at: now)
            return CheckedDocument(document: document, result: .success(verified))
        } catch {
            return CheckedDocument(document: document, result: .failure(error))
        }
    }
}
