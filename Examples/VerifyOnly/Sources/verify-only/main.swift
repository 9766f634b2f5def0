// SPDX-License-Identifier: Apache-2.0

// Verifies a signed transaction and records it in a ledger in memory:
// `swift run verify-only com.example.notes [ROOTS.pem] < transaction.jws`

import AppStoreModel
import AppStoreTrust
import Foundation
import PurchaseLedger

/// Prints one line to standard error and ends the program.
func stop(_ status: Int32, _ reason: String) -> Never {
    FileHandle.standardError.write(Data("\(reason)\n".utf8))
    exit(status)
}

let arguments = CommandLine.arguments.dropFirst()
guard let bundleId = arguments.first else { stop(2, "usage: verify-only BUNDLE-ID [ROOTS.pem] < TRANSACTION") }
let token = String(decoding: FileHandle.standardInput.readDataToEndOfFile(), as: UTF8.self)
let now = Timestamp(milliseconds: Int64(Date().timeIntervalSince1970 * 1000))

do {
    let roots = try arguments.dropFirst().first.map { try TrustRoots(reading: Data(contentsOf: URL(filePath: $0))) }
    let verifier = AppStoreVerifier(
        apps: .only([AppIdentity(bundleId: bundleId)]), environments: [.production, .sandbox], roots: roots ?? .apple)

    let transaction = try await verifier.verify(
        token.trimmingCharacters(in: .whitespacesAndNewlines).utf8, as: JWSTransactionDecodedPayload.self, at: now)
    print("verified: transaction \(transaction.payload.transactionId ?? "?") of \(transaction.environment.rawValue)")

    let ledger = Ledger(storage: MemoryLedgerStorage())
    let recorded = try await ledger.record([Evidence(transaction)].compactMap(\.self), at: now)
    print("recorded: \(recorded.new) new document")
} catch {
    stop(1, "refused: \(error)")
}
