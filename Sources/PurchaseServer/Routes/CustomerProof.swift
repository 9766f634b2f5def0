// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel
import Crypto
import HTTPTypes
import PurchaseLedger

/// Checks customer tokens. A token proves that a request with a client key (the API key in the app itself, which can be
/// extracted) comes from the customer that the request names.
///
/// A customer token is a JSON Web Token (RFC 7519). The app's backend creates the token for a signed-in customer, with
/// the customer's id as `sub` and the token's expiry as `exp`. `docs/customer-proof.md` shows how to create a token.
public struct CustomerProof: Sendable {
    /// The maximum length of a token in bytes. The limit leaves room for a long header, and for the longest customer id
    /// even if escapes and base64 make it four times as long.
    static let tokenLimit = 4096

    /// The longest time until a token expires. A token can be copied from a device. Because there is no list of revoked
    /// tokens, only the expiry ends its use.
    package static let maxLifetime = Duration.seconds(86_400)

    /// The tolerated lead of the backend's clock over the server's clock (RFC 7519 sections 4.1.4 and 4.1.5).
    static let clockLeeway = Duration.seconds(60)

    /// The minimum length of a secret in bytes: the length of the digest (RFC 7518 section 3.2).
    package static let minSecretBytes = 32

    private enum Key: Sendable {
        /// HS256 (RFC 7518 section 3.2).
        case secret(SymmetricKey)
        /// EdDSA with Ed25519 (RFC 8037 section 3.1).
        case publicKey(Curve25519.Signing.PublicKey)
    }

    @Hidden private var key: Key

    /// Whether the configuration has a secret, and not a public key.
    package var hasSecret: Bool { if case .secret = key { true } else { false } }

    /// Checks tokens with an HMAC-SHA-256 (`HS256`).
    ///
    /// - Parameter secret: The key, as UTF-8.
    /// - Returns: `nil` if the secret is shorter than `minSecretBytes`.
    public init?(secret: String) {
        guard secret.utf8.count >= Self.minSecretBytes else { return nil }
        key = .secret(SymmetricKey(data: Array(secret.utf8)))
    }

    /// Checks tokens with an Ed25519 signature (`EdDSA`).
    ///
    /// - Parameter publicKey: The text of a PEM file from OpenSSL, or its base64 alone.
    /// - Returns: `nil` if the text has neither form.
    public init?(publicKey: String) {
        let base64 = publicKey.split(whereSeparator: \.isNewline).filter { !$0.hasPrefix("-----") }.joined()
        guard let der = Base64.decode(base64.utf8), der.starts(with: Self.ed25519),
            // The initializer fails only for a wrong length.
            let key = try? Curve25519.Signing.PublicKey(rawRepresentation: der.dropFirst(Self.ed25519.count))
        else { return nil }
        self.key = .publicKey(key)
    }

    /// The prefix of a SubjectPublicKeyInfo, before the 32 bytes of the key (RFC 8410 section 4).
    private static let ed25519: [UInt8] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00]

    /// The algorithm of the tokens. The configuration fixes the algorithm, so a token cannot choose a different
    /// algorithm.
    private var algorithm: String {
        switch key {
        case .secret: "HS256"
        case .publicKey: "EdDSA"
        }
    }
}

extension CustomerProof: CustomStringConvertible {
    /// The algorithm, without the key.
    public var description: String { "customer proof by \(algorithm)" }
}

// MARK: - Creating tokens

extension CustomerProof {
    /// Creates a token for a customer, as the app's backend does.
    ///
    /// - Returns: `nil` if only the public key is configured.
    public func token(for customer: String, expires: Timestamp) -> String? {
        guard case .secret(let secret) = key else { return nil }
        let header = JSONValue.object([.init("alg", .string(algorithm)), .init("typ", .string("JWT"))])
        let claims = JSONValue.object([
            .init("sub", .string(customer)), .init("exp", .number("\(expires.milliseconds / 1000)")),
        ])
        let parts = [header, claims].map { Base64.encodeURL(Array($0.compactText.utf8)[...]) }
        let input = Array(parts.joined(separator: [Self.dot]))
        let code = HMAC<SHA256>.authenticationCode(for: input, using: secret)
        return String(decoding: input + [Self.dot] + Base64.encodeURL(Array(code)[...]), as: UTF8.self)
    }

    private static let dot = UInt8(ascii: ".")
}

// MARK: - Checking tokens

