// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel

/// The JSON of a signature, with the names of StoreKit and of Apple's `PromotionalOfferSignatureV1`.
package enum SignatureBody: Encodable, Sendable {
    /// `{"compactJWS": …}`.
    case jws(String)
    /// A promotional offer's signature in the original form, with all signed values.
    case promotionalOfferV1(RealtimeResponseBody.PromotionalOfferSignatureV1)

    package func encode(to encoder: any Encoder) throws {
        switch self {
        case .jws(let token): try ["compactJWS": token].encode(to: encoder)
        case .promotionalOfferV1(let signature): try signature.encode(to: encoder)
        }
    }
}
