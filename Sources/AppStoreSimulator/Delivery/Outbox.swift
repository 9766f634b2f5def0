// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// The notifications of a simulated App Store, each with its delivery attempts.
///
/// The outbox has no connection and no clock. The caller takes the due deliveries, sends them, and records the results.
///
/// The outbox keeps the newest ``capacity`` notifications. If a notification is added to a full outbox, the oldest
/// tenth of the notifications is dropped, even undelivered ones. A dropped notification is not sent again and is absent
/// from the notification history. The status of a dropped test notification is 4040008, as if the notification had
/// never been sent.
public struct Outbox: Sendable {
    /// The content of a notification. Every attempt sends the same bytes.
    public enum Content: Hashable, Sendable {
        /// Version 2: a compact JWS.
        case signed(String)
        /// Version 1: JSON without a signature.
        case unsigned([UInt8])
    }

    /// A notification with its delivery attempts.
    public struct Entry: Hashable, Sendable {
        /// The notification's number. Numbers ascend in the order of addition.
        public let number: Int
        /// `notificationUUID` of version 2.
        public let id: String
        /// The time of the event.
        public let date: Timestamp
        /// The environment whose URL receives the notification.
        public let environment: Environment
        /// The name of the notification's customer, if any.
        public let customer: String?
        /// `notificationType`.
        public let type: String
        /// `subtype`.
        public let subtype: String?
        /// The content.
        public let content: Content
        /// The attempts so far: at most six for version 2, and four for version 1.
        public fileprivate(set) var attempts: [SendAttemptItem] = []
        /// The due time of the next attempt; `nil` if no attempt is planned, or an attempt is on its way.
        public fileprivate(set) var nextAttempt: Timestamp?
        /// The number of the last result in ``Outbox/results``; 0 without a result.
        fileprivate var lastResult = 0

        /// Whether an attempt succeeded.
        public var isDelivered: Bool { attempts.contains { $0.sendAttemptResult == .success } }
    }

    /// A due attempt, to be sent now.
    public struct Delivery: Hashable, Sendable {
        /// The notification's number.
        public let number: Int
        /// The environment whose URL receives the notification.
        public let environment: Environment
        /// The content.
        public let content: Content
        /// The number of the attempt; the first is 1.
        public let attempt: Int
        /// The time at which the caller took the delivery, by the world's clock. The hours before the next attempt are
        /// counted from this time.
        public let date: Timestamp
        /// Whether the delivery is a duplicate. The outbox does not record the result of a duplicate.
        public var isDuplicate = false

        /// The body to send: `{"signedPayload":"…"}`, or the members of version 1.
        public var body: [UInt8] {
            switch content {
            // A compact JWS has no character that JSON must escape.
            case .signed(let payload): Array(#"{"signedPayload":"\#(payload)"}"#.utf8)
            case .unsigned(let json): json
            }
        }
    }

    /// The hours from each attempt of version 2 to the next attempt, in production. The sandbox sends once.
    public static let retryHours: [Int64] = [1, 12, 24, 48, 72]

    /// The hours from each attempt of version 1 to the next attempt, in production.
    public static let retryHoursV1: [Int64] = [6, 24, 48]

    /// The most notifications in an outbox. A notification takes some 20 KB, so a full outbox takes about 200 MB.
    public static let capacity = 10_000

    /// The notifications in the order of addition.
    public private(set) var entries: [Entry] = []
    private var added = 0
    /// The numbers of the notifications with a planned attempt. Usually they are few.
    private var planned: Set<Int> = []
    /// The numbers of the notifications with an attempt on its way: taken, and its result not recorded yet.
    private var onTheWay: Set<Int> = []
    /// The number of recorded results.
    private var results = 0
    /// The number of notifications that were delivered.
    private var delivered = 0
    private let capacity: Int

    /// Creates an empty outbox.
    public init() {
        self.init(capacity: Self.capacity)
    }

    package init(capacity: Int) {
        self.capacity = capacity
    }

    /// The due time of the earliest planned attempt; `nil` if none is planned. An attempt that was taken, and whose
    /// result is not yet recorded, is not planned.
    public var nextDue: Timestamp? { planned.lazy.compactMap { entries[index(of: $0)].nextAttempt }.min() }

    /// Whether an attempt of certain notifications is due or on its way.
    package func isBusy(at now: Timestamp, with numbers: Range<Int> = 0..<Int.max) -> Bool {
        onTheWay.contains(where: numbers.contains)
            || planned.contains { numbers.contains($0) && (entries[index(of: $0)].nextAttempt ?? now) <= now }
    }

    private func index(of number: Int) -> Int { number - (entries.first?.number ?? 0) }

