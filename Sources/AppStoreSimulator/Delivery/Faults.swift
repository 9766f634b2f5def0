// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// The faults of a simulated App Store. Shares are probabilities from 0 to 1.
public struct Faults: Hashable, Sendable {
    /// The share of attempts that are sent twice.
    public var duplicates = 0.0
    /// The share of groups of simultaneously due notifications that are sent in random order.
    public var reorderings = 0.0
    /// The share of notifications whose first attempt is late.
    public var delays = 0.0
    /// The longest delay of a late notification, in seconds of the world's time.
    public var longestDelay: Int64 = 900
    /// The share of attempts that are lost on the way. The history shows NO_RESPONSE for a lost attempt.
    public var losses = 0.0
    /// The share of notifications followed by an additional notification with an unknown type.
    public var unknownTypes = 0.0
    /// The share of version 2 notifications followed by an additional notification with an unknown subtype.
    public var unknownSubtypes = 0.0
    /// The share of notifications with an additional member that Apple's API does not have.
    public var unknownMembers = 0.0
    /// The share of requests that the store answers with 429.
    public var rateLimits = 0.0
    /// The pause after a random or planned 429, in seconds of real time. If a client has exhausted its hourly budget,
    /// the 429 names the start of the next hour instead.
    public var retryAfter: Int64 = 1
    /// The factor on Apple's hourly budgets, from 0 to 1,000: 1 for Apple's own numbers; `nil` for no budgets. See
    /// ``StoreRoute/callsPerHour(in:scale:)``.
    public var rateLimitScale: Double?
    /// The share of requests that the store answers with error 5000000.
    public var internalErrors = 0.0
    /// The share of requests that the store answers with error 5000001.
    public var retryableErrors = 0.0
    /// The share of requests that take effect but get no response.
    public var timeouts = 0.0
    /// The share of pages of the notification history whose token is refused as expired.
    public var expiredCursors = 0.0
    /// The errors for the next requests to a route, first error first.
    public var failNext: [StoreRoute: [APIErrorCode]] = [:]

    /// Creates a configuration without faults.
    public init() {}

    /// Whether notifications arrive in the order of their creation.
    package var keepOrder: Bool { reorderings == 0 && delays == 0 }

    /// Takes the error that the next request to a route gets.
    mutating func takeFailure(of route: StoreRoute) -> APIErrorCode? {
        guard let code = failNext[route]?.first else { return nil }
        failNext[route]?.removeFirst()
        if failNext[route]?.isEmpty == true { failNext[route] = nil }
        return code
    }
}

// MARK: - Defaults

extension Faults {
    /// A store without faults: for demos, and for tests of a single subject.
    public static let none = Faults()

    /// A store with the faults that a real network has at times: the default of a simulator.
    public static let unkind: Faults = {
        var faults = Faults()
        // Apple does not promise to send a notification only once. A server must detect repetitions by
        // `notificationUUID`.
        faults.duplicates = 0.1
        // Apple promises no order. A server must order by `signedDate`.
        faults.reorderings = 0.2
        // When a late notification arrives, the server may know a newer state already.
        faults.delays = 0.1
        // In production, a lost notification comes again an hour later; in the sandbox, never. A server must therefore
        // read the notification history.
        faults.losses = 0.02
        // Apple adds types without notice. A server must store them and answer 200.
        faults.unknownTypes = 0.01
        // Apple adds subtypes too.
        faults.unknownSubtypes = 0.01
        // Apple adds members all the time, so unknown members are more frequent than unknown types.
        faults.unknownMembers = 0.05
        // A client must wait until the time in `Retry-After`.
        faults.rateLimits = 0.02
        // Apple's own numbers of requests per hour.
        faults.rateLimitScale = 1.0
        // A client may retry the request. It must not conclude from this error that a transaction, say, does not exist.
        faults.internalErrors = 0.01
        // A client should retry.
        faults.retryableErrors = 0.01
        // A client needs a timeout of its own. Each missing response costs the client this timeout, so the share is
        // low.
        faults.timeouts = 0.002
        // A client must begin again with the first page.
        faults.expiredCursors = 0.02
        return faults
    }()
}

// MARK: - JSON

extension Faults {
    private typealias Share = (name: String, path: any WritableKeyPath<Faults, Double> & Sendable, meaning: String)
    private typealias Seconds = (name: String, path: any WritableKeyPath<Faults, Int64> & Sendable, meaning: String)

    private static let shares: [Share] = [
        ("duplicates", \.duplicates, "the share of attempts that are sent twice, 0 to 1"),
        ("reorderings", \.reorderings, "the share of batches of notifications that are sent in a different order"),
        ("delays", \.delays, "the share of notifications whose first attempt is late"),
        ("losses", \.losses, "the share of attempts that are lost; the history has NO_RESPONSE"),
        ("unknownTypes", \.unknownTypes, "the share of notifications before a notification of an unknown type"),
        ("unknownSubtypes", \.unknownSubtypes, "the same with an unknown subtype"),
        ("unknownMembers", \.unknownMembers, "the share of notifications with an unknown member"),
        ("rateLimits", \.rateLimits, "the share of API requests that are answered 429"),
        ("internalErrors", \.internalErrors, "the share of API requests that are answered 5000000"),
        ("retryableErrors", \.retryableErrors, "the share of API requests that are answered 5000001"),
        ("timeouts", \.timeouts, "the share of API requests that take effect and are never answered"),
        ("expiredCursors", \.expiredCursors, "the share of pages of the notification history with an expired token"),
    ]

