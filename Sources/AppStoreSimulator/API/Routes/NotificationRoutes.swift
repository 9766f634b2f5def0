// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

// The endpoints of the notification history, which lists notifications with the attempts to send them, and of test
// notifications.

extension SimulatedStore {
    mutating func notificationHistory(_ call: StoreCall) throws -> StoreResponse {
        let json = try call.json()
        let filter = try NotificationFilter(json, in: call.environment, now: world.now)
        let customer: String? =
            if let id = filter.transactionId { try self.customer(ofAny: id, in: call.environment).name } else { nil }
        let start = try PaginationToken.read(call, body: json)
        if start > 0, random.decides(faults.expiredCursors) { throw StoreRefusal(.paginationTokenExpired) }
        let rest = outbox.entries.filter { entry in
            entry.number >= start && entry.environment == call.environment && filter.passes(entry)
                && (customer == nil || entry.customer == customer)
        }
        let page = rest.prefix(Paging.pageLength)
        var answer = NotificationHistoryResponse()
        answer.notificationHistory = page.map { $0.historyItem }
        answer.hasMore = page.count < rest.count
        if let last = page.last, page.count < rest.count {
            answer.paginationToken = PaginationToken.text(from: last.number + 1, call, body: json)
        }
        return try StoreResponse(encoding: answer)
    }

    mutating func requestTestNotification(_ call: StoreCall) throws -> StoreResponse {
        guard notificationURLs[call.environment] != nil else { throw StoreRefusal(.serverNotificationURLNotFound) }
        let id = world.sendTestNotification(in: call.environment)
        var answer = SendTestNotificationResponse()
        answer.testNotificationToken = "\(id)_\(world.now.milliseconds)"
        return try StoreResponse(encoding: answer)
    }

    /// The validity of a test notification's token in months: Apple's number.
    private static let testTokenMonths = 6

    func testNotification(_ call: StoreCall) throws -> StoreResponse {
        let parts = call.id.split(separator: "_", omittingEmptySubsequences: false)
        guard parts.count == 2, String(parts[0]).isUUID, let time = Int64(parts[1]) else {
            throw StoreRefusal(.invalidTestNotificationToken)
        }
        let isExpired = Timestamp(milliseconds: time) < world.now.adding(months: -Self.testTokenMonths)
        let entry = outbox.entries.last { $0.id == parts[0] && $0.environment == call.environment }
        guard !isExpired, let entry, !entry.attempts.isEmpty else { throw StoreRefusal(.testNotificationNotFound) }
        var answer = CheckTestNotificationResponse()
        answer.signedPayload = entry.signedPayload
        answer.sendAttempts = entry.attempts
        return try StoreResponse(encoding: answer)
    }
}

/// The filters of Get Notification History.
private struct NotificationFilter {
    var start: Timestamp
    var end: Timestamp
    var type: NotificationTypeV2?
    var subtype: NotificationSubtype?
    var transactionId: String?
    var onlyFailures: Bool

    /// The age of the oldest notifications in the history, in days: Apple's numbers.
    private static func days(in environment: Environment) -> Int { environment == .production ? 180 : 30 }

    /// Reads the body.
    ///
    /// - Throws: `StoreRefusal` with the code of the first invalid member.
    init(_ json: JSONValue, in environment: Environment, now: Timestamp) throws(StoreRefusal) {
        start = try json.time("startDate", else: .invalidStartDate)
        end = min(try json.time("endDate", else: .invalidEndDate), now)
        guard start < end else { throw StoreRefusal(.startDateAfterEndDate) }
        guard start >= now.adding(days: -Self.days(in: environment)) else { throw StoreRefusal(.startDateTooFarInPast) }
        // Apple still accepts the member's older name.
        transactionId = (json.member("transactionId") ?? json.member("originalTransactionId")).map { $0.string ?? "" }
        onlyFailures = json["onlyFailures"] == .bool(true)
        if json.member("notificationType") != nil {
            type = try json.word("notificationType", else: .invalidNotificationType)
        }
        if json.member("notificationSubtype") != nil {
            subtype = try json.word("notificationSubtype", else: .invalidNotificationType)
        }
        if let subtype, type?.subtypes.contains(subtype) != true { throw StoreRefusal(.invalidNotificationType) }
        if type != nil, transactionId != nil { throw StoreRefusal(.multipleFiltersSupplied) }
    }

