// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel

/// What happened to a purchase or a grant, for people: bands during which its state was the same, and marks.
///
/// Bands have no rules of their own. The rules for answers (``SubscriptionState``, ``ChainState`` and
/// ``CustomerGrant/isActive(at:)``) are evaluated at each instant at which their result can change, with what had
/// happened until then, and a band lasts until the result differs.
package struct TimeLine: Hashable, Encodable, Sendable {
    package enum Kind: String, Encodable, Sendable {
        case subscription, purchase, grant
    }

    package enum State: String, CaseIterable, Encodable, Sendable {
        case trial, offer, paid, chargedAhead, grace, given, stale, retry, gap, upgraded, revoked

        package var givesAccess: Bool { isCertain || self == .stale }

        /// Whether the App Store or the app's operator has agreed to access, which a stale subscription gives only
        /// because its renewal may be late.
        fileprivate var isCertain: Bool {
            switch self {
            case .trial, .offer, .paid, .chargedAhead, .grace, .given: true
            case .stale, .retry, .gap, .upgraded, .revoked: false
            }
        }
    }

    /// A time during which the state was the same.
    package struct Band: Hashable, Encodable, Sendable {
        /// `trial`, `offer`, `paid`, `chargedAhead` for a paid renewal that has not begun, `grace`, `given` for a
        /// grant, `stale`, `retry`, `gap`, `upgraded` or `revoked`.
        package var state: State
        /// The begin, in milliseconds since 1970.
        package var from: Timestamp
        /// The end, exclusive, in milliseconds since 1970; absent if it is not known.
        package var to: Timestamp?
        /// The transaction that decides the state.
        package var transactionId: String?
    }

    /// Something that happened.
    package struct Mark: Hashable, Encodable, Sendable {
        package enum Kind: String, Encodable, Sendable {
            case purchase, refund, revoked, upgraded, denied, renewalDisabled, granted, ended
        }

        /// `purchase`, `refund`, `revoked` if shared access ended, `upgraded`, `denied`, `renewalDisabled`, `granted`
        /// or `ended`.
        package var kind: Kind
        /// The time, in milliseconds since 1970.
        package var at: Timestamp
        /// The transaction.
        package var transactionId: String?
        /// What happened, in a few words.
        package var text: String
    }

    /// `subscription`, `purchase` or `grant`.
    package var kind: Kind
    /// The original transaction id of the purchase, or the id of the grant.
    package var id: String
    /// The product that was bought last.
    package var productId: String?
    /// The entitlements, separated by commas.
    package var entitlement: String?
    /// What was the case, the earliest first.
    package var bands: [Band]
    /// What happened, the earliest first.
    package var marks: [Mark]
    /// The number of earlier transactions that are left out; absent if there are none.
    package var omitted: Int?

    /// The time of the last thing that happened.
    fileprivate var newest: Timestamp { max(marks.last?.at ?? .distantPast, bands.last?.from ?? .distantPast) }

    /// - Parameters:
    ///   - instants: All instants at which the state may change.
    ///   - state: `nil` before anything happened.
    private static func bands(
        at instants: Set<Timestamp>, _ now: Timestamp, _ state: (Timestamp) -> (state: State, transactionId: String?)?
    ) -> [Band] {
        var bands: [Band] = []
        for instant in instants.sorted() {
            guard let found = state(instant) else { continue }
            if let last = bands.last {
                if last.state == found.state, last.transactionId == found.transactionId { continue }
                bands[bands.count - 1].to = instant
            }
            // What comes after certain access depends on what has not yet happened.
            if now < instant, !found.state.isCertain { break }
            bands.append(Band(state: found.state, from: instant, transactionId: found.transactionId))
        }
        while bands.last?.state == .gap { bands.removeLast() }
        return bands
    }
}

/// The time lines of a customer in an environment, bounded.
package struct TimeLines: Hashable, Sendable {
    /// The newest first.
    package fileprivate(set) var items: [TimeLine] = []
    /// The number of purchases and renewals that are left out.
    package private(set) var omitted = 0

    /// The most transactions of subscriptions that are shown, and the most of other purchases: ten years of monthly
    /// periods. The cost grows with the square of this number, because each instant is evaluated by all of them.
    package static let limit = 120

    init(_ chains: [Chain], _ grants: [CustomerGrant], _ catalogue: Catalogue, at now: Timestamp) {
        let known = chains.map { KnownPast($0, catalogue, at: now) }.filter { !$0.statements.all.isEmpty }
            .sorted { ($1.newest, $0.chain.key) < ($0.newest, $1.chain.key) }
        for isSubscription in [true, false] {
            var left = Self.limit
            for var past in known where past.isSubscription == isSubscription {
                let count = past.statements.all.count
                past.keep(left)
                omitted += count - past.statements.all.count
                left -= past.statements.all.count
                if !past.statements.all.isEmpty { items.append(TimeLine(past, omitted: count)) }
            }
        }
        // A customer has few grants: CustomerGrant.maxActive and CustomerGrant.maxEnded.
        items += grants.map { TimeLine($0, at: now) }
        items.sort { ($1.newest, $0.id) < ($0.newest, $1.id) }
    }
}

