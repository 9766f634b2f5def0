// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

// The table of all commands of the control port, and the routing of requests to commands.

extension ControlRoute {
    private static let subscription = ("subscription", "an original transaction id, if the customer has several")
    private static let transaction = ("transaction", "a transaction id, if several are possible")

    /// A command that needs only the customer in its path.
    private static func customerCommand(
        _ path: String, _ summary: String, _ body: @escaping @Sendable (inout World, _ name: String) throws -> Void
    ) -> ControlRoute {
        ControlRoute("POST", "/customers/{name}/\(path)", summary) { simulator, arguments, _ in
            try simulator.act(arguments, body)
        }
    }

    /// A command that needs only the customer in its path, and a subscription of the customer.
    private static func subscriptionCommand(
        _ path: String, _ summary: String, _ body: @escaping @Sendable (inout World, _ id: String) throws -> Void
    ) -> ControlRoute {
        ControlRoute("POST", "/customers/{name}/\(path)", summary, [subscription]) { simulator, arguments, _ in
            try simulator.act(on: arguments, body)
        }
    }

    /// A command that returns a file of the simulator.
    private static func file(
        _ path: String, _ summary: String, type: String, _ bytes: @escaping @Sendable (Simulator) -> [UInt8]
    ) -> ControlRoute {
        ControlRoute("GET", path, summary) { simulator, _, _ in .file(bytes(simulator), type: type) }
    }

    static let all: [ControlRoute] = clock + customers + purchases + subscriptions + refunds + families + others

    private static let clock = [
        ControlRoute("GET", "/clock", "The virtual time and its speed.") { simulator, _, wall in
            try .json(ClockState(simulator.clock.now(at: wall), speed: simulator.clock.speed))
        },
        ControlRoute(
            "POST", "/clock/advance", "Turns the clock forward; events that fall due on the way happen.",
            [
                ("days", "0 to \(TurnableClock.maxTurnDays)"), ("hours", "more hours"), ("seconds", "more seconds"),
                ("to", "or an ISO 8601 time such as 2027-01-01T00:00:00Z"),
            ], { simulator, arguments, _ in try simulator.advanceClock(arguments) }),
        ControlRoute(
            "POST", "/clock/speed", "Sets the speed.",
            [("speed", "virtual seconds in a second; 0 stands still, 86400 is a day in a second")],
            { try $0.setSpeed($1, at: $2) }),
    ]

    private static let customers = [
        ControlRoute(
            "POST", "/customers", "Adds a customer who downloads the app now.",
            [
                ("name", "any text that no other customer has"), ("environment", "Production (the default) or Sandbox"),
                ("storefront", "three letters such as USA"), ("askToBuy", "whether a parent must approve purchases"),
                ("account", "whether the app attaches an account token to purchases; true by default"),
                ("appAccountToken", "that token, a UUID; by default the simulator makes one"),
            ], { simulator, arguments, _ in try simulator.addCustomer(arguments) }),
        ControlRoute("GET", "/customers/{name}", "A customer with all purchases.") { simulator, arguments, _ in
            try .json(simulator.customer(arguments.parameter))
        },
        ControlRoute(
            "GET", "/customers/{name}/transactions",
            "The customer's \(Simulator.transactions) newest transactions, each with the jwsRepresentation of StoreKit."
        ) { simulator, arguments, _ in
            try simulator.transactions(of: arguments.parameter)
        },
        ControlRoute(
            "GET", "/customers/{name}/app-transaction", "The app's own transaction: the jwsRepresentation of StoreKit."
        ) { simulator, arguments, _ in
            try simulator.appTransaction(of: arguments.parameter)
        },
        ControlRoute("GET", "/customers/{name}/receipt", "The app receipt on the customer's device now, as DER.") {
            simulator, arguments, _ in
            try simulator.receipt(of: arguments.parameter)
        },
        ControlRoute(
            "GET", "/customers/{name}/receipts/{transaction}",
            "The old transaction receipt of a purchase, from before iOS 7: a property list."
        ) { simulator, arguments, _ in
            try simulator.transactionReceipt(of: arguments.parameter, arguments.parameters.last ?? "")
        },
        customerCommand("billing/break", "Lets the customer's charges fail from now on.") {
            try $0.breakBilling(of: $1)
        },
        customerCommand(
            "billing/fix", "Lets charges succeed again. The App Store charges at once for failed renewals."
        ) { try $0.fixBilling(of: $1) },
        ControlRoute(
            "POST", "/customers/{name}/move", "The customer shops in a different country from now on.",
            [("storefront", "three letters such as DEU")],
            { simulator, arguments, _ in
                let storefront = try simulator.storefront(arguments)
                return try simulator.act(arguments) { try $0.move($1, to: storefront) }
            }),
        ControlRoute(
            "POST", "/customers/{name}/ask-to-buy", "A parent must approve purchases from now on, or no longer.",
            [("on", "true or false; true by default")],
            { simulator, arguments, _ in
                let asks = try arguments.flag("on") ?? true
                return try simulator.act(arguments) { try $0.setAskToBuy(asks, for: $1) }
            }),
        customerCommand("rescind-consent", "A parent withdraws the consent to use the app.") {
            try $0.rescindConsent(of: $1)
        },
    ]

