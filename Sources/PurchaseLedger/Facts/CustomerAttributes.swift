// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// The attributes of a customer: named texts that the app's backend stores, such as `$email`. No rule and no
/// entitlement depends on an attribute.
///
/// Names that begin with `$` have a common meaning in SDKs and tools, such as `$email` and `$displayName`. All other
/// names are the app's own. Of several values of an attribute, the value with the newest time counts.
public struct CustomerAttributes: Hashable, Sendable {
    /// The customer.
    public let customer: Customer
    /// The attributes by name, including removed attributes.
    public private(set) var all: [String: Value] = [:]

    /// The value of an attribute.
    public struct Value: Hashable, Sendable {
        /// The text; `nil` if the attribute was removed.
        public var text: String?
        /// The time as of which the value counts. A removed attribute keeps its time, so that an older value that
        /// arrives late does not bring the attribute back.
        public var updatedAt: Timestamp

        public init(_ text: String?, at updatedAt: Timestamp) {
            self.text = text
            self.updatedAt = updatedAt
        }
    }

    /// Makes a customer without attributes.
    public init(of customer: Customer) {
        self.customer = customer
    }

    /// The text of an attribute; `nil` if the customer does not have the attribute.
    public subscript(name: String) -> String? { all[name]?.text }

    /// The attributes that the customer has, in the order of their names.
    public var present: [(name: String, text: String, updatedAt: Timestamp)] {
        all.compactMap { name, value in value.text.map { (name, $0, value.updatedAt) } }.sorted { $0.0 < $1.0 }
    }
}

extension CustomerAttributes {
    /// A new value of an attribute.
    public struct Change: Hashable, Sendable {
        /// The name of the attribute.
        public var name: String
        /// The text; `nil` or an empty text removes the attribute.
        public var text: String?
        /// The time as of which the value counts; `nil` for the time of the change. A later time counts as the time of
        /// the change, because it would block all changes until then.
        public var updatedAt: Timestamp?

        public init(_ name: String, _ text: String?, at updatedAt: Timestamp? = nil) {
            self.name = name
            self.text = text
            self.updatedAt = updatedAt
        }
    }
}

// MARK: - Limits

extension CustomerAttributes {
    /// The maximum number of a customer's attributes with names of the app's own, as in the SDKs that use such
    /// attributes.
    public static let ownLimit = 50

    /// The maximum number of a customer's attributes with names that begin with `$`. Some twenty names are common, and
    /// partners of the SDKs have further names.
    public static let reservedLimit = 50

    /// The maximum number of removed attributes whose time is kept. An older value of any further removed attribute may
    /// come back. With the other limits, a record of ASCII text always fits into ``LedgerRecord/payloadLimit``.
    static let removedLimit = 50

    static func isReserved(_ name: String) -> Bool { name.utf8.first == UInt8(ascii: "$") }

    /// Whether a text is allowed as a name.
    static func isName(_ name: String) -> Bool {
        TextForm.attributeName.allows(name) && name != "$" && !name.dropFirst().contains("$")
    }
}

/// The reason why attributes were not changed. No change was made.
public enum AttributeError: Error, Hashable, CustomStringConvertible {
    /// The name has a character that is not allowed, or too many characters.
    case invalidName(String)
    /// The value of the attribute with this name has too many characters, or one that is not allowed.
    case invalidValue(String, fault: String)
    /// The customer would have too many attributes with names of the app's own or, if true, with names that begin with
    /// `$`.
    case tooMany(isReserved: Bool)
    /// The attributes of the customer would be larger than a ledger keeps.
    case tooLarge

    public var description: String {
        switch self {
        case .invalidName(let name):
            "“\(name.prefix(TextForm.attributeName.length.upperBound))” is no name of an attribute: "
                + (TextForm.attributeName.fault(in: name) ?? "It may have a $ only before other characters.")
        case .invalidValue(let name, let fault): "“\(name)”: \(fault)"
        case .tooMany(isReserved: false):
            "A customer has at most \(CustomerAttributes.ownLimit) attributes of your own: remove some first."
        case .tooMany(isReserved: true):
            "A customer has at most \(CustomerAttributes.reservedLimit) attributes whose names begin with $: remove "
                + "some first."
        case .tooLarge:
            "The attributes of a customer have at most \(LedgerRecord.payloadLimit >> 10) KiB together: remove or "
                + "shorten some first."
        }
    }
}

// MARK: - Changes

