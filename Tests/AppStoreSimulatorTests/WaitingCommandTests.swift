// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import Testing

/// Commands that wait until the server under test has answered their notifications, without a socket.
@Suite struct WaitingCommandTests {
    private static let buy = "POST /customers/anna/buy"
    private static let monthly = #"{"product":"com.example.pro.monthly"}"#
    private static let coins = #"{"product":"com.example.coins"}"#
    private static let advance = "POST /clock/advance"
    private static let year = #"{"days":365}"#

    /// A session with a customer, and with a URL for notifications.
    private static func session(speed: Double = 0) throws -> ControlTests.Session {
        var session = try ControlTests.Session(speed: speed)
        try session.run([
            #"POST /settings {"notify":"https://example.com/notifications"}"#, #"POST /customers {"name":"anna"}"#,
        ])
        return session
    }

    private static let results: [(SendAttemptResult?, String)] = [
        (.success, "1 0 0 true"), (.timedOut, "0 1 0 true"),
        // The URL was cleared meanwhile.
        (nil, "0 0 0 true"),
    ]

    @Test(arguments: results) func `a purchase is answered after its notification, and says what became of it`(
        result: SendAttemptResult?, fates: String
    ) throws {
        var session = try Self.session()
        let response = session.begin(Self.buy, Self.monthly)
        #expect(try session.complete(response) == nil)
        try session.deliver(result)
        let answer = try #require(try session.complete(response))
        #expect(answer.fates == fates && answer["notificationCount"]?.integer == 1)
        #expect(answer["notifications"]?.array?.first?["type"]?.string == "SUBSCRIBED")
        #expect(answer["customer"]?["subscriptions"]?.array?.count == 1)
        #expect(answer.members?.last?.name == "jwsRepresentation")
        #expect(session.simulator.watchers == 0)
    }

    @Test func `a year passes from one renewal to the next, and each is delivered at its time`() throws {
        var session = try Self.session()
        try session.run(["\(Self.buy) \(Self.monthly)"])
        try session.deliver()
        let response = session.begin(Self.advance, Self.year)
        var dates: [Timestamp] = []
        var answer = try session.complete(response)
        // More turns than renewals, so that a fault ends the test.
        for _ in 0..<20 where answer == nil {
            let now = session.simulator.store.world.now
            let delivered = try session.deliver()
            #expect(delivered == [now])
            dates += delivered
            answer = try session.complete(response)
        }
        #expect(answer?.fates == "12 0 0 true" && answer?["notificationCount"]?.integer == 12)
        let said = answer?["notifications"]?.array?.compactMap { $0["date"]?.string }
        #expect(said == dates.map(\.iso8601) && Set(dates).count == 12)
        #expect(answer?["date"]?.string == "2027-01-31T09:30:00.001Z")
    }

    @Test func `whoever waits no longer gets the rest of the turn at once`() throws {
        var session = try Self.session()
        try session.run(["\(Self.buy) \(Self.monthly)"])
        try session.deliver()
        let response = session.begin(Self.advance, Self.year)
        #expect(try session.complete(response) == nil)
        let answer = try session.complete(response, isOver: true)
        #expect(answer?.fates == "0 0 0 false" && answer?["notificationCount"]?.integer == 12)
        #expect(answer?["date"]?.string == "2027-01-31T09:30:00.001Z")
        #expect(session.simulator.watchers == 0)
        #expect(try session.deliver().count == 12)
    }

