// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel
public import AppStoreTrust
import Foundation
import ReceiptCoding

/// A form of signed documents. The fuzzer cannot sign, so a document is forged if it verifies and no seed has the same
/// signed bytes.
public enum SignedForm {
    case receipt
    case transactionReceipt
    case token

    /// The time at which documents without a date are verified.
    public static let now = Timestamp(milliseconds: 1_795_000_000_000)

    /// Trusts Apple and the simulated signers of the hostile suite, whose keys are destroyed.
    public static let verifier: AppStoreVerifier = {
        let trust = VectorFile.all.flatMap(\.trust.values)
        let roots = requireNoError("roots can be read") {
            try trust.flatMap(\.roots).map { try TrustRoots(reading: $0) }
        }
        let encodedIntermediates =
            trust.flatMap(\.intermediates)
            + Folder.files(Folder.genuine.appendingPathComponent("intermediates"))
            .map { Data($0.bytes) }
        let intermediates = requireNoError("intermediates can be read") {
            try encodedIntermediates.map { try Intermediates(reading: $0) }
        }
        var verifier = AppStoreVerifier(
            apps: .any, environments: Set(Environment.allCases),
            roots: roots.reduce(.apple) { $0.union($1) })
        verifier.intermediates = intermediates.reduce(Intermediates()) { $0.union($1) }
        // The verifier builds the reports of its checks only if there is a handler.
        verifier.onCheck = { check in require(!check.found.isEmpty, "a check says what it found") }
        return verifier
    }()

    /// The bytes that the signatures of the seeds cover.
    private static let signedReceipts = covered(.receipt)
    private static let signedTransactionReceipts = covered(.transactionReceipt)
    private static let signedTokens = covered(.token)

    private var signed: Set<[UInt8]> {
        switch self {
        case .receipt: Self.signedReceipts
        case .transactionReceipt: Self.signedTransactionReceipts
        case .token: Self.signedTokens
        }
    }

    private static func covered(_ form: SignedForm) -> Set<[UInt8]> {
        let covered = Set(form.documents.compactMap { form.coveredBytes(of: $0.bytes) })
        require(!covered.isEmpty, "there are seeds that verify")
        return covered
    }

    var documents: [(name: String, bytes: [UInt8])] {
        switch self {
        case .receipt: VectorFile.documents(["receipt"]) + Folder.genuine("receipts")
        case .transactionReceipt:
            VectorFile.documents(["transactionReceipt"]) + Folder.genuine("transaction-receipts")
        case .token: VectorFile.documents(["token", "notification"]) + Folder.genuine("jws")
        }
    }

    /// Requires that `document` is refused, or that its signed bytes are those of a seed.
    public func requireNoForgery(_ document: [UInt8]) {
        // Looked up first: if no seed verifies, the requirement below would mean nothing.
        let signed = signed
        guard let bytes = coveredBytes(of: document) else { return }
        require(signed.contains(bytes), "only signed bytes verify")
    }

    /// The bytes of a verified document that the signature covers; `nil` if the document is refused.
    private func coveredBytes(of document: [UInt8]) -> [UInt8]? {
        let (verifier, now) = (Self.verifier, Self.now)
        switch self {
        case .receipt:
            guard synchronously({ (try? await verifier.verify(receipt: document, at: now)) != nil }) else { return nil }
            return requireNoError("a verified receipt decodes") { Array(try SignedReceipt(decoding: document).payload) }
        case .transactionReceipt:
            let verified = synchronously { try? await verifier.verify(transactionReceipt: document, at: now) }
            return verified.map { ($0.receipt.signatureBlob ?? []).prefix(1) + $0.receipt.purchaseInfo }
        case .token:
            guard synchronously({ (try? await verifier.verify(jws: document, at: now)) != nil }) else { return nil }
            // This also runs the checks of notifications. It refuses more than the verification above.
            _ = synchronously { try? await verifier.verify(notification: document, at: now) }
            return requireNoError("a verified token is a JWS") { Array(try JWS(document).signingInput) }
        }
    }
}
