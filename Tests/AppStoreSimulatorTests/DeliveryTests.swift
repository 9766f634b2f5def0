// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import Testing

/// What a simulated App Store sends, when, and how it misbehaves.
@Suite struct DeliveryTests {
    private static let history = "POST /inApps/v1/notifications/history"

    /// A store that has sent nothing yet but a test notification.
    private static func quiet(_ faults: Faults = .none) throws -> StoreFixture {
        var fixture = try StoreFixture.shop()
        // It would renew every five minutes.
        try fixture.store.world.refund(fixture.names["sandbox"] ?? "")
        for delivery in try fixture.store.takeDeliveries() { fixture.store.record(.success, of: delivery) }
        fixture.store.faults = faults
        fixture.wait(minutes: 10)
        return fixture
    }

    @Test(arguments: [(Environment.production, [0, 1, 13, 37, 85, 157] as [Int64]), (.sandbox, [0])])
    func `a notification is sent again after Apple's hours, with the same bytes`(
        environment: Environment, hours: [Int64]
    ) throws {
        var fixture = try Self.quiet()
        _ = try fixture.call("POST /inApps/v1/notifications/test", in: environment)
        let start = fixture.store.world.now
        var (attempts, bodies): ([Int64], Set<[UInt8]>) = ([], [])
        for _ in 0..<400 {
            for delivery in try fixture.store.takeDeliveries() where delivery.environment == environment {
                attempts.append((fixture.store.world.now.milliseconds - start.milliseconds) / 3_600_000)
                #expect(delivery.attempt == attempts.count)
                bodies.insert(delivery.body)
                fixture.store.record(.timedOut, of: delivery)
            }
            fixture.wait(minutes: 30)
        }
        #expect(attempts == hours)
        #expect(bodies.count == 1)
        let now = fixture.store.world.now.milliseconds
        let body = #"{"startDate":\#(now - 20 * 86_400_000),"endDate":\#(now),"notificationType":"TEST"}"#
        let items = try fixture.call(Self.history, body, in: environment).json["notificationHistory"]?.array
        #expect(items?.count == 1)
        let sent = items?.first?["sendAttempts"]?.array?.compactMap { $0["sendAttemptResult"]?.string }
        #expect(sent == hours.map { _ in "TIMED_OUT" })
    }

    @Test func `a notification on its way is not due, and one that succeeded never again`() throws {
        var fixture = try Self.quiet()
        _ = try fixture.call("POST /inApps/v1/notifications/test")
        let delivery = try #require(try fixture.store.takeDeliveries().first)
        #expect(try fixture.store.takeDeliveries().isEmpty)
        fixture.store.record(SendAttemptResult(httpStatus: 206), of: delivery)
        fixture.wait(minutes: 60 * 24 * 30)
        let tests = try fixture.store.takeDeliveries().filter { $0.number == delivery.number }
        #expect(tests.isEmpty)
        #expect(SendAttemptResult(httpStatus: 302) == .unsuccessfulHTTPResponseCode)
    }

