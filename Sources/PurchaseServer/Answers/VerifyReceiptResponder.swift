// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import Crypto
import InputForms
import PurchaseLedger
import ReceiptCoding

/// Answers verifyReceipt requests for one environment: from the receipt, and from the ledger if there is one.
///
/// As with Apple's endpoint, a receipt of any app is answered, and the caller compares `bundle_id`. The ledger records
/// only the receipts of its own apps, and only their responses contain data from the ledger.
struct VerifyReceiptResponder: Sendable {
    private let environment: Environment
    private let service: LedgerService?
    /// Accepts receipts of any app.
    private let verifier: AppStoreVerifier

    init(_ environment: Environment, _ service: LedgerService?) {
        (self.environment, self.service) = (environment, service)
        var verifier = service?.verifier ?? AppStoreVerifier(apps: .any, environments: [])
        (verifier.apps, verifier.environments) = (.any, Self.environments)
        self.verifier = verifier
    }

    /// The environments whose receipts the App Store signs.
    private static let environments: Set<Environment> = [.production, .sandbox]

    /// A response as it is sent, and its status for the log.
    struct Answer: Sendable {
        let status: Int
        let json: [UInt8]

        fileprivate init(_ status: Open<VerifyReceiptStatus>?, json: [UInt8]) {
            (self.status, self.json) = (status?.rawValue ?? 0, json)
        }

        fileprivate init(_ status: VerifyReceiptStatus) {
            self.init(Open(status), json: VerifyReceiptResponse(status: status).json)
        }
    }

    func answer(to body: [UInt8], at now: Timestamp) async -> Answer {
        let answer = await strictAnswer(to: body, at: now)
        if answer.status == VerifyReceiptStatus.malformedReceipt.rawValue { Self.noteForm(of: body) }
        return answer
    }

    /// Notes for the log what was sent in place of a receipt. The answer stays as strict as the App Store's.
    @inline(never)
    private static func noteForm(of body: [UInt8]) {
        // The body is JSON, since the status would be another one. Without the member, its own form counts.
        let data = (try? JSONValue(parsing: body))?["receipt-data"]?.string.map { Array($0.utf8) }
        let form = InputForm.name(of: (data ?? body)[...])
        RequestNotes.add { $0.form = form }
    }

    private func strictAnswer(to body: [UInt8], at now: Timestamp) async -> Answer {
        do {
            let request = try VerifyReceiptRequest(parsing: body)
            guard let receipt = Base64.decode((request.receiptData ?? "").utf8) else {
                return Answer(.malformedReceipt)
            }
            if let service, (try? TransactionReceipt(decoding: receipt)) != nil {
                let response = try await oldResponse(receipt, request, service, at: now)
                return Answer(response.status, json: response.json)
            }
            let response = try await response(receipt, request, at: now)
            return Answer(response.status, json: response.json)
        } catch let status as VerifyReceiptStatus {
            return Answer(status)
        } catch is VerificationError {
            return Answer(.unauthenticReceipt)
        } catch {
            // The server failed, which says nothing about the receipt.
            RequestNotes.add { $0.failure = error }
            return Answer(error is LedgerStorageError ? .unavailable : .internalDataAccess)
        }
    }
}

// MARK: - App receipts

extension VerifyReceiptResponder {
    private func response(
        _ document: [UInt8], _ request: VerifyReceiptRequest, at now: Timestamp
    ) async throws -> VerifyReceiptResponse {
        let (receipt, refusal) = try await verify(document, at: now)
        guard receipt.environment == environment else {
            throw environment == .production ? VerifyReceiptStatus.sandboxReceipt : .productionReceipt
        }
        let response = VerifyReceiptResponse(
            status: .valid, environment: environment, receipt: Receipt(receipt.payload, requestDate: now))
        guard let service, service.knows(receipt.bundleId, environment) else { return response }
        if let refusal { RequestNotes.add { $0.refusal = refusal } }
        guard refusal == nil, let full = FullReceiptAnswer(receipt) else { return response }
        if full.isNeeded { try service.requireSecret(request.password, of: receipt.bundleId) }
        if try await full.isRefused(by: service.ledger) { throw VerifyReceiptStatus.accountNotFound }
        if let evidence = Evidence(receipt) { _ = try await service.ledger.record([evidence], at: now) }
        guard full.isNeeded else { return response }
        await service.questions?.ask(about: full.chains, in: full.scope)
        let latestOnly = request.excludeOldTransactions ?? false
        return try await full.complete(response, from: service.ledger, latestOnly: latestOnly)
    }

