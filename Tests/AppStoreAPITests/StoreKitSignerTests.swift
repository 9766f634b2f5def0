// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import AppStoreSimulator
import Crypto
import Testing

/// Offers and their eligibility, and what is refused. `Tests/SimulatorClients/signatures.py` judges the same
/// signatures without any code of ours.
@Suite struct StoreKitSignerTests {
    static let nonce = "5b1f8f0e-0c0f-4f0e-8a57-2c8f4c9d1e01"
    static let account = "0d6e5c0a-6a52-4a0b-9d4b-0f1f4e3a9b11"
    static let now = Timestamp(milliseconds: 1_700_000_000_123)
    private static let pem = P256.Signing.PrivateKey().pemRepresentation
    static let offer = PromotionalOffer(productId: "com.example.pro", offerIdentifier: "stay3")

    static func signer(bundleId: String = "com.example", issuer: String = "issuer") throws -> StoreKitSigner {
        StoreKitSigner(key: try InAppPurchaseKey(id: "ABCDEF1234", issuer: issuer, pem: pem), bundleId: bundleId)
    }

    private static func claims(_ token: String) throws -> JSONValue { try JSONValue(parsing: JWS(token.utf8).payload) }

    /// The code and the member of the error, such as `invalid nonce`.
    static func refusal(_ body: () throws -> Void) -> String? {
        do {
            try body()
            return nil
        } catch let error as SigningError {
            return "\(error.code.rawValue) \(error.member ?? "")"
        } catch {
            return "\(error)"
        }
    }

    @Test func `each token has the claims of its kind and no others`() throws {
        let signer = try Self.signer()
        let common = #""iss":"issuer","iat":1700000000,"bid":"com.example","aud":"#
        let nonce = #","nonce":"\#(Self.nonce)","#
        #expect(
            try Self.claims(
                signer.promotionalOffer(Self.offer, transactionId: "42", nonce: Self.nonce, at: Self.now)
            ).compactText == "{" + common + #""promotional-offer""# + nonce
                + #""productId":"com.example.pro","offerIdentifier":"stay3","transactionId":"42"}"#)
        #expect(
            try Self.claims(
                signer.promotionalOffer(Self.offer, transactionId: nil, nonce: Self.nonce, at: Self.now)
            )["transactionId"] == nil)
        #expect(
            try Self.claims(
                signer.introductoryOffer(
                    of: "com.example.pro", isAllowed: false, transactionId: "42", nonce: Self.nonce, at: Self.now)
            ).compactText == "{" + common + #""introductory-offer-eligibility""# + nonce
                + #""productId":"com.example.pro","allowIntroductoryOffer":false,"transactionId":"42"}"#)
    }

    @Test(arguments: [account, nil])
    func `a signature of version 1 is over seven texts, and an absent account is an empty one`(
        account: String?
    ) throws {
        let signed = try Self.signer().promotionalOfferV1(
            Self.offer, appAccountToken: account, nonce: Self.nonce, at: Self.now)
        let text = [
            "com.example", "ABCDEF1234", "com.example.pro", "stay3", account ?? "", Self.nonce, "1700000000123",
        ].joined(separator: "\u{2063}")
        let key = try P256.Signing.PrivateKey(pemRepresentation: Self.pem).publicKey
        let encoded = try #require(signed.encodedSignature)
        let der = try #require(Base64.decode(encoded.utf8))
        let signature = try P256.Signing.ECDSASignature(derRepresentation: der)
        #expect(key.isValidSignature(signature, for: Array(text.utf8)))
        #expect(signed.appAccountToken == account)
        #expect(signed.timestamp == Self.now && signed.keyId == "ABCDEF1234" && signed.nonce == Self.nonce)
    }

    @Test(
        arguments: [
            ("", "stay3", nonce, nil, "missing productId"), ("p", "", nonce, nil, "missing offerIdentifier"),
            ("p", "s", "", nil, "missing nonce"), ("p", "s", "1", nil, "invalid nonce"),
            ("p", "s", nonce.uppercased(), nil, "invalid nonce"), ("p", "s", nonce, "", "missing appAccountToken"),
            ("p", "s", nonce, account.uppercased(), "invalid appAccountToken"),
            ("p", "s", nonce, "Anna", "invalid appAccountToken"),
            // The same bytes as the offer “x” of the product “p” with the account “y”.
            ("p\u{2063}x", "y", nonce, nil, "invalid productId"),
            ("p", "x\u{2063}y", nonce, nil, "invalid offerIdentifier"),
            ("p", "x", nonce, "a\u{2063}b", "invalid appAccountToken"), ("p", "s", nonce, "anna", nil),
        ] as [(String, String, String, String?, String?)])
    func `version 1 refuses what the App Store would, and texts that could be split otherwise`(
        product: String, offer: String, nonce: String, account: String?, refusal: String?
    ) throws {
        let signer = try Self.signer()
        let found = Self.refusal {
            _ = try signer.promotionalOfferV1(
                PromotionalOffer(productId: product, offerIdentifier: offer), appAccountToken: account, nonce: nonce,
                at: Self.now)
        }
        #expect(found == refusal)
    }

    @Test func `tokens refuse missing members, and a nonce that is no UUID`() throws {
        let signer = try Self.signer()
        func offer(_ signer: StoreKitSigner, _ product: String, _ transaction: String?, _ nonce: String) -> String? {
            Self.refusal {
                _ = try signer.promotionalOffer(
                    PromotionalOffer(productId: product, offerIdentifier: "stay3"), transactionId: transaction,
                    nonce: nonce, at: Self.now)
            }
        }
        #expect(offer(signer, "p", "1", Self.nonce) == nil)
        #expect(offer(signer, "", "1", Self.nonce) == "missing productId")
        #expect(offer(signer, "p", "", Self.nonce) == "missing transactionId")
        #expect(offer(signer, "p", "1", "x") == "invalid nonce")
        #expect(offer(try Self.signer(bundleId: ""), "p", "1", Self.nonce) == "missing bundleId")
        #expect(offer(try Self.signer(issuer: ""), "p", "1", Self.nonce) == "missing issuerId")
        let refusal = Self.refusal {
            _ = try signer.introductoryOffer(
                of: "p", isAllowed: true, transactionId: "", nonce: Self.nonce, at: Self.now)
        }
        #expect(refusal == "missing transactionId")
    }
}

