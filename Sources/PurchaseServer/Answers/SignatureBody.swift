// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel

/// The JSON of a signature, with the names of StoreKit and of Apple's `PromotionalOfferSignatureV1`.
package enum SignatureBody: Encodable, Sendable {
    /// `{"compactJWS": …}`.
    case jws(String)
    /// A promotional offer's signature in the original form, with all that was signed.
    case promotionalOfferV1(RealtimeResponseBody.PromotionalOfferSignatureV1)

    private enum CodingKeys: String, CodingKey {
        case compactJWS
    }

    package func encode(to encoder: any Encoder) throws {
        switch self {
        case .jws(let token):
            var container = encoder.container(keyedBy: CodingKeys.self)
            try container.encode(token, forKey: .compactJWS)
        case .promotionalOfferV1(let signature): try signature.encode(to: encoder)
        }
    }
}
