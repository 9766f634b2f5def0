// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// The reason for a 401 of a simulated App Store. Apple's response has no body, so only the simulator's log shows the
/// reason.
public enum TokenRefusal: String, CaseIterable, Sendable {
    case missing = "There is no header 'Authorization: Bearer …'"
    case malformed = "The bearer token is not a JWT"
    case algorithm = "The token's algorithm (alg) is not ES256"
    case keyId = "The token's key id (kid) is not the API key's"
    case signature = "The API key did not sign the token"
    case issuer = "The token's issuer (iss) is not the API key's"
    case audience = "The token's audience (aud) is not appstoreconnect-v1"
    case app = "The token's app (bid) is not the app's bundle id"
    case noExpiry = "The token has no time of expiry in seconds (exp)"
    case expired = "The token is expired (exp)"
    case issuedLater = "The token is issued in the future, or its time of issue is no number (iat)"
    case notYetValid = "The token is not valid yet, or its first time is no number (nbf)"
    case tooLong = "The token is valid for more than 3,600 seconds (exp)"
}

extension StoreKey {
    /// The longest validity of a token that Apple permits: an hour.
    private static let maxSeconds = 3600.0
    /// The tolerated difference between the clocks of client and simulator. Apple's figure is not published.
    private static let clockTolerance = 60.0

    /// The reason why a request is refused; `nil` if its token is valid.
    ///
    /// - Parameters:
    ///   - header: The header `Authorization`.
    ///   - bundleId: The app's bundle identifier.
    ///   - now: The wall clock's time. The times in the token are compared with it.
    func refusal(ofAuthorization header: String?, app bundleId: String, at now: Timestamp) -> TokenRefusal? {
        guard let header, header.prefix(7).lowercased() == "bearer " else { return .missing }
        // Any error in the form of a token has the same reason: malformed.
        guard let token = try? JWS(header.dropFirst(7).utf8), let head = try? token.header(),
            let claims = JSONValue(readable: token.payload)
        else { return .malformed }
        if head.alg != "ES256" { return .algorithm }
        if head.kid != id { return .keyId }
        if !signed(token) { return .signature }
        if claims["iss"]?.string != issuer { return .issuer }
        if claims["aud"]?.string != "appstoreconnect-v1" { return .audience }
        if claims["bid"]?.string != bundleId { return .app }
        return Self.refusal(ofTimes: claims, at: Double(now.milliseconds) / 1000)
    }

    private static func refusal(ofTimes claims: JSONValue, at now: Double) -> TokenRefusal? {
        guard let expiry = claims["exp"]?.seconds else { return .noExpiry }
        if expiry <= now { return .expired }
        let issued = claims["iat"]?.seconds
        if claims["iat"] != nil, issued ?? .infinity > now + clockTolerance { return .issuedLater }
        if let start = claims["nbf"], start.seconds ?? .infinity > now + clockTolerance { return .notYetValid }
        return expiry > (issued ?? now) + maxSeconds ? .tooLong : nil
    }
}

extension JSONValue {
    /// A NumericDate (RFC 7519 section 2), which may have a fraction.
    fileprivate var seconds: Double? {
        guard case .number(let literal) = self else { return nil }
        return Double(literal)
    }
}