    private static let purchases = [
        ControlRoute(
            "POST", "/customers/{name}/buy",
            "Buys a product. A second subscription of the same group is an upgrade, a downgrade or a return.",
            [
                ("product", "a product id; GET /products lists them"),
                ("offer", "the name of a promotional offer, offer code or win-back offer"),
                ("quantity", "1 to 10, of consumables"), ("monthly", "whether a year's commitment is paid by month"),
                ("appAccountToken", "the account token of this purchase, a UUID; by default the customer's"),
            ], { simulator, arguments, _ in try simulator.buy(arguments) }),
        customerCommand("approve", "A parent approves the purchase that waits (Ask to Buy).") {
            try $0.decide($1, approves: true)
        },
        customerCommand("decline", "A parent declines the purchase that waits (Ask to Buy).") {
            try $0.decide($1, approves: false)
        },
        ControlRoute("GET", "/products", "The products that are for sale, with their offers.") { simulator, _, _ in
            try .json(simulator.store.world.catalogue.products.map(ProductState.init))
        },
        ControlRoute("POST", "/products/{id}/remove", "Takes a product off sale: it is neither sold nor renewed.") {
            simulator, arguments, _ in
            try simulator.setForSale(false, arguments)
        },
        ControlRoute("POST", "/products/{id}/restore", "Puts a product on sale again.") { simulator, arguments, _ in
            try simulator.setForSale(true, arguments)
        },
    ]

    private static let subscriptions = [
        subscriptionCommand("cancel", "Turns renewal off.") { try $0.cancel($1) },
        subscriptionCommand("resume", "Turns renewal on again.") { try $0.resume($1) },
        ControlRoute(
            "POST", "/customers/{name}/price", "Raises the price of the next renewal.",
            [
                ("price", "in milliunits: 4990 is 4.99"),
                ("consent", "whether the customer must agree; true by default"),
                subscription,
            ], { simulator, arguments, _ in try simulator.increasePrice(arguments) }),
        subscriptionCommand("consent", "Agrees to the price that was asked for.") { try $0.consent($1) },
        subscriptionCommand("expire", "The subscription ends with its period, for a reason that Apple does not name.") {
            try $0.expire($1)
        },
        ControlRoute(
            "POST", "/customers/{name}/extend", "The developer moves the end of the running period.",
            [("days", "1 to 90"), subscription], { simulator, arguments, _ in try simulator.extend(arguments) }),
    ]

    private static let refunds = [
        ControlRoute(
            "POST", "/customers/{name}/refund", "Refunds a transaction: the newest transaction of the only purchase.",
            [
                transaction, ("percentage", "the share, 1 to 100; 100 by default"),
                ("issue", "whether the app was at fault"),
            ],
            { simulator, arguments, _ in try simulator.refund(arguments) }),
        ControlRoute(
            "POST", "/customers/{name}/refund/request", "Asks for a refund, and the App Store for consumption data.",
            [
                transaction, ("reason", "why: UNINTENDED_PURCHASE by default"),
                ("declines", "whether the sandbox will decline it, with the reason OTHER"),
            ], { simulator, arguments, _ in try simulator.requestRefund(arguments) }),
        ControlRoute(
            "POST", "/customers/{name}/refund/decline", "Declines the refund that was asked for.", [transaction],
            { simulator, arguments, _ in
                let id = try simulator.transaction(arguments, "a requested refund") { $0.refundRequests[$1] != nil }
                return try simulator.act(arguments) { world, _ in try world.declineRefund(id) }
            }),
        ControlRoute(
            "POST", "/customers/{name}/refund/reverse", "Takes a refund back.", [transaction],
            { simulator, arguments, _ in
                let id = try simulator.transaction(arguments, "a refunded purchase") {
                    $0.transaction($1)?.revocationDate != nil
                }
                return try simulator.act(arguments) { world, _ in try world.reverseRefund(id) }
            }),
    ]

