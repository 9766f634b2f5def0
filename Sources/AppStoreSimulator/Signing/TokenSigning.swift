// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel
import Foundation

/// The plan of a compact JWS. Tests can make any part invalid.
package struct TokenPlan: Sendable {
    /// `alg` of the header.
    package var algorithm = "ES256"
    /// `x5c`: leaf, intermediate, root, each as DER.
    package var chain: [[UInt8]]
    /// The header as JSON; if `nil`, the header consists of `headerMembers`, `algorithm` and `chain`.
    package var header: String?
    /// JSON members to insert before the header's own, each followed by a comma.
    package var headerMembers = ""
    package var payload: [UInt8]
    package var key: SigningKey
    /// Changes the valid signature before it is inserted; for invalid tokens.
    package var signature: @Sendable ([UInt8]) throws -> [UInt8] = { $0 }
    /// Changes the finished token.
    package var text: @Sendable (String) throws -> String = { $0 }

    package init(_ payload: String, by signer: ChainPlan) throws {
        self.init(Array(payload.utf8), by: try SigningChain(signer))
    }

    /// A token with the certificates of an issued chain.
    package init(_ payload: [UInt8], by signer: SigningChain) {
        self.payload = payload
        chain = signer.certificates
        key = signer.key
    }

    /// Signs the token in the App Store's form, with all planned faults.
    package func signed() throws -> String {
        let input = "\(Self.base64URL(Array((header ?? plainHeader).utf8))).\(Self.base64URL(payload))"
        let signature = try signature(key.es256(Array(input.utf8)))
        return try text("\(input).\(Self.base64URL(signature))")
    }

    /// The header of `headerMembers`, `algorithm` and `chain`.
    package var plainHeader: String {
        let x5c = chain.map { #""\#(Data($0).base64EncodedString())""# }.joined(separator: ",")
        return #"{\#(headerMembers)"alg":"\#(algorithm)","x5c":[\#(x5c)]}"#
    }

    package static func base64URL(_ bytes: [UInt8]) -> String {
        String(decoding: Base64.encodeURL(bytes[...]), as: UTF8.self)
    }
}

extension CertificateAuthority {
    /// Signs a payload as the App Store does: a compact JWS with ES256 and the chain in `x5c`.
    ///
    /// - Throws: The error of encoding the payload.
    public func sign(_ payload: some Encodable & SignedPayload) throws -> String {
        try TokenPlan(JSONValue(encoding: payload).compactText, by: tokens).signed()
    }
}