    @Test func `with deliver false a command waits for nothing, and says nothing of deliveries`() throws {
        var session = try Self.session()
        for (line, body) in [
            (Self.buy, #"{"product":"com.example.pro.monthly","deliver":false}"#),
            (Self.advance, #"{"days":365,"deliver":false}"#),
        ] {
            let answer = try #require(try session.complete(session.begin(line, body)))
            #expect(answer.fates == "- - - -" && answer["notificationCount"]?.integer ?? 0 > 0)
        }
        #expect(session.simulator.store.world.now.iso8601 == "2027-01-31T09:30:00.001Z")
        #expect(try session.deliver().count == 13)
    }

    @Test func `without notifications a command waits for nothing`() throws {
        var session = try Self.session()
        try session.run([#"POST /settings {"notify":null}"#])
        for (line, body) in [(Self.buy, Self.monthly), ("POST /customers/anna/move", #"{"storefront":"DEU"}"#)] {
            #expect(try session.complete(session.begin(line, body))?.fates == "0 0 0 true")
        }
        #expect(try session.complete(session.begin(Self.advance, Self.year))?.fates == "0 0 0 true")
    }

    @Test func `a turn also delivers what was postponed or failed before, at its time`() throws {
        var session = try Self.session()
        try session.run([#"POST /faults {"delays":1}"#])
        #expect(try session.complete(session.begin(Self.buy, Self.monthly))?.fates == "0 0 1 true")
        let late = try #require(session.simulator.store.outbox.nextDue)
        for (hours, result, fates) in [(0, .noResponse, "0 1 0 true"), (1, .success, "1 0 0 true")]
            as [(Int64, SendAttemptResult, String)]
        {
            let response = session.begin(Self.advance, #"{"hours":1}"#)
            #expect(try session.complete(response) == nil)
            #expect(try session.deliver(result).map(\.milliseconds) == [late.milliseconds + hours * 3_600_000])
            let answer = try session.complete(response)
            #expect(answer?.fates == fates && answer?["notificationCount"]?.integer == 0)
        }
    }

    @Test func `a command waits for its own notifications, and a turn of the clock for all`() throws {
        var session = try Self.session()
        try session.run(["\(Self.buy) \(Self.coins)"])
        let silent = try session.take()
        let bought = session.begin(Self.buy, Self.coins)
        #expect(try session.complete(bought) == nil)
        try session.deliver()
        #expect(try session.complete(bought)?.fates == "1 0 0 true")
        let turn = session.begin(Self.advance, #"{"seconds":0}"#)
        #expect(try session.complete(turn) == nil)
        for delivery in silent { try session.simulator.record(.timedOut, of: delivery, at: session.wall) }
        #expect(try session.complete(turn)?.fates == "0 1 0 true")
    }

    @Test func `while somebody watches, the clock stands still at each event until it was delivered`() throws {
        var session = try Self.session(speed: 86_400)
        session.simulator.watchers = 1
        try session.run(["\(Self.buy) \(Self.monthly)"])
        let bought = session.simulator.store.world.now
        #expect(session.passed(seconds: 3600) == bought)
        try session.deliver()
        #expect(session.passed(seconds: 1).milliseconds == bought.milliseconds + 86_400_000)
        let charge = try #require(session.simulator.store.world.nextDue)
        #expect(session.passed(seconds: 3600) == charge)
        try session.simulator.turn(at: session.wall)
        #expect(session.passed(seconds: 3600) == charge)
        #expect(try session.deliver() == [charge])
        #expect(session.passed(seconds: 1) > charge)
        // Without watchers the clock runs at its speed.
        session.simulator.watchers = 0
        let now = session.passed(seconds: 0)
        #expect(session.passed(seconds: 3).milliseconds == now.milliseconds + 3 * 86_400_000)
    }
}

extension ControlTests.Session {
    /// Begins a command whose caller sends the due notifications.
    fileprivate mutating func begin(_ line: String, _ body: String) -> ControlResponse {
        let parts = line.split(separator: " ").map(String.init)
        return simulator.control(parts[0], parts[1], Array(body.utf8), delivers: true, at: wall)
    }

    /// The final response; `nil` as long as the command waits.
    fileprivate mutating func complete(_ response: ControlResponse, isOver: Bool = false) throws -> JSONValue? {
        try simulator.complete(response, isOver: isOver, at: wall).map { try JSONValue(parsing: $0.body) }
    }

    fileprivate mutating func take() throws -> [Outbox.Delivery] {
        try simulator.takeDeliveries(in: .production, at: wall)
    }

    /// Sends the due notifications. Returns when each was sent.
    @discardableResult
    fileprivate mutating func deliver(_ result: SendAttemptResult? = .success) throws -> [Timestamp] {
        try take().map { delivery in
            try simulator.record(result, of: delivery, at: wall)
            return delivery.date
        }
    }

    /// The virtual time after some seconds of the wall clock, as the owner of a simulator reads it.
    fileprivate mutating func passed(seconds: Int64) -> Timestamp {
        simulator.holdClock(at: wall)
        wall = Timestamp(milliseconds: wall.milliseconds + seconds * 1000)
        return simulator.clock.now(at: wall)
    }
}

extension JSONValue {
    /// What a response says of deliveries.
    fileprivate var fates: String {
        ["delivered", "failed", "postponed", "complete"].map { self[$0]?.compactText ?? "-" }.joined(separator: " ")
    }
}