    @Test func `the history has pages of one body, its filters, and only failures if asked`() throws {
        var fixture = try Self.quiet()
        let start = fixture.store.world.now.milliseconds
        for number in 0..<45 {
            _ = try fixture.call("POST /inApps/v1/notifications/test")
            for delivery in try fixture.store.takeDeliveries() {
                fixture.store.record(number % 3 == 0 ? .noResponse : .success, of: delivery)
            }
        }
        fixture.wait(minutes: 1)
        let dates = #""startDate":\#(start),"endDate":\#(start + 3_600_000)"#
        for (body, counts) in [
            ("{\(dates)}", [20, 20, 5]), (#"{\#(dates),"onlyFailures":true}"#, [15]),
            (#"{\#(dates),"notificationType":"DID_RENEW"}"#, [0]), (#"{\#(dates),"transactionId":"{sub}"}"#, [0]),
        ] {
            var (pages, token): ([Int], String?) = ([], nil)
            var ids: Set<String> = []
            repeat {
                let answer = try fixture.call(Self.history + (token.map { "?paginationToken=\($0)" } ?? ""), body)
                let items = answer.json["notificationHistory"]?.array ?? []
                pages.append(items.count)
                ids.formUnion(items.compactMap { $0["signedPayload"]?.string })
                token = answer.json["paginationToken"]?.string
                #expect((token != nil) == (answer.json["hasMore"] == .bool(true)))
            } while token != nil && pages.count < 10
            #expect(pages == counts)
            #expect(ids.count == counts.reduce(0, +))
        }
    }

    @Test func `a full outbox drops its oldest tenth, which is neither sent nor in the history`() throws {
        #expect(Outbox.capacity == 10_000)
        var fixture = try Self.quiet()
        fixture.store.outbox = Outbox(capacity: 40)
        let start = fixture.store.world.now.milliseconds
        var tokens: [String] = []
        for _ in 0..<40 {
            let answer = try fixture.call("POST /inApps/v1/notifications/test")
            tokens.append(answer.json["testNotificationToken"]?.string ?? "")
        }
        #expect(fixture.store.outbox.entries.map(\.number) == Array(0..<40))
        try fixture.store.world.buy("coins", by: "ann")
        // 37 are left of 41: four, a tenth of the capacity, made room.
        let deliveries = try fixture.store.takeDeliveries()
        #expect(deliveries.map(\.number) == Array(4...40))
        #expect(fixture.store.outbox.isBusy(at: fixture.store.world.now))
        for delivery in deliveries { fixture.store.record(.success, of: delivery) }
        #expect(fixture.store.outbox.nextDue == nil && !fixture.store.outbox.isBusy(at: fixture.store.world.now))
        fixture.wait(minutes: 1)
        let body = #"{"startDate":\#(start),"endDate":\#(start + 3_600_000)}"#
        let pages = try ["", "?paginationToken="].reduce(into: [JSONValue]()) { pages, query in
            let token = pages.last?["paginationToken"]?.string ?? ""
            pages.append(try fixture.call(Self.history + (pages.isEmpty ? "" : query + token), body).json)
        }
        #expect(pages.map { $0["notificationHistory"]?.array?.count } == [20, 17])
        for (index, code) in [(3, 4_040_008 as Int64?), (4, nil)] {
            let status = try fixture.call("GET /inApps/v1/notifications/test/\(tokens[index])")
            #expect(status.json["errorCode"]?.integer == code)
        }
        // The result of a delivery that was dropped meanwhile is nobody's.
        fixture.store.outbox = Outbox(capacity: 40)
        fixture.store.record(.success, of: deliveries[0])
        #expect(fixture.store.outbox.entries.isEmpty)
    }

    @Test func `without a URL nothing is sent, nor is it later`() throws {
        var fixture = try Self.quiet()
        fixture.store.notificationURLs = [:]
        try fixture.store.world.buy("coins", by: "ann")
        try fixture.store.publish()
        fixture.store.notificationURLs = [.production: "https://example.com"]
        #expect(try fixture.store.takeDeliveries().isEmpty)
    }

    // MARK: - Faults

    /// What a server gets of fifty purchases.
    private static func purchases(_ faults: Faults) throws -> (ids: [String], payloads: [JSONValue], lost: Int) {
        var fixture = try quiet(faults)
        for _ in 0..<50 { try fixture.store.world.buy("coins", by: "ann") }
        try fixture.store.publish()
        fixture.wait(minutes: 20)
        let payloads = try fixture.store.takeDeliveries().compactMap { delivery -> JSONValue? in
            fixture.store.record(.success, of: delivery)
            let token = try JSONValue(parsing: delivery.body)["signedPayload"]?.string ?? ""
            return try JSONValue(parsing: JWS(Array(token.utf8)).payload)
        }
        let lost = fixture.store.outbox.entries.count { $0.attempts.last?.sendAttemptResult == .noResponse }
        return (payloads.compactMap { $0["notificationUUID"]?.string }, payloads, lost)
    }

    private static func faults(_ json: String) throws -> Faults {
        var faults = Faults.none
        try faults.set(JSONValue(parsing: Array(json.utf8)))
        return faults
    }

    @Test func `a kind store sends each notification once, in order`() throws {
        let (ids, payloads, lost) = try Self.purchases(.none)
        #expect(ids.count == 50 && Set(ids).count == 50 && lost == 0)
        #expect(
            payloads.compactMap { $0["signedDate"]?.integer }
                == payloads.compactMap { $0["signedDate"]?.integer }.sorted())
    }

    @Test func `duplicates have the same identifier`() throws {
        let ids = try Self.purchases(Self.faults(#"{"duplicates":1}"#)).ids
        #expect(ids.count == 100 && Set(ids).count == 50)
    }

    @Test func `reordered notifications are all there`() throws {
        let (ordered, reordered) = (
            try Self.purchases(.none).ids, try Self.purchases(Self.faults(#"{"reorderings":1}"#)).ids
        )
        #expect(ordered != reordered && Set(ordered) == Set(reordered))
    }

    @Test func `lost notifications are recorded as failures`() throws {
        let (ids, _, lost) = try Self.purchases(Self.faults(#"{"losses":0.5}"#))
        #expect(ids.count + lost == 50 && lost > 5 && ids.count > 5)
    }

    @Test func `unknown words and members come beside what a server needs`() throws {
        let (ids, payloads, _) = try Self.purchases(
            Self.faults(#"{"unknownTypes":1,"unknownSubtypes":1,"unknownMembers":1}"#))
        #expect(Set(ids).count == 150)
        let types = payloads.compactMap { $0["notificationType"]?.string }
        #expect(types.count { NotificationTypeV2(rawValue: $0) == nil } == 50)
        let subtypes = payloads.compactMap { $0["subtype"]?.string }
        #expect(subtypes.count == 50 && subtypes.allSatisfy { NotificationSubtype(rawValue: $0) == nil })
        let unknown = try payloads.count {
            try !$0.decode(ResponseBodyV2DecodedPayload.self).unknownMembers.members.isEmpty
        }
        #expect(unknown == 50)
        #expect(payloads.allSatisfy { $0["data"]?["signedTransactionInfo"] != nil })
    }

    @Test func `late notifications come after their delay`() throws {
        var fixture = try Self.quiet(Self.faults(#"{"delays":1,"longestDelay":600}"#))
        for _ in 0..<20 { try fixture.store.world.buy("coins", by: "ann") }
        let atOnce = try fixture.store.takeDeliveries().count
        fixture.wait(minutes: 10)
        #expect(atOnce < 5)
        #expect(try fixture.store.takeDeliveries().count == 20 - atOnce)
    }

    @Test func `the same seed meets the same faults`() throws {
        let (one, other) = (try Self.purchases(.unkind), try Self.purchases(.unkind))
        #expect(one.ids == other.ids && one.lost == other.lost)
    }

    @Test func `a time-out takes effect`() throws {
        var fixture = try Self.quiet(Self.faults(#"{"timeouts":1}"#))
        let answer = try fixture.call("POST /inApps/v1/transactions/{coins}/finish")
        #expect(answer.isWithheld)
        #expect(fixture.store.finished == [fixture.names["coins"]])
    }

    @Test func `an unkind store still answers most requests, with every fault in time`() throws {
        var fixture = try Self.quiet(.unkind)
        var statuses: [Int: Int] = [:]
        fixture.store.faults.timeouts = 0.02
        for _ in 0..<500 {
            let answer = try fixture.call("GET /inApps/v1/lookup/MUNKNOWN00")
            statuses[answer.isWithheld ? 0 : answer.status, default: 0] += 1
        }
        #expect(Set(statuses.keys) == [0, 200, 429, 500])
        #expect(statuses[200] ?? 0 > 400)
    }

    @Test func `faults are the same after JSON`() throws {
        var faults = Faults.unkind
        faults.failNext = [.history: [.accountNotFound, .rateLimitExceeded], .extend: [.generalInternal]]
        faults.rateLimitScale = 0.25
        var read = Faults.none
        try read.set(faults.json)
        #expect(read == faults)
        try read.set(Faults.none.json)
        #expect(read == .none)
    }

    @Test(arguments: [
        "[]", #"{"duplicate":0.5}"#, #"{"duplicates":1.5}"#, #"{"duplicates":"1"}"#, #"{"longestDelay":-1}"#,
        #"{"rateLimitScale":-1}"#, #"{"rateLimitScale":1001}"#, #"{"failNext":[]}"#,
        #"{"failNext":{"none":[4040001]}}"#,
        #"{"failNext":{"history":[4040099]}}"#, #"{"losses":0.5,"delays":2}"#,
    ]) func `faults that make no sense are refused, and change nothing`(json: String) throws {
        var faults = Faults.none
        #expect(throws: SimulatorError.self) { try faults.set(JSONValue(parsing: Array(json.utf8))) }
        #expect(faults == .none)
    }
}
