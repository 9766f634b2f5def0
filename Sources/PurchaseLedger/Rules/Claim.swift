// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel

/// The claim of a customer to a presented purchase, with all facts that decide who owns the purchase afterwards. The
/// decision itself therefore needs no storage.
package struct Claim {
    package var policy: ClaimPolicy
    package var claimant: Customer
    /// The present owners, in the order in which they became owners.
    package var owners: [Party]
    /// The customer named in the purchase's newest `appAccountToken`; `nil` if there is none.
    package var account: Party?
    /// Whether the purchase is in force at present, even if the catalogue gives nothing for it.
    package var isEntitling: Bool
    /// Whether the claimant had the purchase before all others; see ``Claimants``.
    package var isFirst: Bool
    /// Whether a correction set the owners. They then change by corrections alone.
    package var isCorrected: Bool
    /// The most owners that claims can make.
    package var mostOwners: Int

    /// The most owners of a purchase of the app itself without an id, which may belong to all buyers of a second. More
    /// than that is a receipt in circulation.
    package static let mostSharers = Claimants.limit

    /// A customer, and whether the customer exists in its own right; see ``CustomerRecord/isEstablished``.
    package struct Party: Hashable, Sendable {
        package var customer: Customer
        package var isEstablished: Bool

        package init(_ customer: Customer, isEstablished: Bool) {
            self.customer = customer
            self.isEstablished = isEstablished
        }
    }

    package init(
        policy: ClaimPolicy, claimant: Customer, owners: [Party], account: Party?, isEntitling: Bool,
        isFirst: Bool = false, isCorrected: Bool = false, mostOwners: Int = .max
    ) {
        self.policy = policy
        self.claimant = claimant
        self.owners = owners
        self.account = account
        self.isEntitling = isEntitling
        self.isFirst = isFirst
        self.isCorrected = isCorrected
        self.mostOwners = mostOwners
    }

    /// The outcome of a claim.
    package enum Outcome: Hashable, Sendable {
        /// The claimant already owns the purchase.
        case unchanged
        /// The purchase stays with its owners.
        case refused
        /// The claimant becomes an owner, and the listed customers lose the purchase.
        case accepted(takenFrom: [Customer])
    }

    package var outcome: Outcome {
        if owners.contains(where: { $0.customer == claimant }) { return .unchanged }
        if isCorrected || owners.count >= mostOwners { return .refused }
        return switch policy {
        case .accountTokenWins where isSignedForAnother: .refused
        case .transferIfInactive where isEntitling && !owners.isEmpty: .refused
        case .keep where !owners.isEmpty: .refused
        case .accountTokenWins, .transferIfInactive, .transfer: .accepted(takenFrom: owners.map(\.customer))
        case .keep, .share: .accepted(takenFrom: [])
        }
    }

    private var isSignedForAnother: Bool {
        guard let account else { return false }
        return account.isEstablished && account.customer != claimant
    }

    /// Whether accepting the claim counts as a change of owner. A claim does not count if all present owners exist only
    /// because of an account token. A return to the first claimant does not count either, so that claims by others
    /// cannot lock out the first claimant.
    package var changesOwner: Bool { takesFromEstablished && !isFirst }

    /// Whether the claim is accepted, and an established customer owned the purchase before.
    package var takesFromEstablished: Bool {
        guard case .accepted = outcome else { return false }
        return owners.contains(where: \.isEstablished)
    }

    /// The customer that had the purchase before this claim: the first established owner, possibly the claimant. If no
    /// owner is established, this is the first owner if the claim is refused, and otherwise `nil`.
    package var holder: Customer? {
        let established = owners.first(where: \.isEstablished)
        return (established ?? (outcome == .refused ? owners.first : nil))?.customer
    }

    /// Whether ``OwnerChanges/limit`` applies. Under `accountTokenWins`, the customer named in the account token can
    /// always get the purchase back.
    package var isLimited: Bool { !(policy == .accountTokenWins && account?.customer == claimant) }
}

/// The times of claims that changed the owner of a purchase: the last ``limit`` at most.
package struct OwnerChanges {
    /// The maximum number of changes within ``period``. Two people who share a device and restore purchases at every
    /// start of the app cause a few changes a day. Without a limit, a script could cause thousands of events.
    package static let limit = 10

    /// The period to which ``limit`` applies.
    package static let period = Duration.seconds(86_400)

    package private(set) var times: [Timestamp]

    package init(_ times: [Timestamp]) {
        self.times = times
    }

    /// The time from which the next change is allowed; `nil` if a change is allowed at `now`.
    package func nextAllowed(at now: Timestamp) -> Timestamp? {
        let recent = recent(at: now)
        return recent.count < Self.limit ? nil : recent.min()?.advanced(by: Self.period)
    }

    /// Adds a change at `now`.
    package mutating func add(_ now: Timestamp) {
        times = (recent(at: now) + [now]).sorted().suffix(Self.limit)
    }

    /// A recorded time may lie up to this long after `now`, because overlapping requests are recorded in any order. A
    /// later time must come from a wrong clock, and is ignored. Otherwise it would count against the limit until the
    /// clocks reach it.
    private static let overlap = Duration.seconds(3600)

    private func recent(at now: Timestamp) -> [Timestamp] {
        times.filter { $0 <= now.advanced(by: Self.overlap) && now < $0.advanced(by: Self.period) }
    }
}