extension CustomerAttributes {
    /// Sets or removes attributes.
    ///
    /// - Throws: ``AttributeError``.
    mutating func apply(_ changes: [Change], at now: Timestamp) throws(AttributeError) {
        for change in changes {
            guard Self.isName(change.name) else { throw .invalidName(change.name) }
            let text = change.text.flatMap { $0.isEmpty ? nil : $0 }
            if let fault = text.flatMap({ TextForm.attributeValue.fault(in: $0) }) {
                throw .invalidValue(change.name, fault: fault)
            }
            let time = min(change.updatedAt ?? now, now)
            // A stored time may be ahead of the clock, if the clock was wrong. It then counts as the present time.
            if let known = all[change.name], min(known.updatedAt, now) > time { continue }
            all[change.name] = Value(text, at: time)
        }
        for isReserved in [false, true] where names(isReserved).count > Self.limit(isReserved) {
            throw .tooMany(isReserved: isReserved)
        }
        forgetRemoved()
        guard payload.count <= LedgerRecord.payloadLimit else { throw .tooLarge }
    }

    /// Adds the attributes of a customer that was merged into this customer. Of each name, the newer value stays, and
    /// of two values with the same time that of this customer. If there are too many attributes, the oldest go.
    mutating func merge(_ other: CustomerAttributes) {
        all.merge(other.all) { $1.updatedAt > $0.updatedAt ? $1 : $0 }
        for isReserved in [false, true] {
            for name in names(isReserved).dropFirst(Self.limit(isReserved)) { all[name] = nil }
        }
        forgetRemoved()
        var oldest = names(false) + names(true)
        oldest.sort { isOlder($1, $0) }
        while payload.count > LedgerRecord.payloadLimit, let name = oldest.popLast() { all[name] = nil }
    }

    private static func limit(_ isReserved: Bool) -> Int { isReserved ? reservedLimit : ownLimit }

    /// The names of the present attributes, the newest first.
    private func names(_ isReserved: Bool) -> [String] {
        let names = all.filter { $1.text != nil && Self.isReserved($0) == isReserved }.keys
        return names.sorted { isOlder($1, $0) }
    }

    private func isOlder(_ left: String, _ right: String) -> Bool {
        let leftTime = all[left]?.updatedAt.milliseconds ?? .min
        let rightTime = all[right]?.updatedAt.milliseconds ?? .min
        return leftTime == rightTime ? left > right : leftTime < rightTime
    }

    /// Forgets the times of the attributes that were removed first.
    private mutating func forgetRemoved() {
        let removed = all.filter { $1.text == nil }.keys.sorted { isOlder($1, $0) }
        for name in removed.dropFirst(Self.removedLimit) { all[name] = nil }
    }
}

// MARK: - Stored form

extension CustomerAttributes: RecordValue {
    /// The kind of the records that hold attributes.
    package static let recordKind = RecordKind(rawValue: "attributes")

    /// The key of the record with a customer's attributes.
    package static func key(_ customer: Customer) -> RecordKey {
        RecordKey(recordKind, "\(customer.number)", of: .app(customer.bundleId))
    }

    /// The name of the attribute by which customers can be found.
    static let email = "$email"

    /// An address in lower case: a person who looks for it does not know how the customer wrote it. A letter of another
    /// alphabet never becomes one of ASCII, as the Kelvin sign would become k: it is another address.
    static func folded(_ email: String) -> String {
        email.map { letter in
            let lower = letter.lowercased()
            return letter.isASCII || !lower.allSatisfy(\.isASCII) ? lower : String(letter)
        }.joined()
    }

    /// The entry of the records of customers with an e-mail address. Records with the same entry may have different
    /// addresses: the entry of a long address is only its beginning.
    static func entry(email: String) -> String {
        var entry = "\(Self.email)=\(folded(email))"
        while entry.utf8.count > LedgerRecord.entryLength { entry.unicodeScalars.removeLast() }
        return entry
    }

    /// Reads the attributes of a customer.
    @inline(never)
    public init(_ record: LedgerRecord) throws(LedgerStorageError) {
        guard case .app(let bundleId) = record.key.owner, let number = Int64(record.key.name), number > 0,
            let members = JSONValue(readable: record.payload)?.members
        else { throw LedgerStorageError(unreadable: record.key) }
        self.init(of: Customer(number: number, bundleId: bundleId))
        for member in members {
            guard let value = member.value.array, value.count == 2, let time = value[1].integer,
                value[0] == .null || value[0].string != nil
            else { throw LedgerStorageError(unreadable: record.key) }
            all[member.name] = Value(value[0].string, at: Timestamp(milliseconds: time))
        }
    }

    /// The stored form of the attributes. The e-mail address is an entry, by which the customer can be found.
    public var record: LedgerRecord {
        let entries = self[Self.email].map { [Self.entry(email: $0)] } ?? []
        return LedgerRecord(Self.key(customer), entries: Set(entries), payload: payload)
    }

    /// A JSON object: for each name, an array of the text and the time. The text of a removed attribute is `null`.
    private var payload: [UInt8] {
        let members = all.sorted { $0.key < $1.key }.map { name, value in
            JSONValue.Member(
                name, .array([value.text.map(JSONValue.string) ?? .null, .number("\(value.updatedAt.milliseconds)")]))
        }
        return Array(JSONValue.object(members).compactText.utf8)
    }
}
