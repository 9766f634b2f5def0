// SPDX-License-Identifier: Apache-2.0

/// A JSON Web Signature in compact serialization (RFC 7515 section 3.1), decoded but not verified.
///
/// Do not rely on the payload until `AppStoreTrust` has verified the signature.
public struct JWS: Hashable, Sendable {
    /// The text `header.payload` exactly as received. The signature covers these bytes.
    public let signingInput: ArraySlice<UInt8>

    /// The whole token as received.
    public let text: [UInt8]

    /// The first part as received: base64url of the protected header.
    public let encodedHeader: ArraySlice<UInt8>

    /// The payload's bytes. The App Store signs only JSON objects.
    public let payload: [UInt8]

    /// The signature's bytes: for ES256, r and s of 32 bytes each (RFC 7518 section 3.4).
    public let signature: [UInt8]

    /// The members of the protected header that Apple uses.
    public struct Header: Hashable, Sendable {
        /// The signature algorithm. The App Store uses `ES256` only.
        public var alg: String

        /// The signer's certificates, leaf first (RFC 7515 section 4.1.6). Each certificate is standard base64 of DER.
        public var x5c: [String]

        /// The id of the signing key. The App Store has not sent this member since March 2022. Xcode sends
        /// `Apple_Xcode_Key`.
        public var kid: String?
    }
}

/// The reason why a text is not a compact JWS.
public struct JWSError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The fault, as a sentence.
    public var description: String
}

extension JWS {
    /// Decodes a compact JWS.
    ///
    /// - Throws: ``JWSError`` if the text is too long or does not have three parts, or if the payload or the signature
    ///   is not base64url.
    public init(_ text: some Collection<UInt8>) throws(JWSError) {
        guard text.count <= Limits.token else {
            throw JWSError(description: "Longer than \(Limits.token) bytes.")
        }
        let text = Array(text)
        // With more than two dots, the text between the first and the last dot contains a dot, and is not base64url.
        guard let first = text.indexOfFirst(Self.dot), let last = text.lastIndex(of: Self.dot), first != last,
            let payload = Base64.decodeURL(text[first + 1..<last]), !payload.isEmpty
        else { throw Self.error(in: text) }
        self.text = text
        encodedHeader = text[..<first]
        self.payload = payload
        signature = try Self.decode(text[(last + 1)...], "signature")
        signingInput = text[..<last]
    }

    private static let dot = UInt8(ascii: ".")

    private static func error(in text: [UInt8]) -> JWSError {
        let parts = text.count { $0 == dot } + 1
        return JWSError(
            description: parts == 3
                ? "The payload is not base64url."
                : "A compact JWS has three parts with dots between; this has \(parts).")
    }

    /// The protected header, decoded.
    ///
    /// - Throws: ``JWSError`` if the header is not base64url of JSON with an algorithm, has a duplicate member, demands
    ///   extensions (`crit`), or has an invalid or too long `x5c`.
    public func header() throws(JWSError) -> Header { try Header(base64URL: encodedHeader) }

    fileprivate static func decode(_ part: ArraySlice<UInt8>, _ name: String) throws(JWSError) -> [UInt8] {
        guard !part.isEmpty, let bytes = Base64.decodeURL(part) else {
            throw JWSError(description: "The \(name) is not base64url.")
        }
        return bytes
    }
}

extension JWS.Header {
    init(base64URL: ArraySlice<UInt8>) throws(JWSError) {
        let bytes = try JWS.decode(base64URL, "header")
        let json: JSONValue
        do {
            json = try JSONValue(parsing: bytes, atMost: Limits.tokenValues)
        } catch {
            throw JWSError(description: "The header is not JSON: \(error).")
        }
        // A duplicate is refused, because some parsers would use the first member and some the last (RFC 7515 section
        // 4).
        if let members = json.members, Set(members.map(\.name)).count < members.count {
            throw JWSError(description: "The header has a member twice.")
        }
        guard let alg = json["alg"]?.string else {
            throw JWSError(description: "The header names no algorithm (alg).")
        }
        guard json["crit"] == nil else {
            throw JWSError(description: "The header demands extensions (crit), which are not supported.")
        }
        self.alg = alg
        kid = json["kid"]?.string
        x5c = []
        guard let chain = json["x5c"] else { return }
        guard let elements = chain.array, elements.count <= Limits.certificates else {
            throw JWSError(description: "x5c is not an array of at most \(Limits.certificates) certificates.")
        }
        for element in elements {
            guard let certificate = element.string else {
                throw JWSError(description: "x5c has an element that is not a string.")
            }
            // Base64 encodes three bytes as four characters.
            guard certificate.utf8.count <= (Limits.certificate + 2) / 3 * 4 else {
                throw JWSError(description: "x5c holds a certificate of more than \(Limits.certificate) bytes.")
            }
            x5c.append(certificate)
        }
    }
}
