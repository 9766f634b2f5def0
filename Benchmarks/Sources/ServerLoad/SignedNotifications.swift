// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import PurchaseLedger

/// A simulated App Store, whose notifications are as long as Apple's.
struct SimulatedStore: Sendable {
    static let scope = LedgerScope(bundleId: "com.example.notes", environment: .production)
    static let product = "com.example.notes.premium.monthly"
    static let entitlement = "premium"

    /// The instant at which everything here is verified and read.
    static let now = Timestamp(milliseconds: 1_750_000_000_000)

    /// The root certificates as DER.
    let roots: [[UInt8]]
    private let signer: TokenSigner

    init() throws {
        let authority = try CertificateAuthority(from: Timestamp(milliseconds: Self.now.milliseconds - 40 * day))
        roots = try authority.roots
        // Makes the header 4.4 KB long, as Apple's is. Apple's certificates are larger than the simulated ones.
        signer = try authority.tokenSigner(
            headerMembers: #""kid":"\#(String(repeating: "A", count: 1000))","#)
    }

    static func verifier(_ roots: [[UInt8]]) throws -> AppStoreVerifier {
        let roots = try roots.map { try TrustRoots(reading: $0) }
        return AppStoreVerifier(
            apps: .any, environments: [scope.environment], roots: roots.dropFirst().reduce(roots[0]) { $0.union($1) })
    }

    /// The notifications that a server receives.
    struct Notifications {
        /// The first purchases of known subscribers, which the server receives before the measurement.
        var before: [String]
        /// The notifications of the measurement, in the order of events. Of six, one is the first purchase of a new
        /// customer; of five known subscribers, three renew, one turns renewal off and one expires.
        var stream: [String]
        /// First purchases by new customers only, which are the most work for a server.
        var firstPurchases: [String]
    }

    func notifications(_ count: Int) async throws -> Notifications {
        var random = SeededRandom(seed: 1)
        let start = Self.now.milliseconds - Int64(count)
        let events: [Event] = [.subscribed, .renewed, .renewed, .renewalDisabled, .renewed, .expired]
        let stream = (0..<count).map { index in
            Subscriber(&random).notification(events[index % events.count], at: start + Int64(index), &random)
        }
        let before = stream.filter { $0.event != .subscribed }.map { later in
            later.subscriber.notification(.subscribed, at: later.subscriber.start(before: later), &random)
        }
        let firstPurchases = (0..<count / 3).map { index in
            Subscriber(&random).notification(.subscribed, at: start + Int64(index), &random)
        }
        return Notifications(
            before: try await sign(before), stream: try await sign(stream),
            firstPurchases: try await sign(firstPurchases))
    }

    /// Signs on both cores, since signing takes as long as verifying.
    private func sign(_ notifications: [Notification]) async throws -> [String] {
        let middle = notifications.count / 2
        async let first = notifications[..<middle].map(sign)
        async let second = notifications[middle...].map(sign)
        return try await first + second
    }

    private func sign(_ notification: Notification) throws -> String {
        try sign(
            notification.payload(
                transaction: try sign(notification.transaction), renewal: try sign(notification.renewal)))
    }

    private func sign(_ payload: String) throws -> String { try signer.sign(Array(payload.utf8)) }
}

private let day: Int64 = 86_400_000
private let month = 30 * day

/// An event of a subscription.
private enum Event {
    case subscribed, renewed, renewalDisabled, expired

    var type: String {
        switch self {
        case .subscribed: #""SUBSCRIBED","subtype":"INITIAL_BUY""#
        case .renewed: #""DID_RENEW""#
        case .renewalDisabled: #""DID_CHANGE_RENEWAL_STATUS","subtype":"AUTO_RENEW_DISABLED""#
        case .expired: #""EXPIRED","subtype":"VOLUNTARY""#
        }
    }

    /// The time since the start of the first period.
    var age: Int64 {
        switch self {
        case .subscribed: 0
        case .renewed, .expired: month
        case .renewalDisabled: 10 * day
        }
    }
}

/// A customer with a monthly subscription. The ids are random, since those of many customers come in no order.
private struct Subscriber {
    let id: String
    let appTransaction: String
    let account: String