    /// Whether a notification passes all filters except that of the transaction id. The history contains only version 2
    /// notifications with at least one attempt.
    func passes(_ entry: Outbox.Entry) -> Bool {
        guard entry.signedPayload != nil, !entry.attempts.isEmpty else { return false }
        return entry.date >= start && entry.date <= end && !(onlyFailures && entry.isDelivered)
            && (type == nil || entry.type == type?.rawValue) && (subtype == nil || entry.subtype == subtype?.rawValue)
    }
}

extension Outbox.Entry {
    fileprivate var historyItem: NotificationHistoryResponseItem {
        var item = NotificationHistoryResponseItem()
        item.signedPayload = signedPayload
        item.sendAttempts = attempts
        return item
    }
}

extension NotificationTypeV2 {
    /// The subtypes that occur with this type.
    fileprivate var subtypes: [NotificationSubtype] {
        switch self {
        case .subscribed: [.initialBuy, .resubscribe]
        case .didRenew: [.billingRecovery]
        case .didFailToRenew: [.gracePeriod]
        case .expired: [.voluntary, .billingRetry, .priceIncrease, .productNotForSale]
        case .didChangeRenewalStatus: [.autoRenewEnabled, .autoRenewDisabled]
        case .didChangeRenewalPref: [.upgrade, .downgrade, .increaseQuantity, .decreaseQuantity]
        case .offerRedeemed: [.upgrade, .downgrade]
        case .priceIncrease: [.pending, .accepted]
        case .renewalExtension: [.summary, .failure]
        case .refund: [.seats]
        case .externalPurchaseToken: [.unreported, .created, .activeTokenReminder]
        case .gracePeriodExpired, .renewalExtended, .refundDeclined, .refundReversed, .revoke, .consumptionRequest,
            .oneTimeCharge, .rescindConsent, .metadataUpdate, .migration, .migrate, .priceChange, .unclaimSeats, .test:
            []
        }
    }
}

/// The text with which a client requests the next page of a notification history. It expires, and is valid only with
/// the body of the request for the first page.
private enum PaginationToken {
    /// The validity of a token, in milliseconds. It is measured by the wall clock, not by the world's virtual time,
    /// because clients read pages in real time. Apple's figure is not published.
    static let lifetime: Int64 = 600_000

    /// The token of a position: the ``Outbox/Entry/number`` from which the next page continues.
    static func text(from number: Int, _ call: StoreCall, body: JSONValue) -> String {
        let expiry = call.wallClock.milliseconds + lifetime
        return TokenPlan.base64URL(Array("\(number).\(expiry).\(digest(body))".utf8))
    }

    /// Reads the position in the parameter `paginationToken`; 0 without the parameter.
    static func read(_ call: StoreCall, body: JSONValue) throws(StoreRefusal) -> Int {
        guard let text = call.value("paginationToken") else { return 0 }
        let parts = String(decoding: Base64.decodeURL(Array(text.utf8)[...]) ?? [], as: UTF8.self).split(separator: ".")
        guard parts.count == 3, let number = Int(parts[0]), let expiry = Int64(parts[1]), parts[2] == digest(body)
        else {
            throw StoreRefusal(.invalidPaginationToken)
        }
        guard call.wallClock.milliseconds < expiry else { throw StoreRefusal(.paginationTokenExpired) }
        return number
    }

    /// A body's checksum (FNV-1a), independent of the order of its members. It detects a token that is sent with the
    /// wrong body by mistake. It is no protection against attackers.
    private static func digest(_ body: JSONValue) -> String {
        let members = (body.members ?? []).sorted { $0.name < $1.name }
        let hash = JSONValue.object(members).compactText.utf8.reduce(0xcbf2_9ce4_8422_2325 as UInt64) {
            ($0 ^ UInt64($1)) &* 0x100_0000_01b3
        }
        return String(hash, radix: 36)
    }
}
