// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// An app in one environment. Facts of one never meet those of another: sandbox purchases entitle nobody in production.
public struct LedgerScope: Hashable, Sendable {
    public var bundleId: String
    public var environment: Environment

    public init(bundleId: String, environment: Environment) {
        self.bundleId = bundleId
        self.environment = environment
    }
}

/// One purchase, renewal or restore.
public struct TransactionKey: Hashable, Sendable {
    public var scope: LedgerScope
    public var transactionId: String

    public init(_ transactionId: String, in scope: LedgerScope) {
        self.scope = scope
        self.transactionId = transactionId
    }
}

/// All transactions that came from one purchase: a subscription with its renewals, or what was bought once. Apple's
/// `originalTransactionId`.
public struct ChainKey: Hashable, Sendable {
    public var scope: LedgerScope
    public var originalTransactionId: String

    public init(_ originalTransactionId: String, in scope: LedgerScope) {
        self.scope = scope
        self.originalTransactionId = originalTransactionId
    }
}

extension ChainKey: Comparable {
    /// By app, environment and id: an order that depends on nothing else.
    public static func < (left: ChainKey, right: ChainKey) -> Bool {
        let (leftScope, rightScope) = (left.scope, right.scope)
        return (leftScope.bundleId, leftScope.environment.rawValue, left.originalTransactionId)
            < (rightScope.bundleId, rightScope.environment.rawValue, right.originalTransactionId)
    }
}

/// The SHA-256 of what is signed in a document: its name in the ledger.
public struct EvidenceID: Hashable, Sendable {
    public let octets: [UInt8]

    /// - Returns: `nil` where these are not 32 octets.
    public init?(octets: some Collection<UInt8>) {
        guard octets.count == 32 else { return nil }
        self.octets = Array(octets)
    }

    /// Reads what ``description`` writes.
    ///
    /// - Returns: `nil` where these are not 64 hexadecimal digits.
    public init?(hexadecimal text: String) {
        let digits = text.utf8.compactMap { Character(Unicode.Scalar($0)).hexDigitValue }
        guard digits.count == 64, text.utf8.count == 64 else { return nil }
        octets = stride(from: 0, to: 64, by: 2).map { UInt8(digits[$0] << 4 | digits[$0 + 1]) }
    }
}

extension EvidenceID: Comparable {
    public static func < (left: EvidenceID, right: EvidenceID) -> Bool {
        left.octets.lexicographicallyPrecedes(right.octets)
    }
}

extension EvidenceID: CustomStringConvertible {
    /// Hexadecimal.
    public var description: String {
        let digits = Array("0123456789abcdef")
        return String(octets.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] })
    }
}

/// Where a fact comes from: the document that says it and when that was signed.
///
/// Of two documents about one thing the later one holds. Two of the same instant are told apart by their names, which
/// follow from their content, so that the order in which they arrive never matters.
public struct Provenance: Hashable, Sendable {
    public var signedDate: Timestamp
    public var evidence: EvidenceID

    public init(signedDate: Timestamp, evidence: EvidenceID) {
        self.signedDate = signedDate
        self.evidence = evidence
    }
}

extension Provenance {
    /// - Parameter date: `nil` where the document does not say when it was signed: that counts from the beginning of time.
    package init(_ evidence: EvidenceID, signed date: Timestamp?) {
        self.init(signedDate: date ?? .distantPast, evidence: evidence)
    }

    /// To read another into.
    @usableFromInline package static let blank = Provenance(signedDate: .distantPast, evidence: EvidenceID([]))

    /// ``signedDate``, or `nil` where the document does not say when it was signed.
    package var date: Timestamp? { signedDate == .distantPast ? nil : signedDate }

    /// Reads what ``description`` writes.
    ///
    /// - Returns: `nil` where it is something else.
    public init?(_ text: String) {
        // The date may have a hyphen too, before 1970.
        guard let hyphen = text.lastIndex(of: "-"),
            let evidence = EvidenceID(hexadecimal: String(text[hyphen...].dropFirst()))
        else { return nil }
        let date = String(text[..<hyphen])
        self.init(signedDate: .distantPast, evidence: evidence)
        guard date != Self.undated else { return }
        // One document has one name.
        guard let milliseconds = Int64(date), "\(milliseconds)" == date else { return nil }
        signedDate = Timestamp(milliseconds: milliseconds)
    }

    private static let undated = "undated"
}

extension Provenance: CustomStringConvertible {
    /// When the document was signed, in milliseconds, and its name in hexadecimal: `1749923628492-9f86…`. So it is found among
    /// those of the same time, however many there are.
    public var description: String { "\(date.map { "\($0.milliseconds)" } ?? Self.undated)-\(evidence)" }
}

extension Provenance: Comparable {
    public static func < (left: Provenance, right: Provenance) -> Bool {
        (left.signedDate, left.evidence) < (right.signedDate, right.evidence)
    }
}