    /// Verifies a receipt: as one of the ledger's own apps first, since most are, and otherwise for any app.
    ///
    /// - Returns: The receipt, and why the ledger does not accept it; `nil` if it does.
    private func verify(
        _ receipt: [UInt8], at now: Timestamp
    ) async throws(VerifyReceiptStatus) -> (Verified<AppReceipt>, VerificationError?) {
        do throws(VerificationError) {
            var refusal: VerificationError?
            if var verifier = service?.verifier {
                verifier.environments.formIntersection(Self.environments)
                do throws(VerificationError) {
                    return (try await verifier.verify(receipt: receipt, at: now), nil)
                } catch {
                    guard [.otherApp, .otherEnvironment].contains(error.code) else { throw error }
                    refusal = error
                }
            }
            return (try await verifier.verify(receipt: receipt, at: now), refusal)
        } catch {
            throw Self.status(of: error, receipt)
        }
    }

    private static func status(of error: VerificationError, _ receipt: [UInt8]) -> VerifyReceiptStatus {
        switch error.code {
        case .malformed:
            // Only a document that is not a receipt at all is malformed. The App Store signs no receipt with faults
            // inside, so such a receipt is not authentic.
            return (try? SignedReceipt(decoding: receipt)) == nil ? .malformedReceipt : .unauthenticReceipt
        case .unreadable:
            // The receipt is authentic, so 21003 would be wrong: this version of the server cannot read it.
            RequestNotes.add { $0.refusal = error }
            return .internalDataAccess
        case .revocationUnknown: return .unavailable
        default: return .unauthenticReceipt
        }
    }
}

// MARK: - Old transaction receipts

extension VerifyReceiptResponder {
    private func oldResponse(
        _ document: [UInt8], _ request: VerifyReceiptRequest, _ service: LedgerService, at now: Timestamp
    ) async throws -> VerifyTransactionReceiptResponse {
        let receipt = try await verify(old: document, at: now)
        guard service.knows(receipt.bundleId, environment) else { throw VerifyReceiptStatus.accountNotFound }
        let answer = OldReceiptAnswer(receipt: receipt, environment: environment)
        let ids = [receipt.payload.originalTransactionId, receipt.payload.transactionId].compactMap { $0 }
        let scope = LedgerScope(bundleId: receipt.bundleId, environment: environment)
        guard !service.ledger.rules.catalogue(scope).refuses(ids) else { throw VerifyReceiptStatus.accountNotFound }
        if answer.isSubscription { try service.requireSecret(request.password, of: receipt.bundleId) }
        return try await answer.response(from: service.ledger, at: now)
    }

    /// A receipt that names the other environment is refused before the ledger is asked. The word is not signed, so it
    /// can only refuse.
    private func verify(old receipt: [UInt8], at now: Timestamp) async throws -> VerifiedTransactionReceipt {
        do throws(VerificationError) {
            return try await oldVerifier.verify(transactionReceipt: receipt, at: now)
        } catch {
            guard error.code == .otherEnvironment else { throw error }
            throw environment == .production ? VerifyReceiptStatus.sandboxReceipt : .productionReceipt
        }
    }

    private var oldVerifier: AppStoreVerifier {
        var verifier = verifier
        verifier.environments = [environment]
        return verifier
    }
}

// MARK: - The rules of an app

extension LedgerService {
    /// Whether the ledger records documents of this app and environment.
    fileprivate func knows(_ bundleId: String?, _ environment: Environment) -> Bool {
        guard verifier.environments.contains(environment) else { return false }
        guard case .only(let apps) = verifier.apps else { return true }
        return apps.contains { $0.bundleId == bundleId }
    }

    /// Compares the app's shared secret, if it has one, in constant time.
    fileprivate func requireSecret(_ password: String?, of bundleId: String?) throws(VerifyReceiptStatus) {
        guard let secret = bundleId.flatMap({ apps[$0] })?.sharedSecret else { return }
        let given = SHA256.hash(data: Array((password ?? "").utf8))
        guard given == SHA256.hash(data: Array(secret.utf8)) else { throw .wrongSharedSecret }
    }
}
