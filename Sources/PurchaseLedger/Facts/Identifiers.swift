// SPDX-License-Identifier: Apache-2.0

// The keys of apps, purchases and documents in a ledger.

public import AppStoreModel

/// An app in one environment. Facts of two environments are never combined: a sandbox purchase grants no entitlement in
/// production.
public struct LedgerScope: Hashable, Sendable {
    /// The app.
    public var bundleId: String
    /// The environment of the purchases.
    public var environment: Environment

    public init(bundleId: String, environment: Environment) {
        self.bundleId = bundleId
        self.environment = environment
    }
}

extension LedgerScope: Comparable {
    /// Orders by bundle id, then by the raw value of the environment.
    public static func < (left: Self, right: Self) -> Bool {
        guard left.bundleId == right.bundleId else { return left.bundleId < right.bundleId }
        return left.environment.rawValue < right.environment.rawValue
    }
}

/// The key of a transaction, such as a purchase, renewal or restore.
public struct TransactionKey: Hashable, Sendable {
    /// The app and environment.
    public var scope: LedgerScope
    /// The transaction id: a string of digits.
    public var transactionId: String

    public init(_ transactionId: String, in scope: LedgerScope) {
        self.scope = scope
        self.transactionId = transactionId
    }

    /// Whether a single purchase has the id. In environments without an App Store several have, and a purchase of the
    /// app itself has none.
    var isUnique: Bool { scope.environment.hasAppStore && !ChainName.isAppPurchase(transactionId) }
}

/// The key of a chain: all transactions with the same `originalTransactionId`. A chain is a subscription with its
/// renewals, or a product bought once.
public struct ChainKey: Hashable, Sendable {
    /// The app and environment.
    public var scope: LedgerScope
    /// The name of the chain in its scope: the original transaction id. In environments without an App Store ids
    /// repeat, so there the name also contains the time of the first purchase; see `ChainName`. The name of a purchase
    /// of the app itself is `app:` and the `appTransactionId`; see ``isAppPurchase``.
    public var name: String

    public init(_ name: String, in scope: LedgerScope) {
        self.scope = scope
        self.name = name
    }

    /// The original transaction id, the id of the chain's first purchase: a string of digits.
    public var originalTransactionId: String { ChainName.originalTransactionId(in: name) }

    /// Whether the chain is a purchase of the app itself, which has no product and no transactions in the App Store.
    public var isAppPurchase: Bool { ChainName.isAppPurchase(name) }
}

/// The names of chains.
///
/// The App Store gives each purchase a unique id. StoreKit Testing in Xcode counts ids from `0` on each Mac, and starts
/// again after the developer deletes the purchases, so every developer has a purchase with the id `0`. In the
/// environments Xcode and LocalTesting a name is therefore `0@1697679936`: the original transaction id, `@`, and the
/// time of the first purchase in seconds since 1970. The time is left out if the document does not contain it. The name
/// depends on the document alone, so a rebuild of the ledger gives each chain the same name.
///
/// The purchase of the app itself has a name that no original transaction id can have: `app:700000000000000042`, with
/// the `appTransactionId`. Receipts have no such id, so their purchase of the app has the name `app:bought:1472558405`,
/// with the time of the purchase in seconds since 1970. Signed app transactions from before 2025 have no id either, and
/// get the same name as the receipts of the same purchase.
enum ChainName {
    /// No id contains this character.
    private static let separator: Unicode.Scalar = "@"

    /// The beginning of the name of each purchase of the app.
    private static let app = "app:"

    /// The beginning of the name of a purchase of the app without an id.
    private static let appByDate = app + "bought:"

    /// The name of the chain to which a document's transaction belongs.
    ///
    /// Xcode's receipts lack the original transaction and its date, so each transaction of a receipt is a chain of its
    /// own. The chain of a first purchase gets the same name from a receipt as from a signed transaction.
    static func name(_ payload: JWSTransactionDecodedPayload, _ id: String, in environment: Environment) -> String {
        let original = payload.originalTransactionId ?? id
        guard !environment.hasAppStore else { return original }
        let date = payload.originalPurchaseDate ?? (original == id ? payload.purchaseDate : nil)
        return "\(original)\(separator)\(date.map { "\($0.second)" } ?? "")"
    }

    /// The name of a purchase of the app; `nil` if the document does not tell the purchase from others.
    ///
    /// StoreKit Testing in Xcode gives every purchase of the app the id `0` and a date in the year 0. In the sandbox,
    /// all receipts have the same date (2013-08-01T07:00:00Z), so there only an id counts.
    ///
    /// - Parameter date: The time of the purchase, as the document states it.
    static func app(_ appTransactionId: String?, bought date: Timestamp?, in environment: Environment) -> String? {
        guard environment.hasAppStore else { return nil }
        if let id = appTransactionId.orNone { return app + id }
        guard environment == .production, let date, date.milliseconds > 0 else { return nil }
        return "\(appByDate)\(date.second)"
    }

    /// Whether a name belongs to a purchase of the app.
    static func isAppPurchase(_ name: String) -> Bool { name.utf8.starts(with: app.utf8) }

    /// The `appTransactionId` in the name of a purchase of the app; `nil` if the name has none.
    static func appTransactionId(in name: String) -> String? {
        guard isAppPurchase(name), !name.utf8.starts(with: appByDate.utf8) else { return nil }
        return String(name.dropFirst(app.count))
    }

    /// Every event of a page asks for it, and a search by characters takes fifty times as long.
    private static func mark(in name: String) -> String.Index? { name.utf8.lastIndex(of: UInt8(ascii: separator)) }

