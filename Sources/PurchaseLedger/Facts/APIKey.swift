// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel
import Crypto

/// An API key: the rights of its holder for one app. The ledger stores only a hash of the key's secret.
public struct APIKey: Hashable, Sendable {
    /// The rights of a key's holder.
    public enum Role: String, CaseIterable, Sendable {
        /// May submit purchases, and read the customer named in a request. For the app on a customer's device, from
        /// which the key can be extracted.
        case client
        /// May read everything but secrets. For a person who only looks.
        case read
        /// May read, and help customers: make and end grants, correct, set attributes, ask the App Store about a
        /// customer, and extend a renewal date. For a person who supports customers.
        case support
        /// May do everything. For the app's own servers.
        case server
    }

    /// The public part of the key, by which the key is found and revoked.
    public var id: String
    /// A name for human readers.
    public var name: String
    /// The rights of the key's holder. A newer version may have made the key with a role unknown to this version, which
    /// then accepts the key nowhere.
    public var role: Open<Role>
    /// The app whose data the key makes accessible.
    public var bundleId: String
    /// The SHA-256 digest of the secret part. A slower hash is unnecessary, because the secret's 220 random bits cannot
    /// be guessed.
    public var secretHash: [UInt8]
    /// The time of the key's creation.
    public var createdAt: Timestamp
    /// The time from which the key is not valid, by the clock of the machine; `nil` if the key does not expire.
    public var expiresAt: Timestamp?
    /// The time of the key's revocation; `nil` if the key was not revoked.
    public var revokedAt: Timestamp?

    public init(
        id: String, name: String, role: Open<Role>, bundleId: String, secretHash: [UInt8], createdAt: Timestamp,
        expiresAt: Timestamp? = nil, revokedAt: Timestamp? = nil
    ) {
        self.id = id
        self.name = name
        self.role = role
        self.bundleId = bundleId
        self.secretHash = secretHash
        self.createdAt = createdAt
        self.expiresAt = expiresAt
        self.revokedAt = revokedAt
    }
}

extension APIKey {
    /// Makes a key.
    ///
    /// - Returns: The key, and the text that the key's holder sends. The text cannot be derived from `key`.
    public static func make(
        name: String, role: Role, bundleId: String, at now: Timestamp, expiring expiresAt: Timestamp? = nil,
        using random: inout some RandomNumberGenerator
    ) -> (key: APIKey, text: String) {
        let id = letters(8, using: &random)
        // 44 letters from an alphabet of 32 are 220 bits.
        let secret = letters(44, using: &random)
        let key = APIKey(
            id: id, name: name, role: Open(role), bundleId: bundleId, secretHash: hash(secret), createdAt: now,
            expiresAt: expiresAt)
        return (key, "qt_\(id)_\(secret)")
    }

    /// The id and the secret in a client's text; `nil` if the text does not have the form of a key.
    public static func parts(of text: some StringProtocol) -> (id: String, secret: String)? {
        let bytes = Array(text.utf8)
        guard bytes.count == 56, bytes.starts(with: "qt_".utf8), bytes[11] == UInt8(ascii: "_") else { return nil }
        return (String(decoding: bytes[3..<11], as: UTF8.self), String(decoding: bytes[12...], as: UTF8.self))
    }

    /// Whether `secret` is this key's secret, and the key is neither revoked nor expired. Compares in constant time.
    public func admits(_ secret: String, at now: Timestamp) -> Bool {
        revokedAt == nil && expiresAt.map { now < $0 } ?? true && has(secret)
    }

    /// Whether `secret` is this key's secret. Compares in constant time.
    public func has(_ secret: String) -> Bool { SHA256.hash(data: Array(secret.utf8)) == secretHash }

    private static func hash(_ secret: String) -> [UInt8] { Array(SHA256.hash(data: Array(secret.utf8))) }

    /// Random letters and digits from an alphabet without look-alikes.
    private static func letters(_ count: Int, using random: inout some RandomNumberGenerator) -> String {
        let alphabet = Array("abcdefghijkmnpqrstuvwxyz23456789")
        return String((0..<count).map { _ in alphabet[Int.random(in: 0..<alphabet.count, using: &random)] })
    }
}

// MARK: - As a record

extension APIKey: RecordValue {
    /// The kind of the records that hold API keys.
    package static let recordKind = RecordKind(rawValue: "apiKey")

    /// The members of the JSON object in the first line of a record's payload. Times are milliseconds since 1970. The
    /// hash of the secret follows the line.
    private enum Member {
        static let name = "name"
        static let role = "role"
        static let bundleId = "bundleId"
        static let createdAt = "createdAt"
        static let expiresAt = "expiresAt"
        static let revokedAt = "revokedAt"
    }

    /// The beginning of the stored role of a key that expires. A version that does not know `expiresAt` takes the role
    /// for an unknown one, and so accepts the key nowhere. Otherwise it would accept a server key for ever.
    private static let expiring = "expiring "

    /// The key of the record for the API key with this public part.
    package static func key(_ id: String) -> RecordKey { RecordKey(recordKind, id, of: .ledger) }

    /// Reads a key. If `revokedAt` or `expiresAt` is present but is not a time, reading fails, so that a revoked or
    /// expired key never counts as valid.
    public init(_ record: LedgerRecord) throws(LedgerStorageError) {
        guard let payload = LinedPayload(record.payload), case let line = payload.line,
            let name = line[Member.name]?.string, let role = line[Member.role]?.string,
            let bundleId = line[Member.bundleId]?.string, let createdAt = line[Member.createdAt]?.integer,
            case let revokedAt = line[Member.revokedAt], revokedAt == nil || revokedAt?.integer != nil,
            case let expiresAt = line[Member.expiresAt], expiresAt == nil || expiresAt?.integer != nil,
            role.hasPrefix(Self.expiring) == (expiresAt != nil)
        else { throw LedgerStorageError(unreadable: record.key) }
        self.init(
            id: record.key.name, name: name,
            role: Open(rawValue: expiresAt == nil ? role : String(role.dropFirst(Self.expiring.count))),
            bundleId: bundleId, secretHash: payload.rest, createdAt: Timestamp(milliseconds: createdAt),
            expiresAt: expiresAt?.integer.map { Timestamp(milliseconds: $0) },
            revokedAt: revokedAt?.integer.map { Timestamp(milliseconds: $0) })
    }

    /// The record of the key.
    public var record: LedgerRecord {
        let role = (expiresAt == nil ? "" : Self.expiring) + role.rawValue
        var members = [
            JSONValue.Member(Member.name, .string(name)), JSONValue.Member(Member.role, .string(role)),
            JSONValue.Member(Member.bundleId, .string(bundleId)),
        ]
        for (name, time) in [
            (Member.createdAt, createdAt), (Member.expiresAt, expiresAt), (Member.revokedAt, revokedAt),
        ] {
            if let time { members.append(JSONValue.Member(name, .number("\(time.milliseconds)"))) }
        }
        return LedgerRecord(Self.key(id), payload: LinedPayload(members, rest: secretHash).bytes)
    }
}
