// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel

/// The status of a certificate in a valid OCSP response, and the period in which the answer may be used.
package struct OCSPAnswer: Hashable, Sendable {
    /// `good` or `revoked`.
    package let status: RevocationStatus
    /// The answer is valid in `from..<until`.
    let from: Timestamp
    package let until: Timestamp
    /// From this time on, the checker requests the next answer. Meanwhile it still uses this one.
    package let renewal: Timestamp

    func isCurrent(at now: Timestamp) -> Bool { from <= now && now < until }
}

extension OCSPAnswer {
    /// How far a responder's clock may be ahead of the local clock, in milliseconds: five minutes, as in OpenSSL. There
    /// is no tolerance past `nextUpdate`, because a tolerance would save only one request.
    private static let clockSkew: Int64 = 5 * 60 * 1000

    /// How long an answer without `nextUpdate` is valid, in milliseconds from its `thisUpdate`: an hour. Without
    /// `nextUpdate`, the responder always has newer information (RFC 6960 section 4.2.2.1), but one request for each
    /// document would be too many.
    private static let undatedLife: Int64 = 60 * 60 * 1000

    /// A week, in milliseconds. A good answer may be at most this old when it arrives, and is used for at most this
    /// long afterwards. Revocations must be noticed even if a responder's answers claim to be valid for years.
    private static let maxLife: Int64 = 7 * 24 * 60 * 60 * 1000

    /// Reads the answer from a statement in a response with a valid signature.
    ///
    /// - Throws: An ``OCSPFault`` if the responder does not know the certificate, or the statement is not valid at
    ///   `now`.
    init(_ statement: OCSPResponse.Statement, at now: Timestamp) throws(OCSPFault) {
        status = try statement.status.known
        // No sum below overflows: the dates of a response end with the year 9999, and the guards bound `now` by them.
        from = Timestamp(milliseconds: statement.thisUpdate.milliseconds - Self.clockSkew)
        let end =
            statement.nextUpdate ?? Timestamp(milliseconds: statement.thisUpdate.milliseconds + Self.undatedLife)
        guard from <= now else {
            throw OCSPFault("The answer is from the future (\(statement.thisUpdate.iso8601), now is \(now.iso8601)).")
        }
        guard now < end else {
            throw OCSPFault("The answer was valid until \(end.iso8601), now is \(now.iso8601).")
        }
        // The age counts from `thisUpdate`, so that a good answer cannot be replayed more than a week after it was
        // given.
        let oldest = now.milliseconds - Self.maxLife
        guard statement.thisUpdate.milliseconds > oldest || statement.status.isRevoked else {
            throw OCSPFault("The answer is of \(statement.thisUpdate.iso8601), which is more than a week ago.")
        }
        let life = min(end.milliseconds - now.milliseconds, Self.maxLife)
        until = Timestamp(milliseconds: now.milliseconds + life)
        // The checker requests the next answer in the last quarter of this answer's life.
        renewal = Timestamp(milliseconds: until.milliseconds - life / 4)
    }
}

extension OCSPResponse.Statement.Status {
    var isRevoked: Bool {
        if case .revoked = self { true } else { false }
    }

    fileprivate var known: RevocationStatus {
        get throws(OCSPFault) {
            switch self {
            case .good: .good
            case .revoked(let time): .revoked(at: time)
            case .unknown: throw OCSPFault("The responder does not know the certificate.")
            }
        }
    }
}
