// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import Crypto
import Foundation
import Logging
import PurchaseLedger
import Testing

@testable import PurchaseServer

/// Tests that no description of a value that holds a secret shows the secret: a library may log any value.
@Suite struct HiddenSecretTests {
    private static let secret = "hunter2-hunter2-hunter2-hunter2-hunter2"

    private static var app: AppConfiguration {
        var app = AppConfiguration(AppIdentity(bundleId: "com.example"))
        app.sharedSecret = secret
        app.customerProof = CustomerProof(secret: secret)
        return app
    }

    private static func values() throws -> [(String, Any)] {
        let secrets = try WebhookSecrets(file: Array(secret.utf8))
        let key = P256.Signing.PrivateKey()
        let service = LedgerService(
            ledger: Ledger(storage: MemoryLedgerStorage()),
            verifier: AppStoreVerifier(apps: .any, environments: [.production]))
        var housekeeping = Housekeeping(
            ledger: service.ledger, now: { Timestamp(milliseconds: 0) }, clock: ContinuousClock(),
            logger: Logger(label: "test"))
        housekeeping.apps = ["com.example": app]
        var request = VerifyReceiptRequest()
        request.password = secret
        var notification = ResponseBodyV1()
        notification.password = secret
        return [
            ("an app", app), ("apps", ["com.example": app]), ("a proof", app.customerProof as Any),
            ("secrets", secrets), ("a secret", WebhookSecret(key: Array(secret.utf8))), ("a service", housekeeping),
            ("a key", try InAppPurchaseKey(id: "ABCDE12345", issuer: "issuer", pem: key.pemRepresentation)),
            ("a request", request), ("a notification", notification),
            ("a location", LedgerLocation("postgresql://me:\(secret)@db/ledger") as Any),
        ]
    }

    @Test func `no description, reflection or dump of a value shows its secret`() throws {
        // An array of bytes is printed as numbers.
        let numbers = Array(Self.secret.utf8).map { "\($0)" }.joined(separator: ", ")
        for (name, value) in try Self.values() {
            var dumped = ""
            dump(value, to: &dumped)
            let isLocation = name == "a location"
            for text in [String(describing: [value]), String(reflecting: [value])] + (isLocation ? [] : [dumped]) {
                #expect(!text.contains(Self.secret) && !text.contains(numbers), "\(name)")
            }
        }
        var random = SeededRandom(seed: 1)
        var dumped = ""
        dump(try StoreKey(using: &random), to: &dumped)
        #expect(dumped.contains("…") && !dumped.contains("PrivateKey"))
        #expect("\([Self.app])".contains("…"), "the app is described whole, but for its secrets")
    }
}