    private static let seconds: [Seconds] = [
        ("longestDelay", \.longestDelay, "how late a first attempt is at most, in virtual seconds"),
        ("retryAfter", \.retryAfter, "the seconds of real time after such a 429 until calls may resume"),
    ]

    /// The members of the JSON object, each with its meaning.
    static let members: [(name: String, meaning: String)] =
        shares.map { ($0.name, $0.meaning) } + seconds.map { ($0.name, $0.meaning) } + [
            ("rateLimitScale", "the share of Apple's hourly budgets, 0 to 1000; null for none"),
            ("failNext", "the error codes that the next requests to an endpoint meet, by the endpoint's name"),
        ]

    /// The longest time in seconds: a day, so that sums stay far inside the calendar.
    private static let maxSeconds: Int64 = 86_400
    /// The largest ``rateLimitScale``. With this scale, no client makes as many calls as its budget permits.
    static let maxScale = 1000.0
    /// The most planned errors of a route, so that a request cannot exhaust the memory.
    private static let plannedFailures = 1000

    /// All faults as a JSON object with the names of the properties.
    public var json: JSONValue {
        var members = Self.shares.map { JSONValue.Member($0.name, .number("\(self[keyPath: $0.path])")) }
        members += Self.seconds.map { JSONValue.Member($0.name, .number("\(self[keyPath: $0.path])")) }
        members.append(.init("rateLimitScale", rateLimitScale.map { .number("\($0)") } ?? .null))
        let failures = failNext.sorted { $0.key.rawValue < $1.key.rawValue }.map { route, codes in
            JSONValue.Member(route.rawValue, .array(codes.map { .number("\($0.rawValue)") }))
        }
        return .object(members + [.init("failNext", .object(failures))])
    }

    /// Sets the faults in a JSON object, and keeps all other faults.
    ///
    /// ```json
    /// {"duplicates": 0.5, "failNext": {"transactionInfo": [4040002, 4290000]}}
    /// ```
    ///
    /// - Throws: ``SimulatorError`` if a member is unknown or has no valid value. All faults then stay as before.
    public mutating func set(_ json: JSONValue) throws(SimulatorError) {
        guard let members = json.members else { throw SimulatorError("The faults are not a JSON object") }
        var faults = self
        for member in members { try faults.set(member.name, member.value) }
        self = faults
    }

    private mutating func set(_ name: String, _ value: JSONValue) throws(SimulatorError) {
        if let share = Self.shares.first(where: { $0.name == name }) {
            self[keyPath: share.path] = try Self.decimal(name, value, in: 0...1)
        } else if let time = Self.seconds.first(where: { $0.name == name }) {
            self[keyPath: time.path] = try Self.number(name, value, in: 0...Self.maxSeconds)
        } else if name == "rateLimitScale" {
            rateLimitScale = value == .null ? nil : try Self.decimal(name, value, in: 0...Self.maxScale)
        } else if name == "failNext" {
            failNext = try Self.failures(value)
        } else {
            let known = Self.members.map(\.name).joined(separator: ", ")
            throw SimulatorError("There is no fault '\(name)': only \(known)")
        }
    }

    private static func decimal(
        _ name: String, _ value: JSONValue, in range: ClosedRange<Double>
    ) throws(SimulatorError) -> Double {
        guard case .number(let literal) = value, let number = Double(literal), range.contains(number) else {
            throw SimulatorError(
                "'\(name)' is not a number from \(Int(range.lowerBound)) to \(Int(range.upperBound))")
        }
        return number
    }

    private static func number(
        _ name: String, _ value: JSONValue, in range: ClosedRange<Int64>
    ) throws(SimulatorError) -> Int64 {
        guard let number = value.integer, range.contains(number) else {
            throw SimulatorError(
                "'\(name)' is not a number from \(range.lowerBound) to \(range.upperBound)")
        }
        return number
    }

    private static func failures(_ json: JSONValue) throws(SimulatorError) -> [StoreRoute: [APIErrorCode]] {
        guard let members = json.members else { throw SimulatorError("'failNext' is not a JSON object") }
        var failures: [StoreRoute: [APIErrorCode]] = [:]
        for member in members {
            guard let route = StoreRoute(rawValue: member.name) else {
                let known = StoreRoute.allCases.map(\.rawValue).joined(separator: ", ")
                throw SimulatorError("'failNext' names no route '\(member.name)': only \(known)")
            }
            let numbers = member.value.array ?? [member.value]
            let codes = numbers.compactMap { $0.integer.flatMap { APIErrorCode(rawValue: $0) } }
            guard codes.count == numbers.count, codes.count <= plannedFailures else {
                throw SimulatorError(
                    "'failNext' of \(member.name) is not a list of at most \(plannedFailures) error codes")
            }
            failures[route] = codes.isEmpty ? nil : codes
        }
        return failures
    }
}
