// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import Crypto
import HTTPTypes
import Hummingbird
import PurchaseLedger
import ReceiptCoding

/// Apple's verifyReceipt for one environment: answered from the receipt, and in full if there is a ledger.
///
/// As with Apple's, any app's receipt is answered; the caller compares `bundle_id`. Only receipts of the ledger's own apps
/// are kept and completed.
struct VerifyReceiptRoutes: Sendable {
    private let environment: AppStoreModel.Environment
    private let service: LedgerService?
    private let verifier: AppStoreVerifier
    private let bodies: BodyIntake
    private let now: @Sendable () -> Timestamp

    init(
        _ environment: AppStoreModel.Environment, _ service: LedgerService?, bodies: BodyIntake,
        now: @escaping @Sendable () -> Timestamp
    ) {
        (self.environment, self.service, self.bodies, self.now) = (environment, service, bodies, now)
        var verifier = AppStoreVerifier(
            apps: .any, environments: [.production, .sandbox], roots: service?.verifier.roots ?? .apple)
        verifier.intermediates = service?.verifier.intermediates ?? Intermediates()
        verifier.revocation = service?.verifier.revocation ?? .notChecked
        self.verifier = verifier
    }

    func add(at path: RouterPath, to router: Router<BasicRequestContext>) {
        router.post(path) { request, _ in
            do {
                let answer = try await bodies.withBody(of: request, upTo: Limits.verifyReceiptRequest) { body in
                    await respond(to: body, at: now())
                }
                RequestNotes.add { $0.verifyReceiptStatus = answer.status }
                return Response(json: answer.json)
            } catch let refusal as Refusal where refusal.isOverload {
                // A client of the App Store's endpoint retries after either.
                var response = Response(refusal.status, json: VerifyReceiptResponse(status: .unavailable).json)
                response.headers[.retryAfter] = "\(ServerBounds.retryAfter)"
                return response
            }
        }
        // The App Store answers other methods with a status of its own instead of 405.
        for method in [HTTPRequest.Method.get, .head, .put, .delete, .patch, .options, .trace] {
            router.on(path, method: method) { _, _ in
                Response(json: VerifyReceiptResponse(status: .unreadableRequest).json)
            }
        }
    }

    /// An answer as it is sent, and its status for the log.
    private struct Answer: Sendable {
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

    private func respond(to body: [UInt8], at now: Timestamp) async -> Answer {
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
        } catch is VerificationError {
            return Answer(VerifyReceiptResponse(status: .unauthenticReceipt))
        } catch {
            // The fault is here, and says nothing about the receipt.
            RequestNotes.add { $0.failure = error }
            let isOutage = error is LedgerStorageError
            return Answer(VerifyReceiptResponse(status: isOutage ? .unavailable : .internalDataAccess))
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
        return try await answer.response(from: service.ledger, at: now)
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
        return try await full.complete(response, from: service.ledger, latestOnly: latestOnly)
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
    fileprivate func knows(_ bundleId: String?, _ environment: AppStoreModel.Environment) -> Bool {
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
