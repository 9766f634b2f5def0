// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import Foundation
import ReceiptCoding

/// The worst input of one kind.
struct Case: Sendable {
    let name: String
    /// The input at its full size, and a small one of the same kind for warming up.
    let large: @Sendable () throws -> [UInt8]
    let small: @Sendable () throws -> [UInt8]
    /// Verifies an input, reads all of it, and returns the outcome.
    let verify: @Sendable ([UInt8]) async -> String

    /// - Parameter make: Makes an input of about the given number of bytes, or of the largest size allowed.
    init(
        _ name: String, _ verify: @escaping @Sendable ([UInt8]) async throws -> String,
        _ make: @escaping @Sendable (Int) throws -> [UInt8]
    ) {
        self.name = name
        large = { try make(.max) }
        small = { try make(2_000) }
        self.verify = { input in
            do {
                return try await verify(input)
            } catch let error as VerificationError {
                return "refused: \(error.code.rawValue)"
            } catch {
                return "refused: \(error)"
            }
        }
    }

    static var all: [Case] {
        get throws {
            let store = try Store()
            return store.receipts + store.tokens + store.others
        }
    }
}

/// An App Store that signs any document, and a verifier that trusts it. The cases are documents at the bounds, which a
/// simulated world does not lead to, with certificates that are in no cache.
struct Store: Sendable {
    static let now = Timestamp(milliseconds: 1_750_000_000_000)
    let authority: CertificateAuthority
    private let roots: TrustRoots
    private let intermediates: Intermediates

    init() throws {
        authority = try CertificateAuthority(from: Timestamp(milliseconds: Self.now.milliseconds - 86_400_000))
        let roots = try authority.roots.map { try TrustRoots(reading: $0) }
        self.roots = roots[0].union(roots[1])
        intermediates = try authority.intermediates.map { try Intermediates(reading: $0) }
            .reduce(Intermediates()) { $0.union($1) }
    }

    /// A new verifier. It has no cached signer, so each document costs as much as possible. It accepts the simulator's old
    /// receipts, which say Sandbox.
    var verifier: AppStoreVerifier {
        var verifier = AppStoreVerifier(apps: .any, environments: [.production, .sandbox], roots: roots)
        verifier.intermediates = intermediates
        return verifier
    }

    /// Verifies a receipt and writes its verifyReceipt answer.
    func verify(receipt: [UInt8]) async throws -> String {
        let receipt = try await verifier.verify(receipt: receipt, at: Self.now).payload
        let answer = VerifyReceiptResponse(
            status: .valid, environment: .production, receipt: Receipt(receipt, requestDate: Self.now))
        return "accepted, answer of \(answer.json.count) bytes"
    }

    /// Verifies a token and reads all of it.
    func verify<Payload: SignedPayload>(token: [UInt8], as type: Payload.Type) async throws -> String {
        _ = try await verifier.verify(token, as: type, at: Self.now)
        return "accepted"
    }

    func verify(notification: [UInt8]) async throws -> String {
        _ = try await verifier.verify(notification: notification, at: Self.now)
        return "accepted"
    }

    /// Finds the receipt of a version 1 notification and verifies it, as the server does.
    func verify(notificationV1: [UInt8]) async throws -> String {
        guard let receipt = ResponseBodyV1.latestReceipt(in: notificationV1) else { return "refused: no receipt" }
        return try await verify(receipt: receipt)
    }

    func verify(transactionReceipt: [UInt8]) async throws -> String {
        _ = try await verifier.verify(transactionReceipt: transactionReceipt, at: Self.now)
        return "accepted"
    }

    func verify(request: [UInt8]) async throws -> String {
        guard let receipt = try VerifyReceiptRequest(parsing: request).receipt else { return "refused: no base64" }
        return try await verify(receipt: receipt)
    }
}
