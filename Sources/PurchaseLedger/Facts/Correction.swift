// SPDX-License-Identifier: Apache-2.0

/// Who corrected the ledger, and why. Only the app's backend and the operator may correct the ledger.
///
/// Events keep the reason, also after the erasure of the customers concerned. A reason should therefore name no person.
public struct Correction: Hashable, Sendable, Codable {
    /// The id of the API key of the request; `quittance` for a command of the operator.
    public var by: String
    /// The reason, for people.
    public var reason: String

    /// The maximum length of a reason in Unicode scalars: a few sentences. Each event of the correction has the reason.
    public static let reasonLimit = 500

    /// The author of corrections by commands. An API key's id is shorter.
    public static let operatorName = "quittance"

    /// - Returns: `nil` if the reason is blank, or longer than ``reasonLimit``.
    public init?(by author: String, reason: String) {
        guard reason.contains(where: { !$0.isWhitespace }), reason.unicodeScalars.count <= Self.reasonLimit else {
            return nil
        }
        by = author
        self.reason = reason
    }
}
