// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import ReceiptCoding

/// Apple's verifyReceipt for one environment, answered from the receipt alone.
///
/// As with Apple's, any app's receipt is answered; the caller compares `bundle_id`.
struct VerifyReceiptEndpoint: Sendable {
    let environment: Environment

    private let verifier = AppStoreVerifier(apps: .any, environments: [.production, .sandbox])

    init(environment: Environment) {
        self.environment = environment
    }

    func answer(_ body: [UInt8], at now: Timestamp) async -> VerifyReceiptResponse {
        do {
            let request = try VerifyReceiptRequest(parsing: body)
            guard let receipt = Base64.decode((request.receiptData ?? "").utf8) else {
                throw VerifyReceiptStatus.malformedReceipt
            }
            return try await answer(receipt: receipt, at: now)
        } catch let status as VerifyReceiptStatus {
            return VerifyReceiptResponse(status: status)
        } catch {
            return VerifyReceiptResponse(status: .unauthenticReceipt)
        }
    }

    private func answer(receipt: [UInt8], at now: Timestamp) async throws -> VerifyReceiptResponse {
        do {
            return try answer(await verifier.verify(receipt: receipt, at: now), at: now)
        } catch let error as VerificationError where error.code == .malformed {
            // What is no receipt at all is malformed; what is wrong inside of one, the App Store did not make so.
            let isReceipt = (try? SignedReceipt(decoding: receipt)) != nil
            throw isReceipt ? VerifyReceiptStatus.unauthenticReceipt : .malformedReceipt
        } catch let error as VerificationError where error.code == .unreadable {
            // Authentic, so 21003 would be a lie; the fault is here.
            throw VerifyReceiptStatus.internalDataAccess
        }
    }

    private func answer(
        _ receipt: Verified<AppReceipt>, at now: Timestamp
    ) throws(VerifyReceiptStatus) -> VerifyReceiptResponse {
        guard receipt.environment == environment else {
            throw environment == .production ? .sandboxReceipt : .productionReceipt
        }
        return VerifyReceiptResponse(
            status: .valid, environment: environment, receipt: Receipt(receipt.payload, requestDate: now))
    }
}
