// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// The customers that presented one purchase. The list is empty as long as its owner alone did, which is nearly always.
///
/// The first one had the purchase before all others, and never drops out: whatever others claim, that customer gets the
/// purchase back. Of the others the list has those of the last 30 days.
public struct Claimants: Hashable, Sendable {
    /// A customer that presented the purchase.
    public struct Claimant: Hashable, Sendable {
        /// The number of the customer, who may have been erased or merged since.
        public var number: Int64
        /// When the customer presented the purchase last, to the day; of the first one, when another customer
        /// presented it.
        public var at: Timestamp

        public init(_ number: Int64, at: Timestamp) {
            self.number = number
            self.at = at
        }
    }

    /// How long a customer counts that presented the purchase: longer than a month's subscription, so that a token that
    /// went round is noticed.
    package static let period = Duration.seconds(30 * 86_400)

    /// The most customers in the list. Four are reported (``mostUsual``); sixteen tell a token that went round from a
    /// family, and each read of the chain reads them.
    package static let limit = 16

    /// The most customers that usually present one purchase: a person with two accounts of the app, and somebody who
    /// bought with the same Apple Account.
    package static let mostUsual = 3

    /// A claim is noted again after this time. A restore at each start of the app writes nothing.
    private static let precision = Duration.seconds(86_400)

    /// The first one, then the others in the order in which they were noted.
    public private(set) var list: [Claimant]

    public init(_ list: [Claimant] = []) {
        self.list = list
    }

    /// The number of the customer that had the purchase first; `nil` if no other customer presented it.
    package var first: Int64? { list.first?.number }

    /// How many customers presented the purchase: the first one, and the others of the last 30 days.
    package func count(at now: Timestamp) -> Int {
        min(list.count, 1) + list.dropFirst().count { $0.isRecent(at: now) }
    }
}

extension Claimants.Claimant {
    /// How far a recorded time may lie after `now`, as for ``OwnerChanges``.
    private static let overlap = Duration.seconds(3600)

    fileprivate func isRecent(at now: Timestamp) -> Bool {
        at <= now.advanced(by: Self.overlap) && now < at.advanced(by: Claimants.period)
    }
}

// MARK: - Changes

extension Claimants {
    /// Notes that a customer presented the purchase.
    ///
    /// - Parameter holder: The customer that had the purchase before all others, if this is the first claim by another
    ///   one.
    mutating func note(_ claimant: Int64, besides holder: Int64?, at now: Timestamp) {
        guard let first = list.first ?? holder.map({ Claimant($0, at: now) }), first.number != claimant else { return }
        let known = list.dropFirst().last { $0.number == claimant }
        if let known, known.isRecent(at: now), now < known.at.advanced(by: Self.precision) { return }
        var others = list.dropFirst().filter { $0.number != claimant && $0.isRecent(at: now) }
        others.append(Claimant(claimant, at: now))
        list = [first] + others.suffix(Self.limit - 1)
    }

    /// Makes a customer the first one, because the app's backend says that the purchase is its.
    mutating func makeFirst(_ number: Int64, at now: Timestamp) {
        list = [Claimant(number, at: now)] + list.filter { $0.number != number }.suffix(Self.limit - 1)
    }

    /// Forgets a customer. Without the first one, no customer is known to have had the purchase first.
    mutating func remove(_ number: Int64) {
        list = first == number ? [] : list.filter { $0.number != number }
    }

    /// Notes that two customers became one.
    mutating func replace(_ old: Int64, by new: Int64) {
        guard list.contains(where: { $0.number == old }) else { return }
        self = Claimants(joining: list.map { Claimant($0.number == old ? new : $0.number, at: $0.at) })
    }

    /// These with those of a chain to which this one was migrated. The first of these stays the first.
    func union(_ later: Claimants) -> Claimants { Claimants(joining: list + later.list) }

    /// - Parameter claimants: A customer may be named several times.
    private init(joining claimants: [Claimant]) {
        self.init()
        guard let first = claimants.first else { return }
        let others = claimants.dropFirst().filter { $0.number != first.number }.sorted { $0.at < $1.at }
        var known: Set<Int64> = []
        let newest = others.reversed().filter { known.insert($0.number).inserted }.prefix(Self.limit - 1)
        list = [first] + newest.reversed()
    }
}

// MARK: - Storage

/// Pairs of the form `number milliseconds`, separated by commas. An empty list is null.
extension Claimants: Storable {
    @usableFromInline
    package init?(_ stored: StoredValue) {
        self.init()
        guard stored != .null else { return }
        guard case .text(let text) = stored else { return nil }
        for pair in text.split(separator: ",", omittingEmptySubsequences: false) {
            let words = pair.split(separator: " ", omittingEmptySubsequences: false).map { Int64($0) }
            guard words.count == 2, let number = words[0], let at = words[1] else { return nil }
            list.append(Claimant(number, at: Timestamp(milliseconds: at)))
        }
    }

    @usableFromInline package var stored: StoredValue {
        list.isEmpty ? .null : .text(list.map { "\($0.number) \($0.at.milliseconds)" }.joined(separator: ","))
    }
}