    private static let families = [
        ControlRoute(
            "POST", "/customers/{name}/family", "Makes customers a family. The family shares all shareable purchases.",
            [("with", "the names of the other members, as an array")],
            { simulator, arguments, _ in
                let others = try arguments.texts("with")
                for name in others { _ = try simulator.customer(name) }
                return try simulator.act(arguments) { try $0.makeFamily(of: [$1] + others) }
            }),
        customerCommand("family/leave", "Leaves the family. Shared purchases end.") { try $0.leaveFamily($1) },
    ]

    private static let others = [
        customerCommand("external-token", "The app gets a token for purchases outside the App Store.") {
            _ = try $0.createExternalPurchaseToken(for: $1)
        },
        ControlRoute(
            "POST", "/notifications/test", "Sends a test notification.",
            [("environment", "Production (the default) or Sandbox")],
            { simulator, arguments, _ in
                let environment = try arguments.word("environment", of: [Environment.production, .sandbox])
                guard simulator.store.notificationURLs[environment ?? .production] != nil else {
                    throw ControlError(.impossible, "Notifications have no URL: set a URL with POST /settings.")
                }
                simulator.store.world.sendTestNotification(in: environment ?? .production)
                return .done(customer: nil)
            }),
        ControlRoute("GET", "/state", "The clock, the products, and the customers with all purchases.") {
            simulator, _, wall in
            let clock = ClockState(simulator.store.world.now, speed: simulator.clock.speed)
            return try .json(WorldState(simulator.store.world, clock))
        },
        file("/root.cer", "The root of transactions and notifications, as DER.", type: "application/pkix-cert") {
            $0.roots.tokens
        },
        file("/receipt-root.cer", "The root of app receipts, as DER.", type: "application/pkix-cert") {
            $0.roots.receipts
        },
        file(
            "/receipt-intermediate.cer", "The certificate that old transaction receipts omit, as DER.",
            type: "application/pkix-cert"
        ) { $0.roots.receiptIntermediate },
        file("/roots.pem", "Both roots, as PEM.", type: "application/x-pem-file") { Array($0.roots.pem.utf8) },
        file("/key.p8", "The key that signs requests to the App Store Server API.", type: "application/x-pem-file") {
            Array($0.store.key.pem.utf8)
        },
        ControlRoute("GET", "/settings", "Where notifications go, in which format, and the shared secret.") {
            simulator, _, _ in
            .json(simulator.store.settings)
        },
        ControlRoute(
            "POST", "/settings", "Changes settings of App Store Connect; other members stay. null clears a member.",
            [
                ("notify", "the URL of production notifications"), ("notifyVersion", "1, or 2, the default"),
                ("sandboxNotify", "the URL of sandbox notifications"), ("sandboxNotifyVersion", "as notifyVersion"),
                ("sharedSecret", "the password that verifyReceipt demands, and version 1 notifications have"),
            ],
            { simulator, arguments, _ in
                try simulator.store.set(arguments)
                return .json(simulator.store.settings)
            }),
        ControlRoute("GET", "/faults", "How unkind the simulated network is.") { simulator, _, _ in
            .json(simulator.store.faults.json)
        },
        ControlRoute(
            "POST", "/faults", "Sets how unkind the simulated network is; other members stay.",
            Faults.members,
            { simulator, arguments, _ in try simulator.setFaults(arguments) }),
        ControlRoute("GET", "/commands", "This list.") { _, _, _ in .json(list) },
    ]

    /// The list of all commands, for people and programs.
    private static let list = JSONValue.array(
        all.map { route in
            .object([
                .init("method", .string(route.method)), .init("path", .string(route.path)),
                .init("summary", .string(route.summary)),
                .init("members", .object(route.members.map { .init($0.name, .string($0.meaning)) })),
            ])
        })
}

extension Simulator {
    /// Performs a request to the control port.
    ///
    /// - Parameters:
    ///   - path: The path, percent-encoded and without a query.
    ///   - delivers: Whether the caller sends the due notifications, and passes each response to
    ///     ``complete(_:isOver:at:)``. Otherwise no command waits for answers to its notifications.
    ///   - wall: The time of the wall clock.
    public mutating func control(
        _ method: String, _ path: String, _ body: [UInt8], delivers: Bool = false, at wall: Timestamp
    ) -> ControlResponse {
        do {
            try turn(at: wall)
            return try response(method, path, body, delivers, at: wall)
        } catch {
            return ControlResponse(ControlError(error))
        }
    }

