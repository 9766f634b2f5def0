// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel

/// What a responder said about a certificate, and how long that is worth something.
package struct OCSPAnswer: Hashable, Sendable {
    /// `good` or `revoked`.
    package let status: RevocationStatus
    /// From here to before `until` the answer may be used.
    let from: Timestamp
    package let until: Timestamp
    /// From here on the next answer is asked for, while this one is still good.
    package let renewal: Timestamp

    func isCurrent(at now: Timestamp) -> Bool { from <= now && now < until }
}

extension OCSPAnswer {
    /// How far ahead of ours a responder's clock may be, in milliseconds: five minutes, as in OpenSSL. Nothing is added on
    /// the other side: an answer past its `nextUpdate` is old, whoever's clock is wrong, and costs another question.
    private static let clockSkew: Int64 = 5 * 60 * 1000

    /// How long an answer is worth something that does not say until when, in milliseconds from its `thisUpdate`: an hour.
    /// Such a responder has newer information at any time (RFC 6960 section 4.2.2.1), but is not to be asked all the time.
    private static let undatedLife: Int64 = 60 * 60 * 1000

    /// How long any answer is kept, in milliseconds: a week. Revocations are to be known some day, also where a responder
    /// promises its answers for years.
    private static let longestLife: Int64 = 7 * 24 * 60 * 60 * 1000

    /// Reads what a response whose signature was right says.
    ///
    /// - Throws: Where it does not know the certificate, or is of another time.
    init(_ statement: OCSPResponse.Statement, at now: Timestamp) throws(OCSPFault) {
        status = try statement.status.known
        // The dates of a response are within the calendar, and so is `now` after both guards: nothing here overflows.
        from = Timestamp(milliseconds: statement.thisUpdate.milliseconds - Self.clockSkew)
        let end =
            statement.nextUpdate ?? Timestamp(milliseconds: statement.thisUpdate.milliseconds + Self.undatedLife)
        guard from <= now else {
            throw OCSPFault("The answer is from the future (\(statement.thisUpdate.iso8601), now is \(now.iso8601)).")
        }
        guard now < end else {
            throw OCSPFault("The answer was good until \(end.iso8601), now is \(now.iso8601).")
        }
        // Counted from when the responder knew it, so that an old answer cannot be sent again and again.
        let oldest = now.milliseconds - Self.longestLife
        guard statement.thisUpdate.milliseconds > oldest || statement.status.isRevoked else {
            throw OCSPFault("The answer is of \(statement.thisUpdate.iso8601), which is too long ago.")
        }
        let life = min(end.milliseconds - now.milliseconds, Self.longestLife)
        until = Timestamp(milliseconds: now.milliseconds + life)
        // The last quarter is left for the next answer to come.
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
