// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import Benchmark
import Foundation
import Goals
import ReceiptCoding

/// The instant at which everything here is signed and verified.
let now = Timestamp(milliseconds: 1_750_000_000_000)

let benchmarks: @Sendable () -> Void = {
    Goal.token.measure {
        let store = try SimulatedStore()
        let (token, verifier) = (try store.transaction(), store.verifier)
        let raw = try RawToken(token)
        return Pair {
            _ = try await verifier.verify(token, as: JWSTransactionDecodedPayload.self, at: now)
        } raw: {
            try raw.check()
        }
    }
    Goal.newToken.measure {
        let store = try SimulatedStore()
        let (token, roots) = (try store.transaction(), store.verifier.roots)
        let raw = try RawToken(token)
        return Pair {
            // A new verifier has no signer in its cache.
            let verifier = AppStoreVerifier(apps: .any, environments: [.production], roots: roots)
            _ = try await verifier.verify(token, as: JWSTransactionDecodedPayload.self, at: now)
        } raw: {
            try raw.check()
            try raw.checkChain()
        }
    }
    Goal.notification.measure {
        let store = try SimulatedStore()
        let (notification, verifier) = (try store.notification(), store.verifier)
        let raw = try [notification, store.transaction(), store.renewalInfo()].map { try RawToken($0) }
        return Pair(units: raw.count) {
            _ = try await verifier.verify(notification: notification, at: now)
        } raw: {
            for token in raw { try token.check() }
        }
    }
    Goal.threads.measure {
        let store = try SimulatedStore()
        let (token, verifier) = (try store.transaction(), store.verifier)
        let raw = try RawToken(token)
        return Pair {
            _ = try await verifier.verify(token, as: JWSTransactionDecodedPayload.self, at: now)
        } raw: {
            try raw.check()
        }
    }
    genuineReceipts()
}

/// Receipts of the App Store, which are not part of the project.
private func genuineReceipts() {
    guard let small = GenuineReceipt("sandbox-2025-sha256-2-purchases"),
        let large = GenuineReceipt("sandbox-2020-sha1-187-purchases")
    else {
        FileHandle.standardError.write(
            Data("No receipts in ../shared/data: what is measured with them is left out.\n".utf8))
        return
    }
    Goal.receipt.measure { try small.verification() }
    Goal.largeReceipt.measure { try large.verification() }
    Goal.answer.measure { try large.answer() }
}

struct GenuineReceipt: Sendable {
    private let base64: String
    private let bytes: [UInt8]
    private let verifier = AppStoreVerifier(apps: .any, environments: [.sandbox])

    init?(_ name: String) {
        let project = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        let file = project.appendingPathComponent("../shared/data/receipts/\(name).b64")
        guard let text = try? String(contentsOf: file, encoding: .utf8), let data = Data(base64Encoded: text) else {
            return nil
        }
        base64 = text
        bytes = Array(data)
    }

    func verification() throws -> Pair {
        let (verifier, bytes, raw) = (verifier, bytes, try RawReceipt(bytes))
        return Pair {
            _ = try await verifier.verify(receipt: bytes, at: now)
        } raw: {
            try raw.check()
        }
    }

    /// Everything that a server does between the last byte of the request and the first of the answer.
    func answer() throws -> Pair {
        let (verifier, raw) = (verifier, try RawReceipt(bytes))
        let request = Array(#"{"receipt-data":"\#(base64)","password":"0123456789abcdef"}"#.utf8)
        return Pair {
            guard let receipt = try VerifyReceiptRequest(parsing: request).receipt else { throw InvalidSignature() }
            let verified = try await verifier.verify(receipt: receipt, at: now)
            let answer = VerifyReceiptResponse(
                status: .valid, environment: .sandbox, receipt: Receipt(verified.payload, requestDate: now))
            blackHole(answer.json)
        } raw: {
            try raw.check()
        }
    }
}