    /// Returns the final response to a command; `nil` if it waits until the clock has reached the command's time, and
    /// the command's notifications have an answer.
    ///
    /// - Parameters:
    ///   - isOver: Whether the caller waits no longer. The clock then turns at once to the command's time.
    ///   - wall: The time of the wall clock.
    public mutating func complete(
        _ response: ControlResponse, isOver: Bool, at wall: Timestamp
    ) -> ControlResponse? {
        guard let report = response.waiting else { return response }
        var isFinal = true
        defer { if isFinal { watchers -= 1 } }
        do {
            try turn(at: wall)
            let now = store.world.now
            let target = report.target ?? now
            let awaited = report.target == nil ? report.notifications : 0..<Int.max
            let isComplete = target <= now && !store.outbox.isBusy(at: now, with: awaited)
            isFinal = isComplete || isOver
            guard isFinal else { return nil }
            if target > now { try turn(to: target, at: wall) }
            return ControlResponse(json: try json(of: report, isComplete: isComplete))
        } catch {
            return ControlResponse(ControlError(error))
        }
    }

    private mutating func response(
        _ method: String, _ path: String, _ body: [UInt8], _ delivers: Bool, at wall: Timestamp
    ) throws -> ControlResponse {
        let (route, parameters) = try Self.route(method, ControlPath(path))
        let arguments = try ControlArguments(parameters, body: body, known: route.members.map(\.name))
        let waits = try (arguments.flag("deliver") ?? true) && delivers && route.notifies
        if route.method == "POST", route.path.hasPrefix("/customers/") { try leaveInstant(at: wall) }
        let first = store.world.occurrenceCount
        let mark = store.outbox.mark
        let result = try route.act(&self, arguments, wall)
        if case .turn(let date) = result, !waits { try turn(to: date, at: wall) }
        // The command's events become notifications now. A version 1 notification contains the customer's receipt, and
        // must contain it as it was at the time of the event.
        try store.publish()
        var report = CommandReport(
            events: first..<store.world.occurrenceCount, notifications: mark.added..<store.outbox.mark.added,
            mark: mark)
        switch result {
        case .json(let value): return ControlResponse(json: value)
        case .file(let bytes, let type): return ControlResponse(200, type, bytes)
        case .done(let customer, let transactionId):
            report.customer = customer
            report.transactionId = transactionId
        case .turn(let date):
            report.events = first..<Int.max
            report.notifications = mark.added..<Int.max
            report.target = date
        }
        guard waits else { return ControlResponse(json: try json(of: report)) }
        watchers += 1
        target = [target, report.target].compactMap(\.self).max()
        var response = ControlResponse(202, json: .object([]))
        response.waiting = report
        return response
    }

    private static func route(
        _ method: String, _ path: ControlPath
    ) throws(ControlError) -> (ControlRoute, parameters: [String]) {
        let fitting = ControlRoute.all.compactMap { route in path.parameters(route.path).map { (route, $0) } }
        guard !fitting.isEmpty else {
            throw ControlError(.unknownRoute, "There is no such command: GET /commands lists all.")
        }
        guard let found = fitting.first(where: { $0.0.method == method }) else {
            let methods = fitting.map(\.0.method).joined(separator: " or ")
            throw ControlError(.methodNotAllowed, "This command needs the method \(methods).")
        }
        return found
    }

    /// The response about the effects of a command, with its notifications, at most the newest ``reported``, and with
    /// the customer's new state.
    ///
    /// - Parameter isComplete: Whether all due notifications have an answer; `nil` for a command that does not wait.
    private mutating func json(of report: CommandReport, isComplete: Bool? = nil) throws -> JSONValue {
        let later = max(0, store.world.occurrenceCount - report.events.upperBound)
        let occurred = store.world.occurrences(since: report.events.lowerBound).dropLast(later)
        var members = [JSONValue.Member("date", .string(store.world.now.iso8601))]
        if let id = report.transactionId { members.append(.init("transactionId", .string(id))) }
        let count = store.world.occurrenceCount - later - report.events.lowerBound
        members.append(.init("notificationCount", .number("\(count)")))
        if let isComplete {
            let tally = store.outbox.tally(
                of: report.target == nil ? report.notifications : nil, since: report.mark, at: store.world.now)
            members += [
                .init("delivered", .number("\(tally.delivered)")), .init("failed", .number("\(tally.failed)")),
                .init("postponed", .number("\(tally.postponed)")), .init("complete", .bool(isComplete)),
            ]
        }
        members.append(
            .init("notifications", try JSONValue(encoding: occurred.suffix(Self.reported).map(NotificationState.init))))
        if let state = report.customer.flatMap({ CustomerState($0, in: store.world) }) {
            members.append(.init("customer", try JSONValue(encoding: state)))
        }
        // The last member, because the JWS is much longer than all other members.
        if let jws = try report.transactionId.flatMap({ try jwsRepresentation(ofTransaction: $0) }) {
            members.append(.init("jwsRepresentation", .string(jws)))
        }
        return .object(members)
    }

    /// The most notifications in a response. A turn of the clock may cause thousands.
    private static let reported = 100
}
