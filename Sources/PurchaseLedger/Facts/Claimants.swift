// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// The customers that presented a purchase. The list is empty as long as only the owner presented the purchase. Nearly
/// all lists are empty.
///
/// The first claimant had the purchase before all others, or got it from the app's backend. This claimant never
/// expires, and its claims are not subject to the limit on changes of owner, so that other customers cannot lock it
/// out. Other claimants count for 30 days. The next noted claim removes claimants who no longer count.
public struct Claimants: Hashable, Sendable {
    /// A customer that presented the purchase.
    public struct Claimant: Hashable, Sendable {
        /// The number of the customer. The customer may have been erased or merged since.
        public var number: Int64
        /// The time of the customer's last claim, accurate to a day. For the first claimant, the time at which this
        /// customer became the first claimant.
        public var at: Timestamp

        public init(_ number: Int64, at: Timestamp) {
            self.number = number
            self.at = at
        }
    }

    /// How long a claim counts: about as long as the period of a monthly subscription. Strangers who pass on the signed
    /// transaction (the token) of such a period are therefore counted together.
    package static let period = Duration.seconds(30 * 86_400)

    /// The maximum number of customers in the list. The list is short, because each read of the chain reads the whole
    /// list. The ledger reports a purchase with more than ``mostUsual`` claimants. Sixteen claimants suffice to tell a
    /// token passed among strangers from a family.
    package static let limit = 16

    /// The most customers that usually present the same purchase: for example, the two accounts of a person, and the
    /// account of a second person who uses the same Apple Account.
    package static let mostUsual = 3

    /// A customer's claim is not noted again within this time, so that an app that restores purchases at every start
    /// does not cause a write each time.
    private static let precision = Duration.seconds(86_400)

    /// The first claimant, then the other claimants in the order of their noted claims.
    public private(set) var list: [Claimant]

    public init(_ list: [Claimant] = []) {
        self.list = list
    }

    /// The number of the first claimant; `nil` if the list is empty.
    package var first: Int64? { list.first?.number }

    /// The number of customers that presented the purchase: the first claimant, and the other claimants of the last 30
    /// days.
    package func count(at now: Timestamp) -> Int {
        min(list.count, 1) + list.dropFirst().count { $0.isRecent(at: now) }
    }
}

extension Claimants.Claimant {
    /// A recorded time may lie up to this long after `now`, because overlapping requests are recorded in any order.
    /// Later times come from a wrong clock and do not count; see ``OwnerChanges``.
    private static let overlap = Duration.seconds(3600)

    fileprivate func isRecent(at now: Timestamp) -> Bool {
        at <= now.advanced(by: Self.overlap) && now < at.advanced(by: Claimants.period)
    }
}

// MARK: - Changes

extension Claimants {
    /// Notes a customer's claim to the purchase.
    ///
    /// - Parameter holder: The customer that owned the purchase before this claim. It becomes the first claimant if the
    ///   list is empty and a different customer claims the purchase.
    mutating func note(_ claimant: Int64, besides holder: Int64?, at now: Timestamp) {
        guard let first = list.first ?? holder.map({ Claimant($0, at: now) }), first.number != claimant else { return }
        let known = list.dropFirst().last { $0.number == claimant }
        if let known, known.isRecent(at: now), now < known.at.advanced(by: Self.precision) { return }
        var others = list.dropFirst().filter { $0.number != claimant && $0.isRecent(at: now) }
        others.append(Claimant(claimant, at: now))
        list = [first] + others.suffix(Self.limit - 1)
    }

    /// Makes a customer the first claimant, because the app's backend has assigned the purchase to this customer.
    mutating func makeFirst(_ number: Int64, at now: Timestamp) {
        list = [Claimant(number, at: now)] + list.filter { $0.number != number }.suffix(Self.limit - 1)
    }

    /// Removes a customer. After the removal of the first claimant the list is empty: the first holder is then unknown.
    mutating func remove(_ number: Int64) {
        list = first == number ? [] : list.filter { $0.number != number }
    }

    /// Notes the merge of two customers.
    mutating func replace(_ old: Int64, by new: Int64) {
        guard list.contains(where: { $0.number == old }) else { return }
        self = Claimants(joining: list.map { Claimant($0.number == old ? new : $0.number, at: $0.at) })
    }

    /// The joined list after a migration: this list belongs to the migrated chain, and `later` to its successor. The
    /// first claimant of the migrated chain, if any, stays first.
    func union(_ later: Claimants) -> Claimants { Claimants(joining: list + later.list) }

    /// - Parameter claimants: The claimants to join. A customer may occur several times.
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

/// Pairs of the form `number milliseconds`, separated by commas. An empty list is stored as null.
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