/// The facts of a chain, from which its past is evaluated.
private struct KnownPast {
    let chain: Chain
    let now: Timestamp
    /// The statements, the earliest purchase first.
    private(set) var statements: Chain.Statements
    let catalogue: Catalogue
    /// The catalogue for instants before a later purchase: whether a renewal came is then known, so none is late.
    private let past: Catalogue
    private let isRefused: Bool
    /// When upgraded transactions were upgraded, by id.
    private var upgrades: [String: Timestamp] = [:]

    init(_ chain: Chain, _ catalogue: Catalogue, at now: Timestamp) {
        self.chain = chain
        self.now = now
        self.catalogue = catalogue
        var past = catalogue
        past.staleLeeway = .zero
        self.past = past
        var undenied = chain
        undenied.denial = nil
        isRefused = catalogue.refuses(undenied)
        statements = chain.statements
        statements.all.sort { $0.isBought(before: $1) }
    }

    var isSubscription: Bool { statements.all.contains(where: \.isSubscription) }

    var newest: Timestamp { statements.all.last?.start ?? .distantPast }

    /// Leaves out all but the newest transactions.
    mutating func keep(_ count: Int) {
        statements.all = Array(statements.all.suffix(max(0, count)))
        for (index, old) in statements.all.enumerated() where old.isUpgraded {
            upgrades[old.transactionId] =
                statements.all[index...].first {
                    old.start < $0.start && $0.start < old.end && $0.productId != old.productId
                }?.start
        }
    }

    /// The purchases and the renewal info as of an instant. From now on, all that is known counts. Before, only what
    /// had happened counts; and the newest renewal info speaks of the newest purchase alone.
    func history(at instant: Timestamp) -> (purchases: PurchaseHistory, renewal: RenewalFact?) {
        var known = statements
        if instant < now {
            known.all.removeAll { instant < $0.start }
            for index in known.all.indices {
                if known.all[index].revocation.map({ instant < $0.date }) ?? false { known.all[index].revocation = nil }
                if upgrades[known.all[index].transactionId].map({ instant < $0 }) ?? false {
                    known.all[index].isUpgraded = false
                }
            }
        }
        let isNewest = known.all.count == statements.all.count
        let isDenied = chain.denial.map { $0.at <= instant } ?? false
        let history = PurchaseHistory(
            chain.key, known, isNewest ? catalogue : past, isRefused: isRefused || isDenied, at: instant)
        return (history, isNewest ? chain.renewal : nil)
    }

    /// The instants at which the state may change.
    var instants: Set<Timestamp> {
        var instants: Set = [now]
        for statement in statements.all {
            instants.insert(statement.date)
            instants.formUnion(
                [statement.expiresDate, statement.revocation?.date, upgrades[statement.transactionId]]
                    .compactMap(\.self))
        }
        if let denial = chain.denial { instants.insert(denial.at) }
        let (present, renewal) = history(at: now)
        var next = present.nextChange(renewal, after: .distantPast)
        while let instant = next {
            instants.insert(instant)
            next = present.nextChange(renewal, after: instant)
        }
        return instants
    }

    func state(at instant: Timestamp) -> (state: TimeLine.State, transactionId: String?)? {
        let (history, renewal) = history(at: instant)
        guard let subscription = history.subscription(renewal) else {
            guard !history.purchases.isEmpty || history.app != nil else { return nil }
            let state = ChainState(history, of: chain)
            let word: TimeLine.State = state.hasAccess ? .paid : state.status == .revoked ? .revoked : .gap
            return (word, word == .gap ? nil : state.transactionId)
        }
        let period = subscription.governing
        let word: TimeLine.State =
            switch subscription.status {
            case .active: now < period.start ? .chargedAhead : period.paidState
            case .billingGrace: .grace
            case .billingRetry: .retry
            case .stale: subscription.hasAccess ? .stale : .gap
            case .expired: .gap
            case .revoked: instant < period.end ? .revoked : .gap
            case .upgraded: instant < period.end ? .upgraded : .gap
            }
        return (word, word == .gap ? nil : period.transactionId)
    }

