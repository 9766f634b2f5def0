// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// A copy into a ledger that has begun and not ended, see ``LedgerCopy``.
///
/// Until it has, the ledger lacks a part of what is copied, and nobody sees which. So a storage that has such a note is
/// not opened, except to go on with the copy.
public struct UnfinishedCopy: Hashable, Sendable {
    /// Where the ledger is copied from, for people. It has no password and no other secret.
    public var source: String
    /// When the copy first wrote into the ledger.
    public var beganAt: Timestamp

    public init(source: String, beganAt: Timestamp) {
        (self.source, self.beganAt) = (source, beganAt)
    }
}
