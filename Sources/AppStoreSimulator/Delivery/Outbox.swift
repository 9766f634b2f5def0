// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// The notifications that a simulated App Store sends, each with the attempts to send it.
///
/// It neither sends nor measures time: the caller takes what is due, sends it, and records the result.
public struct Outbox: Sendable {
    /// A notification.
    public struct Entry: Hashable, Sendable {
        /// Ascends in the order in which notifications were added.
        public let number: Int
        /// `notificationUUID`.
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
        /// The signed notification: the same bytes in every attempt.
        public let signedPayload: String
        /// The attempts so far: at most six.
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
        /// `signedPayload` of the body.
        public let signedPayload: String
        /// 1 for the first attempt.
        public let attempt: Int
        /// Whether it is sent once more although it was sent. Its result is not recorded.
        public var isDuplicate = false

        /// The body to send: `{"signedPayload":"…"}`. A compact JWS has no character that JSON must escape.
        public var body: [UInt8] { Array(#"{"signedPayload":"\#(signedPayload)"}"#.utf8) }
    }

    /// The hours from each attempt to the next one, in production. The sandbox sends once.
    public static let retryHours: [Int64] = [1, 12, 24, 48, 72]

    /// How many notifications are kept, the newest ones: some 20 KB each, so about 200 MB.
    public static let capacity = 10_000

    /// In the order in which they were added.
    public private(set) var entries: [Entry] = []
    private var added = 0

    /// Creates an empty outbox.
    public init() {}

    /// When the earliest attempt is due that is not on its way.
    public var nextDue: Timestamp? { entries.lazy.compactMap(\.nextAttempt).min() }

    /// Adds a notification.
    ///
    /// - Parameters:
    ///   - signedPayload: The signed notification of the occurrence.
    ///   - id: Another `notificationUUID` than the occurrence's, and so on.
    ///   - due: When the first attempt is due.
    mutating func add(
        _ occurrence: Occurrence, id: String, type: String, subtype: String?, signed signedPayload: String,
        due: Timestamp
    ) {
        // A tenth at once, so that not every addition moves all others.
        if entries.count >= Self.capacity { entries.removeFirst(Self.capacity / 10) }
        entries.append(
            Entry(
                number: added, id: id, date: occurrence.date, environment: occurrence.environment,
                customer: occurrence.customer, type: type, subtype: subtype, signedPayload: signedPayload,
                nextAttempt: due))
        added += 1
    }

    /// The attempts that are due. Each is on its way from now on: it is not due again before its result is recorded.
    public mutating func take(dueAt now: Timestamp) -> [Delivery] {
        var deliveries: [Delivery] = []
        for index in entries.indices {
            guard let due = entries[index].nextAttempt, due <= now else { continue }
            entries[index].nextAttempt = nil
            let entry = entries[index]
            deliveries.append(
                Delivery(
                    number: entry.number, environment: entry.environment, signedPayload: entry.signedPayload,
                    attempt: entry.attempts.count + 1))
        }
        return deliveries
    }

    /// Records the result of an attempt, and plans the next one if it failed.
    ///
    /// - Parameter now: When it was sent, by the world's clock.
    public mutating func record(_ result: SendAttemptResult, of delivery: Delivery, at now: Timestamp) {
        guard !delivery.isDuplicate, let first = entries.first?.number,
            entries.indices.contains(delivery.number - first)
        else { return }
        let index = delivery.number - first
        var item = SendAttemptItem()
        item.attemptDate = now
        item.sendAttemptResult = Open(result)
        entries[index].attempts.append(item)
        let attempts = entries[index].attempts.count
        guard result != .success, delivery.environment == .production, attempts <= Self.retryHours.count else { return }
        let wait = Self.retryHours[attempts - 1] * 3_600_000
        entries[index].nextAttempt = Timestamp(milliseconds: now.milliseconds + wait)
    }
}

extension SendAttemptResult {
    /// The result of an attempt that was answered with an HTTP status.
    public init(httpStatus: Int) {
        self = (200...206).contains(httpStatus) ? .success : .unsuccessfulHTTPResponseCode
    }
}
