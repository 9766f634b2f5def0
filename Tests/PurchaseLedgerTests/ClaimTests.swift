// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import Testing

/// The decision about a claim, as a table.
@Suite struct ClaimTests {
    private static let (anna, bert, cora) = (party(1), party(2), party(3))

    private static func party(_ number: Int64, established: Bool = true) -> Claim.Party {
        Claim.Party(Customer(number: number, bundleId: "com.example"), isEstablished: established)
    }

    /// The same customer, known only from an account token.
    private static func named(_ party: Claim.Party) -> Claim.Party {
        Claim.Party(party.customer, isEstablished: false)
    }

    struct Case: Sendable, CustomTestStringConvertible {
        var name: String
        var owners: [Claim.Party]
        var account: Claim.Party?
        var isEntitling = true
        /// By policy, in the order of ``ClaimPolicy/allCases``: accountTokenWins, transfer, transferIfInactive, keep,
        /// share. `taken`: the claimant becomes the only owner. `kept`: the claim is refused. `both`: the claimant
        /// becomes an owner, and the owners stay. `already`: the claimant is an owner, and nothing changes.
        var outcomes: [Word]
        var testDescription: String { name }

        enum Word { case taken, kept, both, already }
    }

    /// In each case, bert claims the purchase.
    private static let cases = [
        Case(
            name: "no owner, no token", owners: [], account: nil,
            outcomes: [.taken, .taken, .taken, .both, .both]),
        Case(
            name: "owned by another, no token", owners: [anna], account: nil,
            outcomes: [.taken, .taken, .kept, .kept, .both]),
        Case(
            name: "owned by another, no token, entitles to nothing", owners: [anna], account: nil, isEntitling: false,
            outcomes: [.taken, .taken, .taken, .kept, .both]),
        Case(
            name: "the token names the owner, who is established", owners: [anna], account: anna,
            outcomes: [.kept, .taken, .kept, .kept, .both]),
        Case(
            name: "the token names the owner, entitles to nothing", owners: [anna], account: anna, isEntitling: false,
            outcomes: [.kept, .taken, .taken, .kept, .both]),
        Case(
            name: "the token names the owner, who is not established", owners: [named(anna)], account: named(anna),
            outcomes: [.taken, .taken, .kept, .kept, .both]),
        Case(
            name: "owned by another, the token names an established third", owners: [anna], account: cora,
            outcomes: [.kept, .taken, .kept, .kept, .both]),
        Case(
            name: "owned by another, the token names a third who is not established", owners: [anna],
            account: named(cora),
            outcomes: [.taken, .taken, .kept, .kept, .both]),
        Case(
            name: "owned by another, the token names the claimant", owners: [anna], account: bert,
            outcomes: [.taken, .taken, .kept, .kept, .both]),
        Case(
            name: "owned by the claimant, the token names another", owners: [bert], account: anna,
            outcomes: [.already, .already, .already, .already, .already]),
        Case(
            name: "owned by another and the claimant, the token names the other", owners: [anna, bert], account: anna,
            outcomes: [.already, .already, .already, .already, .already]),
        Case(
            name: "owned by two others, no token", owners: [anna, cora], account: nil,
            outcomes: [.taken, .taken, .kept, .kept, .both]),
    ]

    @Test(arguments: cases)
    func `the policy decides the outcome of a claim`(_ each: Case) {
        #expect(ClaimPolicy.allCases == [.accountTokenWins, .transfer, .transferIfInactive, .keep, .share])
        for (policy, word) in zip(ClaimPolicy.allCases, each.outcomes) {
            let claim = Claim(
                policy: policy, claimant: Self.bert.customer, owners: each.owners, account: each.account,
                isEntitling: each.isEntitling)
            let expected: Claim.Outcome =
                switch word {
                case .taken: .accepted(takenFrom: each.owners.map(\.customer))
                case .kept: .refused
                case .both: .accepted(takenFrom: [])
                case .already: .unchanged
                }
            #expect(claim.outcome == expected, "\(policy)")
            let isAccepted = word == .taken || word == .both
            #expect(claim.changesOwner == (isAccepted && each.owners.contains(where: \.isEstablished)), "\(policy)")
            // A return to the customer that had the purchase first is accepted like any claim, and does not count.
            var returning = claim
            returning.isFirst = true
            #expect(returning.outcome == expected && !returning.changesOwner, "\(policy)")
            #expect(
                claim.isLimited == !(policy == .accountTokenWins && each.account?.customer == Self.bert.customer),
                "\(policy)")
        }
    }

    private static func hour(_ hours: Int64) -> Timestamp {
        Timestamp(milliseconds: 1_700_000_000_000 + hours * 3_600_000)
    }

    @Test func `the limit is ten changes of owner in any 24 hours`() {
        var changes = OwnerChanges([])
        for hour: Int64 in 0..<10 {
            #expect(changes.nextAllowed(at: Self.hour(hour)) == nil)
            changes.add(Self.hour(hour))
        }
        #expect(changes.nextAllowed(at: Self.hour(10)) == Self.hour(24))
        #expect(changes.nextAllowed(at: Timestamp(milliseconds: Self.hour(24).milliseconds - 1)) == Self.hour(24))
        #expect(changes.nextAllowed(at: Self.hour(24)) == nil)
        changes.add(Self.hour(24))
        #expect(changes.nextAllowed(at: Self.hour(24)) == Self.hour(25))
        // The list does not grow.
        for _ in 0..<100 { changes.add(Self.hour(24)) }
        #expect(changes.times.count == OwnerChanges.limit)
        // After a long pause, only the new change is in the list.
        changes.add(Self.hour(1000))
        #expect(changes.times == [Self.hour(1000)])
    }

    @Test(arguments: [Int64.min, .max])
    func `times from a wrong clock block no claim`(time: Int64) {
        var changes = OwnerChanges([Timestamp](repeating: Timestamp(milliseconds: time), count: 10))
        #expect(changes.nextAllowed(at: Self.hour(0)) == nil)
        changes.add(Self.hour(0))
        #expect(changes.times == [Self.hour(0)])
        // No time, however wrong, causes a trap.
        for now in [Int64.min, .max] {
            _ = changes.nextAllowed(at: Timestamp(milliseconds: now))
            changes.add(Timestamp(milliseconds: now))
        }
    }
}
