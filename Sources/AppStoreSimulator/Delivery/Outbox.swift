// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// The notifications that a simulated App Store sends, each with the attempts to send it.
///
/// It neither sends nor measures time: the caller takes what is due, sends it, and records the result.
///
/// It keeps the newest ``capacity`` notifications. When it is full, the oldest tenth is dropped, even what was not
/// delivered: these notifications are neither sent again nor in the notification history, and the status of a test
/// notification among them is 4040008, as if it had never been sent.
public struct Outbox: Sendable {
    /// What a notification says: the same bytes in every attempt.
    public enum Content: Hashable, Sendable {
        /// Version 2: a compact JWS.
        case signed(String)
        /// Version 1: JSON without a signature.
        case unsigned([UInt8])
    }

    /// A notification.
    public struct Entry: Hashable, Sendable {
        /// Ascends in the order in which notifications were added.
        public let number: Int
        /// `notificationUUID` of version 2.
        public let id: String
        /// When it happened.
        public let date: Timestamp
        /// Whose URL gets it.
        public let environment: Environment
        /// The name of the customer that it is about.
        public let customer: String?
        /// `notificationType`.
        public let type: String
        /// `subtype`.
        public let subtype: String?
        /// What it says.
        public let content: Content
        /// The attempts so far: at most six of version 2, four of version 1.
        public fileprivate(set) var attempts: [SendAttemptItem] = []
        /// When the next attempt is due; `nil` if there is none, or one is on its way.
        public fileprivate(set) var nextAttempt: Timestamp?

        /// Whether an attempt succeeded.
        public var isDelivered: Bool { attempts.contains { $0.sendAttemptResult == .success } }
    }

    /// What is to be sent now.
    public struct Delivery: Hashable, Sendable {
        /// The notification's number.
        public let number: Int
        /// Whose URL gets it.
        public let environment: Environment
        /// What it says.
        public let content: Content
        /// 1 for the first attempt.
        public let attempt: Int
        /// When it was taken to be sent, by the world's clock. The pause until the next attempt begins then.
        public let date: Timestamp
        /// Whether it is sent once more although it was sent. Its result is not recorded.
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

    /// The hours from each attempt of version 2 to the next one, in production. The sandbox sends once.
    public static let retryHours: [Int64] = [1, 12, 24, 48, 72]

    /// The same of version 1.
    public static let retryHoursV1: [Int64] = [6, 24, 48]

    /// How many notifications are kept, the newest ones: some 20 KB each, so about 200 MB.
    public static let capacity = 10_000

    /// In the order in which they were added.
    public private(set) var entries: [Entry] = []
    private var added = 0
    private let capacity: Int

    /// Creates an empty outbox.
    public init() {
        self.init(capacity: Self.capacity)
    }

    package init(capacity: Int) {
        self.capacity = capacity
    }

    /// When the earliest attempt is due that is not on its way.
    public var nextDue: Timestamp? { entries.lazy.compactMap(\.nextAttempt).min() }

    /// Adds a notification.
    ///
    /// - Parameters:
    ///   - id: Another `notificationUUID` than the occurrence's, and so on.
    ///   - due: When the first attempt is due.
    mutating func add(
        _ occurrence: Occurrence, id: String, type: String, subtype: String? = nil, _ content: Content, due: Timestamp
    ) {
        // A tenth at once, so that not every addition moves all others.
        if entries.count >= capacity { entries.removeFirst(max(1, capacity / 10)) }
        entries.append(
            Entry(
                number: added, id: id, date: occurrence.date, environment: occurrence.environment,
                customer: occurrence.customer, type: type, subtype: subtype, content: content, nextAttempt: due))
        added += 1
    }

    /// The attempts that are due. Each is on its way from now on: it is not due again before its result is recorded.
    ///
    /// - Parameter environment: `nil` for both.
    public mutating func take(dueAt now: Timestamp, in environment: Environment? = nil) -> [Delivery] {
        var deliveries: [Delivery] = []
        for index in entries.indices {
            guard let due = entries[index].nextAttempt, due <= now else { continue }
            guard environment == nil || entries[index].environment == environment else { continue }
            entries[index].nextAttempt = nil
            let entry = entries[index]
            deliveries.append(
                Delivery(
                    number: entry.number, environment: entry.environment, content: entry.content,
                    attempt: entry.attempts.count + 1, date: now))
        }
        return deliveries
    }

    /// Records the result of an attempt, and plans the next one if it failed.
    public mutating func record(_ result: SendAttemptResult, of delivery: Delivery) {
        guard !delivery.isDuplicate, let first = entries.first?.number,
            entries.indices.contains(delivery.number - first)
        else { return }
        let index = delivery.number - first
        var item = SendAttemptItem()
        item.attemptDate = delivery.date
        item.sendAttemptResult = Open(result)
        entries[index].attempts.append(item)
        let attempts = entries[index].attempts.count
        let hours = entries[index].retryHours
        guard result != .success, delivery.environment == .production, attempts <= hours.count else { return }
        let wait = hours[attempts - 1] * 3_600_000
        entries[index].nextAttempt = Timestamp(milliseconds: delivery.date.milliseconds + wait)
    }
}

extension Outbox.Entry {
    /// The signed notification of version 2; `nil` of version 1.
    public var signedPayload: String? { if case .signed(let payload) = content { payload } else { nil } }

    fileprivate var retryHours: [Int64] { signedPayload == nil ? Outbox.retryHoursV1 : Outbox.retryHours }
}

extension SendAttemptResult {
    /// The result of an attempt that was answered with an HTTP status.
    public init(httpStatus: Int) {
        self = (200...206).contains(httpStatus) ? .success : .unsuccessfulHTTPResponseCode
    }
}