    /// Adds a notification.
    ///
    /// - Parameters:
    ///   - id: `notificationUUID`. Id, type and subtype can differ from those of the occurrence (the event), because a
    ///     fault can add notifications.
    ///   - due: The due time of the first attempt.
    mutating func add(
        _ occurrence: Occurrence, id: String, type: String, subtype: String? = nil, _ content: Content, due: Timestamp
    ) {
        // Dropping a tenth at once is cheaper than moving all entries at every addition.
        if entries.count >= capacity {
            let count = max(1, capacity / 10)
            planned.subtract(entries.prefix(count).map(\.number))
            entries.removeFirst(count)
        }
        entries.append(
            Entry(
                number: added, id: id, date: occurrence.date, environment: occurrence.environment,
                customer: occurrence.customer, type: type, subtype: subtype, content: content, nextAttempt: due))
        planned.insert(added)
        added += 1
    }

    /// Takes the due attempts. A taken attempt is on its way, and does not become due again before its result is
    /// recorded.
    ///
    /// - Parameter environment: `nil` for both environments.
    public mutating func take(dueAt now: Timestamp, in environment: Environment? = nil) -> [Delivery] {
        var deliveries: [Delivery] = []
        for number in planned.sorted() {
            let index = index(of: number)
            guard let due = entries[index].nextAttempt, due <= now else { continue }
            guard environment == nil || entries[index].environment == environment else { continue }
            entries[index].nextAttempt = nil
            planned.remove(number)
            onTheWay.insert(number)
            let entry = entries[index]
            deliveries.append(
                Delivery(
                    number: entry.number, environment: entry.environment, content: entry.content,
                    attempt: entry.attempts.count + 1, date: now))
        }
        return deliveries
    }

    /// Records the result of an attempt. After a failure in production, the outbox plans the next attempt, if any is
    /// left.
    ///
    /// - Parameter result: `nil` if the attempt was not made, because there is no URL any more.
    public mutating func record(_ result: SendAttemptResult?, of delivery: Delivery) {
        guard !delivery.isDuplicate else { return }
        onTheWay.remove(delivery.number)
        let index = index(of: delivery.number)
        guard let result, entries.indices.contains(index) else { return }
        results += 1
        if result == .success, !entries[index].isDelivered { delivered += 1 }
        entries[index].lastResult = results
        var item = SendAttemptItem()
        item.attemptDate = delivery.date
        item.sendAttemptResult = Open(result)
        entries[index].attempts.append(item)
        let attempts = entries[index].attempts.count
        let hours = entries[index].retryHours
        guard result != .success, delivery.environment == .production, attempts <= hours.count else { return }
        let wait = hours[attempts - 1] * 3_600_000
        entries[index].nextAttempt = Timestamp(milliseconds: delivery.date.milliseconds + wait)
        planned.insert(delivery.number)
    }
}

// MARK: - What became of notifications

extension Outbox {
    /// An instant in the life of an outbox.
    struct Mark: Hashable, Sendable {
        /// The number of all notifications so far, and therefore the number of the next.
        let added: Int
        fileprivate let results: Int
        fileprivate let delivered: Int
    }

    /// The present instant.
    var mark: Mark { Mark(added: added, results: results, delivered: delivered) }

    /// What became of certain notifications.
    struct Tally: Hashable, Sendable {
        /// The notifications that were delivered.
        var delivered: Int
        /// The notifications without a successful attempt so far. The App Store may try again later.
        var failed: Int
        /// The notifications whose first attempt is due later.
        var postponed: Int
    }

    /// What became of the notifications with certain numbers; for `nil`, of all that were added since `mark`, or had an
    /// attempt since.
    func tally(of numbers: Range<Int>?, since mark: Mark, at now: Timestamp) -> Tally {
        let all = entries.lazy.filter {
            numbers?.contains($0.number) ?? ($0.number >= mark.added || $0.lastResult > mark.results)
        }
        return Tally(
            // The outbox may have dropped some of the many notifications of a long turn of the clock.
            delivered: numbers == nil ? delivered - mark.delivered : all.count(where: \.isDelivered),
            failed: all.count { !$0.isDelivered && !$0.attempts.isEmpty },
            postponed: all.count { $0.attempts.isEmpty && $0.nextAttempt ?? now > now })
    }
}

extension Outbox.Entry {
    /// The signed notification of version 2; `nil` for version 1.
    public var signedPayload: String? { if case .signed(let payload) = content { payload } else { nil } }

    fileprivate var retryHours: [Int64] { signedPayload == nil ? Outbox.retryHoursV1 : Outbox.retryHours }
}

extension SendAttemptResult {
    /// The result of an attempt that got a response with this HTTP status.
    public init(httpStatus: Int) {
        self = (200...206).contains(httpStatus) ? .success : .unsuccessfulHTTPResponseCode
    }
}