    var marks: [TimeLine.Mark] {
        var marks: [TimeLine.Mark] = []
        func add(_ kind: TimeLine.Mark.Kind, _ at: Timestamp?, _ id: String?, _ text: String) {
            if let at { marks.append(TimeLine.Mark(kind: kind, at: at, transactionId: id, text: text)) }
        }
        var end = Timestamp.distantPast
        for one in statements.all where !statements.erased.contains(one.transactionId) {
            let id = one.transactionId
            let isRenewal = one.transactionReason.map { $0 == .renewal } ?? (one.isSubscription && one.start <= end)
            end = one.end
            let verb = one.ownership == .familyShared ? "shared by the family: " : "bought "
            let product = one.isAppPurchase ? "the app" : one.productId
            let offer = one.offerWords.map { " (\($0))" } ?? ""
            if !isRenewal { add(.purchase, one.date, id, verb + product + offer) }
            if let lost = one.revocation { add(lost.isRefund ? .refund : .revoked, lost.date, id, lost.words) }
            add(.upgraded, upgrades[id], id, "upgraded")
        }
        add(.denied, chain.denial?.at, nil, chain.denial?.reason ?? "")
        return marks.sorted { $0.at < $1.at }
    }
}

extension TimeLine {
    /// - Parameter count: The number of transactions before any was left out.
    fileprivate init(_ past: KnownPast, omitted count: Int) {
        let newest = past.statements.all.last
        kind = past.isSubscription ? .subscription : .purchase
        id = past.chain.key.originalTransactionId
        if !past.chain.key.isAppPurchase { productId = newest?.productId }
        let names = newest.map { past.catalogue.entitlements(of: $0).sorted() } ?? []
        entitlement = names.isEmpty ? nil : names.joined(separator: ", ")
        // A consumable gives nothing that lasts.
        let lasts = past.statements.all.contains { $0.type != .consumable }
        bands = lasts ? Self.bands(at: past.instants, past.now, past.state) : []
        marks = past.marks
        omitted = count > past.statements.all.count ? count - past.statements.all.count : nil
    }

    fileprivate init(_ grant: CustomerGrant, at now: Timestamp) {
        kind = .grant
        id = grant.id
        entitlement = grant.entitlement
        let end = grant.end?.author == nil ? grant.until : grant.end?.date
        bands = Self.bands(at: Set([grant.from, now, grant.until, end].compactMap(\.self)), now) { instant in
            var past = grant
            if instant < end ?? .distantFuture { past.end = nil }
            return instant < grant.from ? nil : (past.isActive(at: instant) ? .given : .gap, nil)
        }
        let author = grant.author.name.map { "by \($0): " } ?? ""
        marks = [Mark(kind: .granted, at: grant.from, text: author + grant.why)]
        if let end, end <= now {
            marks.append(Mark(kind: .ended, at: end, text: end == grant.until ? "ended" : "ended by hand"))
        }
    }

}

extension TimeLines {
    /// Adds the time at which the renewal of a subscription was turned off.
    mutating func add(turnedOff date: Timestamp, _ id: String) {
        guard let index = items.firstIndex(where: { $0.kind == .subscription && $0.id == id }) else { return }
        let mark = TimeLine.Mark(kind: .renewalDisabled, at: date, text: "renewal turned off")
        items[index].marks = (items[index].marks + [mark]).sorted { $0.at < $1.at }
    }
}

// MARK: - Words

extension TransactionStatement {
    fileprivate var paidState: TimeLine.State {
        offerDiscountType == .freeTrial ? .trial : offerType == nil ? .paid : .offer
    }

    /// The offer in words; `nil` without an offer.
    package var offerWords: String? {
        guard offerDiscountType != .freeTrial else { return "free trial" }
        guard let offerType else { return nil }
        let name = offerIdentifier.map { " \($0)" } ?? ""
        return switch offerType.known {
        case .introductory: "introductory offer"
        case .promotional: "promotional offer\(name)"
        case .offerCode: "offer code\(name)"
        case .winBack: "win-back offer\(name)"
        case nil: "offer\(name)"
        }
    }
}

extension TransactionStatement.Revocation {
    /// Whether the customer got money back, as far as the document says.
    package var isRefund: Bool { type != .familyRevoke && type != .assignmentRevoke }

    /// What happened, such as `refunded`.
    package var words: String {
        switch type?.known {
        case .familyRevoke: "family sharing ended"
        case .assignmentRevoke: "the assignment ended"
        case .refundProrated: percentage.map { "refunded \($0 / 1000) %" } ?? "refunded in part"
        case .refundFull, nil: "refunded"
        }
    }
}
