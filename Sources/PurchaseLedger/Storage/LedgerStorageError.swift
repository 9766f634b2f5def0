// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// Why an operation of a storage failed. Nothing was written, and a retry may succeed later.
public struct LedgerStorageError: Error, CustomStringConvertible {
    /// The kinds of failures.
    @nonexhaustive
    public enum Code: String, Sendable {
        /// The disk is full.
        case full
        /// The storage can be read but not written.
        case readOnly
        /// The storage was damaged, or written by a newer version.
        case damaged
        /// Documents in the ledger come from other roots than those that are trusted, or than those of new documents.
        /// Until the operator decides which of them count, a retry fails too.
        case otherRoots
        /// The ledger is the target of a copy that has begun and not ended.
        case unfinishedCopy
        /// Anything else, such as a database that does not respond. It may have stored what it was sent.
        case unavailable
    }

    /// The kind of failure, for programs.
    public var code: Code
    /// What happened, for people.
    public var message: String
    /// Whether the same may succeed in a while, although nobody changes anything: a time-out, or a lost connection.
    public var isPassing: Bool

    /// - Parameter isPassing: By default whether the code is `unavailable`.
    public init(_ code: Code, _ message: String, isPassing: Bool? = nil) {
        self.code = code
        self.message = message
        self.isPassing = isPassing ?? (code == .unavailable)
    }

    public var description: String { "\(code.rawValue): \(message)" }
}
