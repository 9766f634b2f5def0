// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// A request to make a grant (``CustomerGrant``).
public struct GrantRequest: Hashable, Sendable {
    /// The id of the grant; `nil` if the ledger chooses the id. A request with an id makes the grant only once.
    public var id: String?
    /// The name of the entitlement.
    public var entitlement: String
    /// The environment of the grant.
    public var environment: Environment
    /// The start of the grant, not in the future; `nil` for the present time.
    public var from: Timestamp?
    /// The end of the grant, in the future; `nil` for no end.
    public var until: Timestamp?
    /// The reason for the grant.
    public var why: String
    /// The author of the grant.
    public var author: CustomerGrant.Author

    public init(
        id: String? = nil, entitlement: String, environment: Environment = .production, from: Timestamp? = nil,
        until: Timestamp? = nil, why: String, author: CustomerGrant.Author = CustomerGrant.Author()
    ) {
        self.id = id
        self.entitlement = entitlement
        self.environment = environment
        self.from = from
        self.until = until
        self.why = why
        self.author = author
    }

    /// The fault of the texts in the request, as a sentence; `nil` without a fault. The times are compared with the
    /// present time only when the grant is made.
    public var fault: String? {
        if let id {
            if let fault = TextForm.grantID.fault(in: id) { return "“id”: \(fault)" }
            // A path segment of periods would be another path.
            if id.allSatisfy({ $0 == "." }) { return "“id” may not have only periods." }
        }
        if let fault = TextForm.why.fault(in: why) { return "“why”: \(fault)" }
        if let until, until > CustomerGrant.latestEnd { return "“until” is at most the end of the year 9999." }
        return author.fault
    }

    /// The refusal of the times at `now`; `nil` if they are allowed.
    func refusal(at now: Timestamp) -> GrantRefusal? {
        if let from, now < from { return .beginIsAhead }
        if let until, until <= now { return .endIsPast }
        return nil
    }

    /// Whether a grant was made by the same request. A repetition may come with a newer key.
    func made(_ grant: CustomerGrant) -> Bool {
        entitlement.utf8.elementsEqual(grant.entitlement.utf8) && environment == grant.environment
            && from ?? grant.madeAt == grant.from && until == grant.until
            && why.utf8.elementsEqual(grant.why.utf8)
            && (author.name ?? "").utf8.elementsEqual((grant.author.name ?? "").utf8)
    }
}

extension CustomerGrant.Author {
    /// The fault of the name, as a sentence; `nil` without a fault.
    public var fault: String? {
        name.flatMap { TextForm.author.fault(in: $0) }.map { "“by”: \($0)" }
    }
}

/// The outcome of a ``GrantRequest``.
public enum GrantOutcome: Hashable, Sendable {
    /// The grant was made.
    case made(CustomerGrant)
    /// An earlier request had made the grant, which may have ended since.
    case known(CustomerGrant)
    /// No grant was made.
    case refused(GrantRefusal)
}

/// The reason why a grant was not made.
public enum GrantRefusal: Hashable, Sendable, CaseIterable {
    /// The id belongs to a grant with different content, or of a different customer.
    case otherGrant
    /// The customer has ``CustomerGrant/maxActive`` grants that have not ended.
    case tooMany
    /// The begin is in the future.
    case beginIsAhead
    /// The end is not in the future.
    case endIsPast

    /// The refusal as a sentence.
    public var message: String {
        switch self {
        case .otherGrant:
            "The app has a different grant with this id: choose a new id for a new grant."
        case .tooMany:
            """
            The customer has \(CustomerGrant.maxActive) grants that have not ended: end a grant before you make a \
            further grant.
            """
        case .beginIsAhead: "“from” is in the future: a grant counts at once. Omit “from”, or make the grant later."
        case .endIsPast: "“until” is not in the future: the grant would have ended already."
        }
    }
}
