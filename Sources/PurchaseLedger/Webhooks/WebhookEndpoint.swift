// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// An address that gets the events of an app, each in a signed HTTP request (a webhook).
///
/// The endpoint has no secret: a server derives the secret from its secret file, the endpoint's id and its
/// ``generation``.
public struct WebhookEndpoint: Hashable, Sendable {
    /// Whether events are delivered.
    public enum State: Hashable, Sendable {
        case active
        /// Paused by a person until it is resumed. Events that are erased meanwhile are never delivered.
        case paused
        /// Disabled by a server until a person resumes the endpoint. The reason is a sentence.
        case disabled(reason: String, at: Timestamp)
    }

    /// The unique id of the endpoint: lower-case letters and digits.
    public let id: String
    /// The app whose events are delivered.
    public let bundleId: String
    /// The address of the requests.
    public var url: String
    /// The kinds of the delivered events, words of ``LedgerEvent/Kind``; `nil` for all kinds.
    public var kinds: Set<String>?
    /// The environment of the delivered events; `nil` for all environments. Events about a customer as such are
    /// delivered in either case.
    public var environment: Environment?
    /// Whether events of a customer are delivered one after the other, so that a failed event holds back the later
    /// ones.
    public var isOrdered: Bool
    /// Whether each request also has an Ed25519 signature (`v1a`).
    public var isAsymmetric: Bool
    /// Whether events about payments from a backfill are delivered.
    public var wantsBackfilled: Bool
    /// The number of the secret, from 1. Each rotation raises it.
    public var generation = 1
    /// The time of the last rotation; `nil` before the first. For ``rotationPeriod`` after it, both secrets sign.
    public var rotatedAt: Timestamp?
    /// The time at which the endpoint was added.
    public let createdAt: Timestamp
    /// Whether events are delivered.
    public var state = State.active
    /// The number of changes by people, with replays. If it differs, the delivering server stores its results, and
    /// begins again with the changed endpoint.
    package internal(set) var revision = 0
    /// The time at which a person last resumed the endpoint or replayed events, and so said that the receiver works;
    /// `nil` before the first time. Events that failed before are tried at once, and days before do not count as days
    /// without a success.
    package internal(set) var mendedAt: Timestamp?
    /// The stored word of a state that only a newer version knows. This version takes the endpoint for disabled, and
    /// keeps the word until ``state`` changes.
    var newerState: String?
    /// The members of a newer version, in their order. This version keeps these members.
    var otherMembers: [JSONValue.Member] = []

    /// The time for which the previous secret signs too after a rotation.
    public static let rotationPeriod = Duration.seconds(86_400)

    /// The time after which an active endpoint that no server serves does not keep events from erasure any more: the
    /// time after which an endpoint without a success is disabled. A server does not serve an endpoint if it lacks the
    /// app or the secret file, or refuses the address.
    public static let maxUnserved = Duration.seconds(5 * 86_400)

    /// The maximum number of endpoints of an app. Each endpoint costs a server the delivery of every event.
    public static let maxCount = 20

    public init(
        id: String, of bundleId: String, url: String, kinds: Set<String>? = nil, environment: Environment? = nil,
        isOrdered: Bool = false, isAsymmetric: Bool = false, wantsBackfilled: Bool = true, createdAt: Timestamp
    ) {
        self.id = id
        self.bundleId = bundleId
        self.url = url
        self.kinds = kinds
        self.environment = environment
        self.isOrdered = isOrdered
        self.isAsymmetric = isAsymmetric
        self.wantsBackfilled = wantsBackfilled
        self.createdAt = createdAt
    }

    /// The numbers of the secrets that sign at an instant, the newest first.
    public func generations(at now: Timestamp) -> [Int] {
        // A rotation further ahead than the clocks of servers differ was noted by a clock that was ahead.
        guard generation > 1, let rotatedAt, now < rotatedAt.advanced(by: Self.rotationPeriod),
            rotatedAt <= now.advanced(by: Self.rotationPeriod)
        else { return [generation] }
        return [generation, generation - 1]
    }

    /// Resumes the deliveries of a paused or disabled endpoint, and lets a server try all failed events at once.
    public mutating func resume(at now: Timestamp) {
        state = .active
        mendedAt = now
    }

    /// A progress in which failures before ``mendedAt`` do not count.
    package func mended(_ progress: WebhookProgress) -> WebhookProgress {
        guard let mendedAt, let failingSince = progress.failingSince, failingSince <= mendedAt else { return progress }
        var progress = progress
        progress.failingSince = nil
        return progress
    }

    /// A failed delivery whose next attempt is due at once if the last was before ``mendedAt``.
    package func mended(_ failed: FailedDelivery) -> FailedDelivery {
        guard let mendedAt, let dueAt = failed.dueAt, failed.failedAt <= mendedAt else { return failed }
        var failed = failed
        failed.dueAt = min(dueAt, mendedAt)
        return failed
    }

    /// Whether an event is delivered to the endpoint.
    public func wants(_ event: LedgerEvent) -> Bool {
        if let kinds, !kinds.contains(event.kind.rawValue), event.kind != .ledgerRestored { return false }
        if !wantsBackfilled, event.kind.known?.isAboutPayment == true, event.content?.details?.backfilled == true {
            return false
        }
        guard let environment, event.scope.environment != environment else { return true }
        return event.kind.known?.isAboutCustomer == true
    }
}

