// SPDX-License-Identifier: Apache-2.0

// The kept attempts of an endpoint: a ring of records. A commit writes only the records in which new attempts have
// their places, and new attempts replace the oldest.

import AppStoreModel

/// Consecutive attempts of an endpoint: a page of the ring.
struct WebhookAttempts: RecordValue {
    /// The endpoint.
    let endpoint: String
    /// The app of the endpoint.
    let bundleId: String
    /// The number of the first attempt of the page.
    let first: Int64
    /// The attempts in their order.
    private(set) var attempts: [WebhookAttempt] = []

    /// The number of attempts in a full page. With the longest answers, in which JSON doubles each byte, a page has
    /// some 45 KB, below ``LedgerRecord/payloadLimit``.
    static let size = 16

    /// The number of pages. While the newest page is begun, the ring still has the newest ``WebhookAttempt/kept``.
    static let pages = WebhookAttempt.kept / size + 2

    /// The number of places in the ring.
    static let places = size * pages

    /// The maximum length of a stored failure in Unicode scalars.
    private static let failureLimit = 120

    init(of endpoint: String, of bundleId: String, first: Int64) {
        self.endpoint = endpoint
        self.bundleId = bundleId
        self.first = first
    }

    static let recordKind = RecordKind(rawValue: "webhookAttempts")

    /// The key of the page with the place of an attempt.
    static func key(_ number: Int64, of endpoint: String, of bundleId: String) -> RecordKey {
        let page = number / Int64(size) % Int64(pages)
        return RecordKey(recordKind, "\(endpoint) \(page)", of: .app(bundleId))
    }

    /// The keys of all pages of an endpoint.
    static func keys(of endpoint: String, of bundleId: String) -> [RecordKey] {
        (0..<pages).map { key(Int64($0 * size), of: endpoint, of: bundleId) }
    }

    /// The keys of the pages with the places of some attempts.
    static func keys(_ numbers: Range<Int64>, of endpoint: String, of bundleId: String) -> Set<RecordKey> {
        guard numbers.count < places else { return Set(keys(of: endpoint, of: bundleId)) }
        let begins = stride(from: numbers.lowerBound / Int64(size) * Int64(size), to: numbers.upperBound, by: size)
        return Set(begins.map { key($0, of: endpoint, of: bundleId) })
    }

    /// The attempts with their numbers.
    var numbered: [(number: Int64, attempt: WebhookAttempt)] {
        attempts.enumerated().map { (first + Int64($0), $1) }
    }

    /// Whether the attempt with a number is the next attempt of this page.
    func isNext(_ number: Int64) -> Bool {
        first + Int64(attempts.count) == number && first / Int64(Self.size) == number / Int64(Self.size)
    }

    mutating func append(_ attempt: WebhookAttempt) { attempts.append(attempt) }
}

// MARK: - As a record

extension WebhookAttempts {
    /// The members of the JSON object in the record. Times are milliseconds since 1970.
    private enum Member {
        static let first = "first"
        static let attempts = "attempts"
        static let event = "event"
        static let at = "at"
        static let milliseconds = "milliseconds"
        static let status = "status"
        static let failure = "failure"
        static let answer = "answer"
    }

    @inline(never)
    init(_ record: LedgerRecord) throws(LedgerStorageError) {
        guard case .app(let bundleId) = record.key.owner,
            let endpoint = record.key.name.split(separator: " ").first.map(String.init),
            let json = JSONValue(readable: record.payload), let first = json[Member.first]?.integer,
            (0...(Int64.max / 2)).contains(first), let attempts = json[Member.attempts]?.array
        else { throw LedgerStorageError(unreadable: record.key) }
        self.init(of: endpoint, of: bundleId, first: first)
        for json in attempts {
            guard let attempt = Self.attempt(json) else { throw LedgerStorageError(unreadable: record.key) }
            append(attempt)
        }
    }

    private static func attempt(_ json: JSONValue) -> WebhookAttempt? {
        guard let event = json[Member.event]?.string, let at = json[Member.at]?.integer,
            let milliseconds = json[Member.milliseconds]?.integer.flatMap({ Int(exactly: $0) })
        else { return nil }
        return WebhookAttempt(
            of: EventCursor(rawValue: event), at: Timestamp(milliseconds: at), milliseconds: milliseconds,
            status: json[Member.status]?.integer.flatMap { Int(exactly: $0) }, failure: json[Member.failure]?.string,
            answer: json[Member.answer]?.string ?? "")
    }

    var record: LedgerRecord {
        let json = JSONValue.object([
            .init(Member.first, .number("\(first)")), .init(Member.attempts, .array(attempts.map(Self.json))),
        ])
        return LedgerRecord(
            Self.key(first, of: endpoint, of: bundleId), payload: Array(json.compactText.utf8))
    }

    private static func json(_ attempt: WebhookAttempt) -> JSONValue {
        var members: [JSONValue.Member] = [
            .init(Member.event, .string(attempt.event.rawValue)),
            .init(Member.at, .number("\(attempt.at.milliseconds)")),
            .init(Member.milliseconds, .number("\(attempt.milliseconds)")),
        ]
        if let status = attempt.status { members.append(.init(Member.status, .number("\(status)"))) }
        if let failure = attempt.failure {
            members.append(.init(Member.failure, .string(failure.kept(scalars: failureLimit))))
        }
        members.append(.init(Member.answer, .string(attempt.answer.kept(bytes: WebhookAttempt.answerLimit))))
        return .object(members)
    }
}

extension String {
    /// The beginning of the text, in which control characters are blanks.
    fileprivate func kept(scalars: Int = .max, bytes: Int = .max) -> String {
        var kept = String.UnicodeScalarView()
        var left = bytes
        for scalar in unicodeScalars.prefix(scalars) {
            let scalar = scalar.properties.generalCategory == .control ? " " : scalar
            left -= UTF8.width(scalar)
            guard left >= 0 else { break }
            kept.append(scalar)
        }
        return String(kept)
    }
}