    init(_ random: inout SeededRandom) {
        id = Self.digits(&random)
        appTransaction = "70" + Self.digits(&random)
        account = Self.uuid(&random)
    }

    /// When the first period began, computed from a later event.
    func start(before later: Notification) -> Int64 { later.date - later.event.age }

    func notification(_ event: Event, at date: Int64, _ random: inout SeededRandom) -> Notification {
        Notification(
            subscriber: self, event: event, date: date,
            transactionId: event == .renewed ? Self.digits(&random) : id, lineItem: Self.digits(&random),
            uuid: Self.uuid(&random))
    }

    private static func digits(_ random: inout SeededRandom) -> String {
        "\(Int64.random(in: 100_000_000_000_000..<1_000_000_000_000_000, using: &random))"
    }

    private static func uuid(_ random: inout SeededRandom) -> String {
        let digits = Array("0123456789abcdef")
        return [8, 4, 4, 4, 12].map { count in
            String((0..<count).map { _ in digits[Int.random(in: 0..<16, using: &random)] })
        }.joined(separator: "-")
    }
}

/// A notification before signing, with every member that a subscription with an offer has.
private struct Notification {
    let subscriber: Subscriber
    let event: Event
    let date: Int64
    let transactionId: String
    let lineItem: String
    let uuid: String

    /// The purchase date of the period that the notification is about.
    private var purchased: Int64 { event == .renewed ? date : date - event.age }

    var transaction: String {
        """
        {"transactionId":"\(transactionId)","originalTransactionId":"\(subscriber.id)",\
        "webOrderLineItemId":"\(lineItem)","bundleId":"\(SimulatedStore.scope.bundleId)",\
        "productId":"\(SimulatedStore.product)","subscriptionGroupIdentifier":"21034567","purchaseDate":\(purchased),\
        "originalPurchaseDate":\(date - event.age),"expiresDate":\(purchased + month),"quantity":1,\
        "type":"Auto-Renewable Subscription","appAccountToken":"\(subscriber.account)",\
        "inAppOwnershipType":"PURCHASED","signedDate":\(date),"offerType":2,"offerIdentifier":"autumn.campaign",\
        "environment":"Production","transactionReason":"\(event == .renewed ? "RENEWAL" : "PURCHASE")",\
        "storefront":"USA","storefrontId":"143441","price":9990,"currency":"USD",\
        "offerDiscountType":"PAY_AS_YOU_GO","appTransactionId":"\(subscriber.appTransaction)","offerPeriod":"P1M",\
        "billingPlanType":"MONTHLY","commitmentInfo":{"billingPeriodNumber":1,"totalBillingPeriods":12,\
        "commitmentExpiresDate":\(purchased + 12 * month),"commitmentPrice":119880}}
        """
    }

    var renewal: String {
        let renews = event == .subscribed || event == .renewed
        return """
            {"originalTransactionId":"\(subscriber.id)","autoRenewProductId":"\(SimulatedStore.product)",\
            "productId":"\(SimulatedStore.product)","autoRenewStatus":\(renews ? 1 : 0),\
            \(event == .expired ? #""expirationIntent":1,"# : "")"renewalPrice":9990,"currency":"USD",\
            "signedDate":\(date),"environment":"Production","recentSubscriptionStartDate":\(date - event.age),\
            "renewalDate":\(purchased + month),"offerType":2,"offerIdentifier":"autumn.campaign",\
            "offerDiscountType":"PAY_AS_YOU_GO","offerPeriod":"P1M","appAccountToken":"\(subscriber.account)",\
            "appTransactionId":"\(subscriber.appTransaction)","renewalBillingPlanType":"MONTHLY"}
            """
    }

    func payload(transaction: String, renewal: String) -> String {
        """
        {"notificationType":\(event.type),"notificationUUID":"\(uuid)",\
        "data":{"appAppleId":1234567890,"bundleId":"\(SimulatedStore.scope.bundleId)","bundleVersion":"1234",\
        "environment":"Production","signedTransactionInfo":"\(transaction)","signedRenewalInfo":"\(renewal)",\
        "status":\(event == .expired ? 2 : 1)},"version":"2.0","signedDate":\(date)}
        """
    }
}
