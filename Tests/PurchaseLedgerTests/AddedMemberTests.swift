// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import PurchaseLedger
import Testing

/// Apple adds members to its payloads, sometimes with names that other payloads have already. The server must still
/// record the notification with its facts.
@Suite struct AddedMemberTests {
    /// A payload in a notification to which a member may be added.
    enum Place: CaseIterable {
        case notification
        case data
        case transaction
        case renewalInfo

        /// The members that Apple documents there.
        fileprivate var known: Set<String> {
            switch self {
            case .notification: memberNames(of: ResponseBodyV2DecodedPayload())
            case .data: memberNames(of: NotificationData())
            case .transaction: memberNames(of: JWSTransactionDecodedPayload())
            case .renewalInfo: memberNames(of: JWSRenewalInfoDecodedPayload())
            }
        }
    }

    private static let names: Set<String> = [
        memberNames(of: JWSTransactionDecodedPayload()), memberNames(of: JWSRenewalInfoDecodedPayload()),
        memberNames(of: AppTransaction()),
        memberNames(of: ResponseBodyV2DecodedPayload()), memberNames(of: DecodedRealtimeRequestBody()),
        memberNames(of: NotificationData()),
        memberNames(of: NotificationSummary()), memberNames(of: ExternalPurchaseToken()),
        memberNames(of: NotificationAppData()),
    ].reduce([]) { $0.union($1) }

    /// Values of an added member, including other apps and environments.
    private static let values: [JSONValue] = [
        .string("com.other"), .string("Xcode"), .number("9"), .bool(true), .null, .array([.string("x")]),
        .object([.init("bundleId", .string("com.other")), .init("environment", .string("Sandbox"))]),
    ]

    /// A notification about a renewal, with members added in one place.
    private static func notification(
        _ signed: SignedHistory, adding members: [JSONValue.Member], in place: Place
    ) throws -> String {
        func added(_ here: Place) -> UnknownMembers {
            var unknown = UnknownMembers()
            unknown.members = here == place ? members : []
            return unknown
        }
        let transaction = try signed.transaction { $0.unknownMembers = added(.transaction) }
        let renewal = try signed.renewal(signed: 0) { $0.unknownMembers = added(.renewalInfo) }
        return try signed.notification("SUBSCRIBED", signed: 0, transaction: transaction, renewal: renewal) {
            $0.unknownMembers = added(.notification)
            $0.data?.appAppleId = 7
            $0.data?.unknownMembers = added(.data)
        }
    }

    /// The chain in a ledger that recorded only this notification.
    private static func chain(_ signed: SignedHistory, _ token: String) async throws -> Chain? {
        var verifier = signed.verifier
        verifier.apps = .only([AppIdentity(bundleId: Facts.scope.bundleId, appAppleId: 7)])
        let notification = try await verifier.verify(notification: token.utf8, at: Facts.day(0))
        let ledger = Ledger(storage: MemoryLedgerStorage())
        _ = try await ledger.record([#require(Evidence(notification))], at: Facts.day(0))
        return try await ledger.chain(Facts.key)
    }

    @Test(arguments: Place.allCases)
    func `a notification with added members leads to the same facts`(place: Place) async throws {
        let signed = try SignedHistory()
        let plain = try await Self.chain(signed, Self.notification(signed, adding: [], in: place))
        let expected = try #require(plain).summaries
        #expect(expected.count == 2)
        let unknown = Self.names.subtracting(place.known).sorted()
        // Each name alone, and all of them at once.
        var additions = unknown.enumerated().map { index, name in
            [JSONValue.Member(name, Self.values[index % Self.values.count])]
        }
        additions += Self.values.map { value in unknown.map { JSONValue.Member($0, value) } }
        for addition in additions {
            let token = try Self.notification(signed, adding: addition, in: place)
            let found = try await Self.chain(signed, token)
            #expect(found?.summaries == expected, "\(addition.map(\.name))")
        }
    }
}

extension Chain {
    /// The main facts as text, without the names of their documents.
    fileprivate var summaries: [String] {
        transactions.values.compactMap(\.current).map { "\($0.transactionId) until \($0.expiresDate as Any)" }
            + [renewal.map { "then \($0.terms.autoRenewProductId as Any)" }].compactMap { $0 }
    }
}

private func memberNames(of payload: Any) -> Set<String> {
    Set(Mirror(reflecting: payload).children.compactMap(\.label)).subtracting(["unknownMembers"])
}