extension CustomerProof {
    /// Checks that a request about a customer has a valid token for that customer.
    ///
    /// - Parameter token: The client's token; `nil` if the request has no token.
    /// - Throws: ``Refusal``: 401 if the token is missing or not valid, 403 if the token is for another customer.
    func check(
        _ token: String?, for customer: String, of bundleId: String, at now: Timestamp
    ) throws(Refusal) {
        guard let token else {
            throw .customerToken(.customerTokenRequired, "This app's client keys need the token.")
        }
        let subject = try subject(of: token, for: bundleId, at: now)
        // Compared byte by byte, as storages compare ids. Swift's == also accepts canonically equivalent strings.
        guard subject.normalizedCustomerID.utf8.elementsEqual(customer.normalizedCustomerID.utf8) else {
            throw .otherCustomer
        }
    }

    /// The customer in a valid token.
    private func subject(of token: String, for bundleId: String, at now: Timestamp) throws(Refusal) -> String {
        let claims = try claims(of: token)
        guard let subject = claims["sub"]?.string, TextForm.customerID.allows(subject) else {
            throw .invalidToken("sub is not a customer's id. \(TextForm.customerID.rule)")
        }
        guard let end = claims["exp"]?.numericDate else { throw .invalidToken("exp is not in seconds since 1970.") }
        guard now < end else { throw .invalidToken("It has expired.") }
        guard end <= now.advanced(by: Self.maxLifetime + Self.clockLeeway) else {
            throw .invalidToken("exp is more than 24 hours from now.")
        }
        try requireStarted(claims, at: now)
        // A token for another audience must be refused (RFC 7519 section 4.1.3).
        if let audience = claims["aud"] {
            guard (audience.array ?? [audience]).contains(.string(bundleId)) else {
                throw .invalidToken("aud is not the bundle id.")
            }
        }
        return subject
    }

    private func requireStarted(_ claims: JSONValue, at now: Timestamp) throws(Refusal) {
        guard let claim = claims["nbf"] else { return }
        guard let start = claim.numericDate else { throw .invalidToken("nbf is not in seconds since 1970.") }
        guard start <= now.advanced(by: Self.clockLeeway) else {
            throw .invalidToken("The token is not valid yet (nbf).")
        }
    }

    /// The claims of a token with a valid signature.
    private func claims(of token: String) throws(Refusal) -> JSONValue {
        guard token.utf8.count <= Self.tokenLimit else {
            throw .invalidToken("The token is longer than \(Self.tokenLimit) bytes.")
        }
        let (jws, header): (JWS, JWS.Header)
        do {
            jws = try JWS(token.utf8)
            header = try jws.header()
        } catch {
            throw .invalidToken("The text is not a JSON Web Token: \(error.description)")
        }
        guard header.alg == algorithm else { throw .invalidToken("Its alg is not \(algorithm).") }
        guard isValid(jws.signature, of: jws.signingInput) else { throw .invalidToken("Its signature is not valid.") }
        guard let claims = JSONValue(readable: jws.payload), let members = claims.members,
            // Parsers differ about which of two members with the same name counts (RFC 7519 section 4).
            Set(members.map(\.name)).count == members.count
        else { throw .invalidToken("Its payload is not a JSON object with distinct members.") }
        return claims
    }

    private func isValid(_ signature: [UInt8], of input: ArraySlice<UInt8>) -> Bool {
        switch key {
        case .secret(let secret):
            // Compares in constant time.
            HMAC<SHA256>.isValidAuthenticationCode(signature, authenticating: Array(input), using: secret)
        case .publicKey(let key): key.isValidSignature(signature, for: Array(input))
        }
    }
}

extension JSONValue {
    /// A time in seconds since 1970 (RFC 7519 section 2). The fraction that some libraries write is ignored. `nil` if
    /// this value is not a time, or is too large for a ``Timestamp``.
    fileprivate var numericDate: Timestamp? {
        guard case .number(let literal) = self else { return nil }
        let parts = literal.split(separator: ".", omittingEmptySubsequences: false)
        guard let seconds = parts.first.flatMap({ Int64($0) }),
            // Exponents are not supported, since no library writes them.
            parts.dropFirst().allSatisfy({ Int64($0) != nil })
        else { return nil }
        let milliseconds = seconds.multipliedReportingOverflow(by: 1000)
        return milliseconds.overflow ? nil : Timestamp(milliseconds: milliseconds.partialValue)
    }
}

extension Refusal {
    /// The header field with the token.
    static let tokenHeader = "Quittance-Customer-Token"

    fileprivate static func customerToken(_ code: ErrorCode, _ message: String) -> Refusal {
        Refusal(
            code,
            "Send a token for the customer, created by your backend, as \(tokenHeader). \(message)",
            headers: [.wwwAuthenticate: bearer("invalid_token", code.rawValue)])
    }

    fileprivate static func invalidToken(_ reason: String) -> Refusal {
        customerToken(.customerTokenInvalid, "The token that was sent is not valid: \(reason)")
    }

    fileprivate static let otherCustomer = Refusal(
        .otherCustomer, "The token in \(tokenHeader) is for a different customer.")
}
