// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// The failure of a storage operation. No change was written, unless the code is ``Code/unavailable``: the outcome is
/// then unknown. ``isPassing`` tells whether a retry may succeed.
public struct LedgerStorageError: Error, CustomStringConvertible {
    /// The kinds of failures.
    @nonexhaustive
    public enum Code: String, Sendable {
        /// The disk is full.
        case full
        /// The storage can be read but not written.
        case readOnly
        /// The storage is damaged, or a newer version or a commit before the first release wrote it.
        case damaged
        /// Some documents in the ledger come from untrusted root certificates, or from roots that must not be mixed
        /// with the roots of new documents. A retry fails until the operator decides which documents count.
        case otherRoots
        /// The ledger is the target of an unfinished copy.
        case unfinishedCopy
        /// Any other failure, such as a database that does not respond. The database may have committed the changes
        /// nevertheless.
        case unavailable
    }

    /// The kind of failure, for programs.
    public var code: Code
    /// A description of the failure, for people.
    public var message: String
    /// Whether a retry may succeed in a while without any change by the operator, for example after a timeout or a lost
    /// connection.
    public var isPassing: Bool

    /// - Parameter isPassing: By default whether the code is `unavailable`.
    public init(_ code: Code, _ message: String, isPassing: Bool? = nil) {
        self.code = code
        self.message = message
        self.isPassing = isPassing ?? (code == .unavailable)
    }

    public var description: String { "\(code.rawValue): \(message)" }
}
