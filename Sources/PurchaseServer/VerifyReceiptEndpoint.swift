// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import Crypto
import PurchaseLedger
import ReceiptCoding

/// Apple's verifyReceipt for one environment: answered from the receipt, and in full where there is a ledger.
///
/// As with Apple's, any app's receipt is answered; the caller compares `bundle_id`. Only receipts of the ledger's own apps
/// are kept and completed.
struct VerifyReceiptEndpoint: Sendable {
    let environment: Environment
    var service: LedgerService?

    private let verifier: AppStoreVerifier

    init(environment: Environment, service: LedgerService? = nil) {
        self.environment = environment
        self.service = service
        var verifier = AppStoreVerifier(
            apps: .any, environments: [.production, .sandbox], roots: service?.verifier.roots ?? .apple)
        verifier.intermediates = service?.verifier.intermediates ?? Intermediates()
        verifier.revocation = service?.verifier.revocation ?? .notChecked
        self.verifier = verifier
    }

    /// An answer as it is sent, and its status for the log.
    struct Answer: Sendable {
        var status: Int
        var json: [UInt8]

        init(_ response: VerifyReceiptResponse) {
            status = response.status?.rawValue ?? 0
            json = response.json
        }

        init(_ response: VerifyTransactionReceiptResponse) {
            status = response.status?.rawValue ?? 0
            json = response.json
        }
    }

    func answer(_ body: [UInt8], at now: Timestamp) async -> Answer {
        do {
            let request = try VerifyReceiptRequest(parsing: body)
            guard let receipt = Base64.decode((request.receiptData ?? "").utf8) else {
                throw VerifyReceiptStatus.malformedReceipt
            }
            if let service, (try? TransactionReceipt(decoding: receipt)) != nil {
                return Answer(try await oldAnswer(receipt, request, service, at: now))
            }
            let verified = try await verify(receipt, at: now)
            return Answer(try await answer(verified, request, at: now))
        } catch let status as VerifyReceiptStatus {
            return Answer(VerifyReceiptResponse(status: status))
        } catch let error as LedgerStorageError {
            RequestNotes.add { $0.storageFailure = error }
            return Answer(VerifyReceiptResponse(status: .unavailable))
        } catch {
            return Answer(VerifyReceiptResponse(status: .unauthenticReceipt))
        }
    }

    private func oldAnswer(
        _ receipt: [UInt8], _ request: VerifyReceiptRequest, _ service: LedgerService, at now: Timestamp
    ) async throws -> VerifyTransactionReceiptResponse {
        let verified = try await verifier.verify(transactionReceipt: receipt, at: now)
        guard service.knows(verified.bundleId, environment) else { throw VerifyReceiptStatus.accountNotFound }
        let answer = OldReceiptAnswer(receipt: verified, environment: environment)
        let ids = [verified.payload.originalTransactionId, verified.payload.transactionId].compactMap { $0 }
        try service.requireAuthorized(ids, of: verified.bundleId)
        if answer.isSubscription { try service.requireSecret(request.password, of: verified.bundleId) }
        let ledger = service.ledger
        let catalogue = ledger.catalogue(LedgerScope(bundleId: verified.bundleId, environment: environment))
        return try await ledger.storage.read { try answer.response(from: $0, catalogue, at: now) }
    }

    private func verify(_ receipt: [UInt8], at now: Timestamp) async throws -> Verified<AppReceipt> {
        do throws(VerificationError) {
            return try await verifier.verify(receipt: receipt, at: now)
        } catch {
            switch error.code {
            case .malformed:
                // What is no receipt at all is malformed; what is wrong inside of one, the App Store did not make so.
                let isReceipt = (try? SignedReceipt(decoding: receipt)) != nil
                throw isReceipt ? VerifyReceiptStatus.unauthenticReceipt : .malformedReceipt
            case .unreadable:
                // Authentic, so 21003 would be a lie; the fault is here.
                RequestNotes.add { $0.refusal = error }
                throw VerifyReceiptStatus.internalDataAccess
            case .revocationUnknown:
                throw VerifyReceiptStatus.unavailable
            default:
                throw VerifyReceiptStatus.unauthenticReceipt
            }
        }
    }

    private func answer(
        _ receipt: Verified<AppReceipt>, _ request: VerifyReceiptRequest, at now: Timestamp
    ) async throws -> VerifyReceiptResponse {
        guard receipt.environment == environment else {
            throw environment == .production ? VerifyReceiptStatus.sandboxReceipt : .productionReceipt
        }
        let response = VerifyReceiptResponse(
            status: .valid, environment: environment, receipt: Receipt(receipt.payload, requestDate: now))
        guard let service, service.knows(receipt.bundleId, environment),
            let accepted = await accepted(receipt.document, service, at: now), let full = FullReceiptAnswer(accepted)
        else { return response }
        if full.isNeeded { try service.requireSecret(request.password, of: receipt.bundleId) }
        let ids = receipt.payload.inAppPurchases.compactMap { $0.originalTransactionId ?? $0.transactionId }
        try service.requireAuthorized(ids, of: receipt.bundleId)
        if let evidence = Evidence(accepted) { _ = try await service.ledger.record([evidence], at: now) }
        guard full.isNeeded else { return response }
        let latestOnly = request.excludeOldTransactions ?? false
        return try await service.ledger.storage.read { try full.complete(response, from: $0, latestOnly: latestOnly) }
    }

    /// The receipt if the ledger takes it in.
    private func accepted(
        _ receipt: [UInt8], _ service: LedgerService, at now: Timestamp
    ) async -> Verified<AppReceipt>? {
        do throws(VerificationError) {
            return try await service.verifier.verify(receipt: receipt, at: now)
        } catch {
            RequestNotes.add { $0.refusal = error }
            return nil
        }
    }
}

extension LedgerService {
    /// Whether the ledger takes in what is of this app and environment.
    fileprivate func knows(_ bundleId: String?, _ environment: Environment) -> Bool {
        guard verifier.environments.contains(environment) else { return false }
        guard case .only(let apps) = verifier.apps else { return true }
        return apps.contains { $0.bundleId == bundleId }
    }

    /// Answers purchases that the configuration refuses as the App Store answers those of an account that is gone.
    fileprivate func requireAuthorized(_ ids: [String], of bundleId: String?) throws(VerifyReceiptStatus) {
        guard let refused = bundleId.flatMap({ refusedPurchases[$0] }) else { return }
        guard refused.isDisjoint(with: ids) else { throw .accountNotFound }
    }

    /// Compares the app's shared secret, where it has one, in the same time wherever the first difference is.
    fileprivate func requireSecret(_ password: String?, of bundleId: String?) throws(VerifyReceiptStatus) {
        guard let secret = bundleId.flatMap({ sharedSecrets[$0] }) else { return }
        let given = SHA256.hash(data: Array((password ?? "").utf8))
        guard given == SHA256.hash(data: Array(secret.utf8)) else { throw .wrongSharedSecret }
    }
}