extension WebhookEndpoint: RecordValue {
    /// The kind of the records of endpoints.
    package static let recordKind = RecordKind(rawValue: "webhookEndpoint")

    /// The key of the record for the endpoint of an app with an id.
    package static func key(_ id: String, of bundleId: String) -> RecordKey {
        RecordKey(recordKind, id, of: .app(bundleId))
    }

    /// The members of the JSON object in the record. Times are milliseconds since 1970.
    private enum Member {
        static let url = "url"
        static let kinds = "kinds"
        static let environment = "environment"
        static let isOrdered = "isOrdered"
        static let isAsymmetric = "isAsymmetric"
        static let wantsBackfilled = "wantsBackfilled"
        static let generation = "generation"
        static let rotatedAt = "rotatedAt"
        static let createdAt = "createdAt"
        static let state = "state"
        static let disabledBecause = "disabledBecause"
        static let disabledAt = "disabledAt"
        static let revision = "revision"
        static let mendedAt = "mendedAt"
        static let all: Set = [
            url, kinds, environment, isOrdered, isAsymmetric, wantsBackfilled, generation, rotatedAt, createdAt, state,
            disabledBecause, disabledAt, revision, mendedAt,
        ]
    }

    /// The words of ``State``.
    private enum Word {
        static let active = "active"
        static let paused = "paused"
        static let disabled = "disabled"
    }

    /// Reads an endpoint. If a member decides about deliveries and has an unknown form, reading fails: no receiver may
    /// get events for which its backend did not ask.
    @inline(never)
    public init(_ record: LedgerRecord) throws(LedgerStorageError) {
        guard case .app(let bundleId) = record.key.owner, let json = JSONValue(readable: record.payload),
            let members = json.members, let url = json[Member.url]?.string, let createdAt = json.time(Member.createdAt),
            case let kinds = json[Member.kinds], kinds == nil || kinds?.array?.allSatisfy({ $0.string != nil }) == true,
            case let word = json[Member.environment]?.string,
            case let environment = word.flatMap(Environment.init(rawValue:)),
            environment != nil || json[Member.environment] == nil,
            let generation = json[Member.generation]?.integer.flatMap({ Int(exactly: $0) }), generation > 0,
            let state = json[Member.state]?.string
        else { throw LedgerStorageError(unreadable: record.key) }
        self.init(
            id: record.key.name, of: bundleId, url: url, kinds: kinds?.array.map { Set($0.compactMap(\.string)) },
            environment: environment, isOrdered: json[Member.isOrdered] == .bool(true),
            isAsymmetric: json[Member.isAsymmetric] == .bool(true),
            wantsBackfilled: json[Member.wantsBackfilled] != .bool(false), createdAt: createdAt)
        self.generation = generation
        rotatedAt = json.time(Member.rotatedAt)
        revision = json[Member.revision]?.integer.flatMap { Int(exactly: $0) } ?? 0
        mendedAt = json.time(Member.mendedAt)
        otherMembers = members.filter { !Member.all.contains($0.name) }
        switch state {
        case Word.active: self.state = .active
        case Word.paused: self.state = .paused
        case Word.disabled:
            self.state = .disabled(
                reason: json[Member.disabledBecause]?.string ?? "", at: json.time(Member.disabledAt) ?? createdAt)
        default:
            newerState = state
            self.state = unknownState(state)
        }
    }

    /// The state of an endpoint whose stored state only a newer version knows.
    private func unknownState(_ word: String) -> State {
        .disabled(reason: "A newer version of this software has set the state \(word).", at: createdAt)
    }

    /// The stored form of the endpoint.
    public var record: LedgerRecord {
        var members = [JSONValue.Member(Member.url, .string(url))]
        if let kinds { members.append(.init(Member.kinds, .array(kinds.sorted().map { .string($0) }))) }
        if let environment { members.append(.init(Member.environment, .string(environment.rawValue))) }
        members += [
            .init(Member.isOrdered, .bool(isOrdered)), .init(Member.isAsymmetric, .bool(isAsymmetric)),
            .init(Member.generation, .number("\(generation)")), .init(Member.createdAt, .time(createdAt)),
        ]
        if !wantsBackfilled { members.append(.init(Member.wantsBackfilled, .bool(false))) }
        if let rotatedAt { members.append(.init(Member.rotatedAt, .time(rotatedAt))) }
        if let mendedAt { members.append(.init(Member.mendedAt, .time(mendedAt))) }
        if revision != 0 { members.append(.init(Member.revision, .number("\(revision)"))) }
        return LedgerRecord(
            Self.key(id, of: bundleId),
            payload: Array(JSONValue.object(members + stateMembers + otherMembers).compactText.utf8))
    }

    private var stateMembers: [JSONValue.Member] {
        if let newerState, state == unknownState(newerState) { return [.init(Member.state, .string(newerState))] }
        switch state {
        case .active: return [.init(Member.state, .string(Word.active))]
        case .paused: return [.init(Member.state, .string(Word.paused))]
        case .disabled(let reason, let time):
            return [
                .init(Member.state, .string(Word.disabled)), .init(Member.disabledBecause, .string(reason)),
                .init(Member.disabledAt, .time(time)),
            ]
        }
    }
}
