// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// An entitlement given to a customer by the app's operator. The App Store knows nothing of grants: a grant is no fact
/// of a purchase, and is never derived from documents.
public struct CustomerGrant: Hashable, Sendable {
    /// The author of a grant or of its end: a person or a program.
    public struct Author: Hashable, Sendable {
        /// The public part of the API key in the request (``APIKey/id``); `nil` for the command line.
        public var keyId: String?
        /// The name in the request, such as a person's; `nil` if the request had none.
        public var name: String?

        public init(keyId: String? = nil, name: String? = nil) {
            self.keyId = keyId
            self.name = name
        }
    }

    /// The end of a grant.
    public struct End: Hashable, Sendable {
        /// The time of the end: ``CustomerGrant/until``, or the time at which the grant was ended by hand.
        public var date: Timestamp
        /// The author of an end by hand; `nil` if the grant ended at ``CustomerGrant/until``.
        public var author: Author?

        public init(_ date: Timestamp, by author: Author? = nil) {
            self.date = date
            self.author = author
        }
    }

    /// The id of the grant, unique in its app.
    public var id: String
    /// The name of the entitlement.
    public var entitlement: String
    /// The environment in which the customer has the entitlement.
    public var environment: Environment
    /// The start of the grant, never later than ``madeAt``. The grant counts from its commit on.
    public var from: Timestamp
    /// The end of the grant, exclusive; `nil` for no end.
    public var until: Timestamp?
    /// The reason for the grant, as the author wrote it.
    public var why: String
    /// The author of the grant.
    public var author: Author
    /// The time at which the ledger recorded the grant.
    public var madeAt: Timestamp
    /// The published end of the grant; `nil` until it is published.
    public var end: End?
    /// The members of a newer version, in their order. This version keeps these members.
    var otherMembers: [JSONValue.Member] = []

    public init(
        id: String, entitlement: String, environment: Environment = .production, from: Timestamp,
        until: Timestamp? = nil, why: String, author: Author = Author(), madeAt: Timestamp, end: End? = nil
    ) {
        self.id = id
        self.entitlement = entitlement
        self.environment = environment
        self.from = from
        self.until = until
        self.why = why
        self.author = author
        self.madeAt = madeAt
        self.end = end
    }

    /// Whether the grant is active at `now`. An end by hand stays. An end by time that a clock ahead has published
    /// counts for nothing once the clock is right.
    public func isActive(at now: Timestamp) -> Bool { end?.author == nil && now < until ?? .distantFuture }
}

extension CustomerGrant {
    /// The maximum number of a customer's grants without an end in the past. An entitlement read loads all grants of
    /// the customer.
    public static let maxActive = 20

    /// The number of ended grants that a customer keeps. Support staff can see some years of grants, and the customer's
    /// row stays below 100 KB.
    public static let maxEnded = 100

    /// The latest possible end: the end of the year 9999, after which dates have no ISO 8601 form.
    public static let latestEnd = Timestamp(milliseconds: 253_402_300_799_999)
}

// MARK: - The stored form

extension CustomerGrant {
    private enum Member {
        static let id = "id"
        static let entitlement = "entitlement"
        static let environment = "environment"
        static let from = "from"
        static let until = "until"
        static let why = "why"
        static let key = "key"
        static let name = "name"
        static let madeAt = "madeAt"
        static let endedAt = "endedAt"
        static let endedByKey = "endedByKey"
        static let endedByName = "endedByName"
        /// Whether the grant was ended by hand.
        static let isEndedByHand = "isEndedByHand"
        static let all: Set = [
            id, entitlement, environment, from, until, why, key, name, madeAt, endedAt, endedByKey, endedByName,
            isEndedByHand,
        ]
    }

    /// Reads a grant.
    ///
    /// - Returns: `nil` if this version does not know the form of the grant.
    init?(stored json: JSONValue) {
        guard let members = json.members, let id = json[Member.id]?.string,
            let entitlement = json[Member.entitlement]?.string,
            let environment = json[Member.environment]?.string.flatMap(Environment.init(rawValue:)),
            let from = json[Member.from]?.integer, let madeAt = json[Member.madeAt]?.integer,
            let why = json[Member.why]?.string,
            // Otherwise a grant with an unreadable end would never end.
            case let until = json[Member.until], until == nil || until?.integer != nil,
            case let endedAt = json[Member.endedAt], endedAt == nil || endedAt?.integer != nil
        else { return nil }
        self.init(
            id: id, entitlement: entitlement, environment: environment, from: Timestamp(milliseconds: from),
            until: until?.integer.map { Timestamp(milliseconds: $0) }, why: why,
            author: Author(keyId: json[Member.key]?.string, name: json[Member.name]?.string),
            madeAt: Timestamp(milliseconds: madeAt))
        end = endedAt?.integer.map { date in
            let author = Author(keyId: json[Member.endedByKey]?.string, name: json[Member.endedByName]?.string)
            return End(
                Timestamp(milliseconds: date), by: json[Member.isEndedByHand] == .bool(true) ? author : nil)
        }
        otherMembers = members.filter { !Member.all.contains($0.name) }
    }

    /// The stored form of the grant.
    var stored: JSONValue {
        var members: [JSONValue.Member] = []
        func add(_ name: String, _ text: String?) {
            if let text { members.append(.init(name, .string(text))) }
        }
        func add(_ name: String, _ time: Timestamp?) {
            if let time { members.append(.init(name, .number("\(time.milliseconds)"))) }
        }
        add(Member.id, id)
        add(Member.entitlement, entitlement)
        add(Member.environment, environment.rawValue)
        add(Member.from, from)
        add(Member.until, until)
        add(Member.why, why)
        add(Member.key, author.keyId)
        add(Member.name, author.name)
        add(Member.madeAt, madeAt)
        add(Member.endedAt, end?.date)
        if let author = end?.author {
            members.append(.init(Member.isEndedByHand, .bool(true)))
            add(Member.endedByKey, author.keyId)
            add(Member.endedByName, author.name)
        }
        return .object(members + otherMembers)
    }
}

/// All grants of a customer in their stored form.
public struct StoredGrants: Hashable, Sendable {
    /// The grants, in the order of their making.
    public var grants: [CustomerGrant] = []
    /// The stored grants in a form unknown to this version. These grants entitle to nothing here, and are kept for a
    /// newer version.
    public var unreadable: [JSONValue] = []

    /// No grants.
    public init() {}

    /// Reads the stored form.
    ///
    /// - Parameter bytes: `nil` for no grants.
    /// - Throws: ``LedgerStorageError``: `damaged` if the bytes are no JSON array.
    package init(_ bytes: [UInt8]?, of customer: Customer) throws(LedgerStorageError) {
        guard let bytes else { return }
        guard let elements = JSONValue(readable: bytes)?.array else {
            throw LedgerStorageError(
                .damaged, "The grants of customer \(customer.number) of \(customer.bundleId) are not a JSON array")
        }
        for element in elements {
            if let grant = CustomerGrant(stored: element) {
                grants.append(grant)
            } else {
                unreadable.append(element)
            }
        }
    }

    /// The stored form; `nil` without grants.
    package var bytes: [UInt8]? {
        let elements = grants.map(\.stored) + unreadable
        return elements.isEmpty ? nil : Array(JSONValue.array(elements).compactText.utf8)
    }
}