/// The answer to a real-time request.
@Suite struct RetentionAnswerTests {
    private static let message = "0d6e5c0a-6a52-4a0b-9d4b-0f1f4e3a9b11"

    private static func body(_ answer: RetentionAnswer, signer: StoreKitSigner? = nil) throws -> JSONValue {
        try JSONValue(
            encoding: answer.body(
                signedBy: signer, for: "42", nonce: StoreKitSignerTests.nonce, at: StoreKitSignerTests.now))
    }

    @Test func `each kind of answer is exactly one member`() throws {
        let signer = try StoreKitSignerTests.signer()
        #expect(
            try Self.body(.message(Self.message)).compactText
                == #"{"message":{"messageIdentifier":"\#(Self.message)"}}"#)
        #expect(
            try Self.body(
                .alternateProduct(message: Self.message, productId: "p", billingPlanType: Open(.monthly))
            ).compactText
                == #"{"alternateProduct":{"messageIdentifier":"\#(Self.message)","productId":"p","billingPlanType":"MONTHLY"}}"#
        )
        let offer = try Self.body(.promotionalOffer(message: Self.message, StoreKitSignerTests.offer), signer: signer)
        #expect(offer.members?.map(\.name) == ["promotionalOffer"])
        #expect(
            offer["promotionalOffer"]?.members?.map(\.name) == ["messageIdentifier", "promotionalOfferSignatureV2"])
        let token = try JWS(try #require(offer["promotionalOffer"]?["promotionalOfferSignatureV2"]?.string).utf8)
        #expect(try JSONValue(parsing: token.payload)["transactionId"]?.string == "42")
    }

    @Test func `a change of an Advanced Commerce subscription is wrapped as StoreKit takes it, and has one item`()
        throws
    {
        let signer = try StoreKitSignerTests.signer()
        var change = AdvancedCommerceSubscriptionModifyInAppRequest(
            requestInfo: .init(requestReferenceId: Self.message), transactionId: "42", retainBillingCycle: true)
        let item = AdvancedCommerceSubscriptionModifyChangeItem(
            currentSKU: "a", SKU: "b", description: "d", displayName: "n", effective: Open(.nextBillCycle), price: 990,
            reason: Open(.downgrade))
        change.changeItems = [item]
        let body = try Self.body(.advancedCommerce(message: Self.message, change), signer: signer)
        let data = try #require(body["advancedCommerceInfo"]?["advancedCommerceData"]?.string)
        let json = try JSONValue(parsing: try #require(Base64.decode(data.utf8)))
        let token = try JWS(try #require(json["signatureInfo"]?["token"]?.string).utf8)
        #expect(try JSONValue(parsing: token.payload)["aud"]?.string == "advanced-commerce-api")
        change.changeItems = [item, item]
        #expect(
            StoreKitSignerTests.refusal {
                _ = try Self.body(.advancedCommerce(message: Self.message, change), signer: signer)
            } == "invalid changeItems")
    }

    @Test(arguments: [
        (RetentionAnswer.message("x"), "invalid messageIdentifier"), (.message(""), "missing messageIdentifier"),
        (.alternateProduct(message: message, productId: "", billingPlanType: nil), "missing productId"),
        (.promotionalOffer(message: message, StoreKitSignerTests.offer), "unsigned "),
    ])
    func `an answer without an identifier, or without the key that it needs, is refused`(
        answer: RetentionAnswer, refusal: String
    ) {
        #expect(StoreKitSignerTests.refusal { _ = try Self.body(answer) } == refusal)
    }
}
