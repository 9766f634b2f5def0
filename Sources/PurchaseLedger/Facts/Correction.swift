// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// Who corrected the ledger, and why. Only the app's backend and the operator may correct the ledger.
///
/// Events keep the reason, also after the erasure of the customers concerned. A reason should therefore name no person.
public struct Correction: Hashable, Sendable, Codable {
    /// The id of the API key of the request; `quittance` for a command of the operator.
    public var by: String
    /// The reason, for people.
    public var reason: String

    /// The author of corrections by commands. An API key's id is shorter.
    public static let operatorName = "quittance"

    /// - Returns: `nil` if the reason is blank, longer than 500 Unicode scalars, or has a character that no text may
    ///   have, such as NUL.
    public init?(by author: String, reason: String) {
        guard TextForm.reason.allows(reason) else { return nil }
        by = author
        self.reason = reason
    }
}