    /// The original transaction id in a name.
    static func originalTransactionId(in name: String) -> String {
        mark(in: name).map { String(name[..<$0]) } ?? name
    }

    /// The time in a name, in seconds since 1970; `nil` if the name has none.
    static func second(in name: String) -> Int64? {
        mark(in: name).flatMap { Int64(name[name.index(after: $0)...]) }
    }
}

extension String? {
    /// The identifier; `nil` for a text that means "no identifier". StoreKit Testing in Xcode writes `0` into the
    /// members `webOrderLineItemId` and `appTransactionId` of every token. In other documents, an empty text has the
    /// same meaning.
    var orNone: String? {
        guard let self, !self.isEmpty, self != "0" else { return nil }
        return self
    }
}

extension Environment {
    /// Whether the App Store has a server for the environment. Xcode and LocalTesting have none.
    public var hasAppStore: Bool { self == .production || self == .sandbox }
}

extension ChainKey: Comparable {
    /// Compares app, environment and name, in this order.
    public static func < (left: ChainKey, right: ChainKey) -> Bool {
        let leftScope = left.scope
        let rightScope = right.scope
        return (leftScope.bundleId, leftScope.environment.rawValue, left.name)
            < (rightScope.bundleId, rightScope.environment.rawValue, right.name)
    }
}

/// A document's id in the ledger: the SHA-256 digest of its signed bytes.
public struct DocumentDigest: Hashable, Sendable {
    /// The SHA-256 digest: 32 bytes.
    public let bytes: [UInt8]

    /// - Returns: `nil` unless `bytes` has 32 elements.
    public init?(bytes: some Collection<UInt8>) {
        guard bytes.count == 32 else { return nil }
        self.bytes = Array(bytes)
    }

    /// Reads the form of ``description``.
    ///
    /// - Returns: `nil` unless `text` is 64 hexadecimal digits.
    public init?(hexadecimal text: String) {
        let digits = text.utf8.compactMap { Character(Unicode.Scalar($0)).hexDigitValue }
        guard digits.count == 64, text.utf8.count == 64 else { return nil }
        bytes = stride(from: 0, to: 64, by: 2).map { UInt8(digits[$0] << 4 | digits[$0 + 1]) }
    }

    /// Hashes all bytes at once. The synthesized method would hash each byte separately.
    public func hash(into hasher: inout Hasher) {
        bytes.withUnsafeBytes { hasher.combine(bytes: $0) }
    }
}

extension DocumentDigest: Comparable {
    public static func < (left: DocumentDigest, right: DocumentDigest) -> Bool {
        left.bytes.lexicographicallyPrecedes(right.bytes)
    }
}

extension DocumentDigest: CustomStringConvertible {
    /// The digest in hexadecimal: 64 lowercase digits.
    public var description: String {
        let digits = Array("0123456789abcdef")
        return String(bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] })
    }
}

/// The document from which a fact comes, and the document's signing date.
///
/// Of two documents about the same subject, the document that was signed later counts. Documents signed at the same
/// instant are ordered by their digests, so that the order of arrival never matters.
public struct Provenance: Hashable, Sendable {
    /// The time at which the App Store signed the document.
    public var signedDate: Timestamp
    /// The digest of the document.
    public var digest: DocumentDigest

    public init(signedDate: Timestamp, digest: DocumentDigest) {
        self.signedDate = signedDate
        self.digest = digest
    }
}

extension Provenance {
    /// - Parameter date: The signing date; `nil` if the document has none. An undated document is older than all
    ///   others.
    package init(_ digest: DocumentDigest, signed date: Timestamp?) {
        self.init(signedDate: date ?? .distantPast, digest: digest)
    }

    /// A value into which stored fields are read.
    @usableFromInline package static let blank = Provenance(signedDate: .distantPast, digest: DocumentDigest([]))

    /// ``signedDate``; `nil` if the document has no signing date.
    package var date: Timestamp? { signedDate == .distantPast ? nil : signedDate }

    /// Reads the form of ``description``.
    ///
    /// - Returns: `nil` if `text` has any other form.
    public init?(_ text: String) {
        // The last hyphen is the separator. A date before 1970 is a negative number, and begins with a hyphen too.
        guard let hyphen = text.lastIndex(of: "-"),
            let digest = DocumentDigest(hexadecimal: String(text[hyphen...].dropFirst()))
        else { return nil }
        let date = String(text[..<hyphen])
        self.init(signedDate: .distantPast, digest: digest)
        guard date != Self.undated else { return }
        // Each document has exactly one name, so a number with a leading zero or a plus sign is refused.
        guard let milliseconds = Int64(date), "\(milliseconds)" == date else { return nil }
        signedDate = Timestamp(milliseconds: milliseconds)
    }

    private static let undated = "undated"
}

extension Provenance: CustomStringConvertible {
    /// The signing date in milliseconds and the digest in hexadecimal: `1749923628492-9f86…`. Without a date:
    /// `undated-9f86…`.
    public var description: String { "\(date.map { "\($0.milliseconds)" } ?? Self.undated)-\(digest)" }
}

extension Provenance: Comparable {
    public static func < (left: Provenance, right: Provenance) -> Bool {
        (left.signedDate, left.digest) < (right.signedDate, right.digest)
    }
}

extension Timestamp {
    /// Before the date of any document.
    static let distantPast = Timestamp(milliseconds: .min)

    /// After the date of any document.
    static let distantFuture = Timestamp(milliseconds: .max)
}

extension DocumentDigest: Storable {
    @inlinable
    package init?(_ stored: StoredValue) {
        guard case .bytes(let value) = stored else { return nil }
        self.init(bytes: value)
    }

    @inlinable package var stored: StoredValue { .bytes(bytes) }
}
