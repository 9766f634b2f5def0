// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import SwiftASN1

// Performs the commands of the control port, by which people and programs turn the simulator's clock and let its
// customers act.

extension Simulator {
    /// Performs `body`, an act that needs no argument but the customer in the path.
    mutating func act(
        _ arguments: ControlArguments, _ body: (inout World, _ name: String) throws -> Void
    ) throws -> ControlResult {
        let name = try customer(arguments.parameter).name
        try body(&store.world, name)
        return .done(customer: name)
    }

    /// Performs `body`, an act on a subscription of the customer in the path.
    mutating func act(
        on arguments: ControlArguments, _ body: (inout World, _ subscription: String) throws -> Void
    ) throws -> ControlResult {
        let id = try subscription(arguments)
        return try act(arguments) { world, _ in try body(&world, id) }
    }

    func customer(_ name: String) throws(ControlError) -> CustomerState {
        guard let state = CustomerState(name, in: store.world) else {
            let names = store.world.customers.keys.sorted().prefix(Self.listed).joined(separator: ", ")
            let hint = names.isEmpty ? "Add a customer with POST /customers." : "There are \(names)."
            throw ControlError(.unknownCustomer, "There is no customer \(name). \(hint)")
        }
        return state
    }

    /// The maximum number of names or ids listed in an error, few enough for people to read.
    private static let listed = 20
}

// MARK: - The clock

extension Simulator {
    func advanceClock(_ arguments: ControlArguments) throws -> ControlResult {
        let longest = TurnableClock.maxTurnDays * 86_400
        var seconds: Int64?
        for (name, length) in [("days", Int64(86_400)), ("hours", 3600), ("seconds", 1)] {
            guard let count = try arguments.integer(name, in: 0...longest / length) else { continue }
            seconds = (seconds ?? 0) + count * length
        }
        let end = Timestamp(milliseconds: store.world.now.milliseconds + min(seconds ?? 0, longest) * 1000)
        guard end < clock.end else { throw Self.noCertificates(after: clock.end) }
        switch (try arguments.text("to"), seconds) {
        case (nil, nil):
            throw ControlError(.invalid, "How far? Send {\"days\": 1} or {\"to\": \"2027-01-01T00:00:00Z\"}.")
        case (nil, _): return .turn(to: end)
        case (let text?, nil): return .turn(to: try time(text, arguments))
        case (_?, _?): throw ControlError(.invalid, "Send either \"to\" or a length of time.")
        }
    }

    private func time(_ text: String, _ arguments: ControlArguments) throws(ControlError) -> Timestamp {
        guard let date = Timestamp(iso8601: text) else {
            throw arguments.invalid("to", "an ISO 8601 time such as 2027-01-01T00:00:00Z")
        }
        let now = store.world.now
        guard date >= now else {
            throw ControlError(.impossible, "It is \(now.iso8601) already: the clock cannot be turned back.")
        }
        guard date.milliseconds - now.milliseconds <= TurnableClock.maxTurnDays * 86_400_000 else {
            throw ControlError(.invalid, "to: More than \(TurnableClock.maxTurnDays) days from \(now.iso8601).")
        }
        guard date < clock.end else { throw Self.noCertificates(after: clock.end) }
        return date
    }

    private static func noCertificates(after end: Timestamp) -> ControlError {
        ControlError(.impossible, "The clock stops at \(end.iso8601), the end of the simulator's certificates.")
    }

    mutating func setSpeed(_ arguments: ControlArguments, at wall: Timestamp) throws -> ControlResult {
        guard let speed = try arguments.number("speed", in: 0...TurnableClock.topSpeed) else {
            throw ControlError(.invalid, "speed is missing: send {\"speed\": 86400} for a day in a second.")
        }
        clock.run(speed, at: wall)
        return try .json(ClockState(clock.now(at: wall), speed: speed))
    }
}

// MARK: - Customers and purchases

extension Simulator {
    /// The longest name of a customer, in bytes: longer than any usual identifier.
    private static let maxNameLength: Int = 256

    mutating func addCustomer(_ arguments: ControlArguments) throws -> ControlResult {
        let name = try arguments.requiredText("name")
        guard name.utf8.count <= Self.maxNameLength else {
            throw ControlError(.invalid, "name: Longer than \(Self.maxNameLength) bytes.")
        }
        let environment = try arguments.word("environment", of: [Environment.production, .sandbox]) ?? .production
        let storefront = try arguments.text("storefront") == nil ? nil : try storefront(arguments)
        let asksToBuy = try arguments.flag("askToBuy") ?? false
        try store.world.addCustomer(
            name, environment: environment, storefront: storefront, hasAccount: try arguments.flag("account") ?? true,
            account: try arguments.uuid("appAccountToken"))
        if asksToBuy { try store.world.setAskToBuy(true, for: name) }
        return .done(customer: name)
    }

    func storefront(_ arguments: ControlArguments) throws(ControlError) -> Storefront {
        let country = try arguments.requiredText("storefront").uppercased()
        let known = Storefront.known + [store.world.catalogue.storefront]
        guard let storefront = known.first(where: { $0.country == country }) else {
            throw arguments.invalid("storefront", Storefront.known.map(\.country).joined(separator: ", "))
        }
        return storefront
    }

    func receipt(of name: String) throws -> ControlResult {
        let name = try customer(name).name
        guard let receipt = store.world.latestReceipt(of: name, store.signer) else {
            throw ControlError(.failed, "The receipt of \(name) could not be signed.")
        }
        return .file(receipt, type: "application/octet-stream")
    }

    func transactionReceipt(of name: String, _ id: String) throws -> ControlResult {
        let name = try customer(name).name
        let world = store.world
        guard world.customer(ofTransaction: id)?.name == name, let receipt = world.transactionReceipt(of: id) else {
            throw ControlError(.unknownTransaction, "\(name) has no transaction \(id).")
        }
        return .file(try store.signer.sign(receipt), type: "application/octet-stream")
    }

    /// The customer's newest transactions as StoreKit gives them to the app.
    mutating func transactions(of name: String) throws -> ControlResult {
        let name = try customer(name).name
        let states = try store.world.history(of: name).suffix(Self.transactions).map { _, transaction in
            var state = TransactionState(transaction, in: store.world)
            state.jwsRepresentation = try jwsRepresentation(ofTransaction: transaction.transactionId ?? "")
            return state
        }
        return try .json(states)
    }

    /// The most transactions in a response: some 2 MB.
    static let transactions = 500

    /// A transaction as StoreKit gives it to the app, signed now; `nil` if the id is unknown.
    mutating func jwsRepresentation(ofTransaction id: String) throws -> String? {
        try store.world.transactionOnDevice(id).map { try store.signer.sign($0, at: store.world.now) }
    }

    /// The app transaction as StoreKit gives it to the app.
    mutating func appTransaction(of name: String) throws -> ControlResult {
        let customer = try customer(name)
        guard let app = store.world.appTransactionOnDevice(of: customer.name) else {
            throw ControlError(.failed, "The app transaction of \(name) could not be made.")
        }
        return try .json(
            AppTransactionState(
                appTransactionId: customer.appTransactionId,
                jwsRepresentation: try store.signer.sign(app, at: store.world.now)))
    }

    mutating func buy(_ arguments: ControlArguments) throws -> ControlResult {
        let name = try customer(arguments.parameter).name
        let product = try product(try arguments.requiredText("product"))
        let options = PurchaseOptions(
            offer: try arguments.text("offer"), quantity: Int(try arguments.integer("quantity", in: 1...10) ?? 1),
            isMonthly: try arguments.flag("monthly") ?? false,
            appAccountToken: try arguments.uuid("appAccountToken"))
        let id = try store.world.buy(product.id, by: name, options)
        return .done(customer: name, transactionId: id)
    }

    private func product(_ id: String) throws(ControlError) -> StoreProduct {
        guard let product = store.world.catalogue[id] else {
            let ids = store.world.catalogue.products.map(\.id).prefix(Self.listed).joined(separator: ", ")
            throw ControlError(.unknownProduct, "There is no product \(id). There are \(ids).")
        }
        return product
    }

    mutating func setForSale(_ isForSale: Bool, _ arguments: ControlArguments) throws -> ControlResult {
        var product = try product(arguments.parameter)
        product.isForSale = isForSale
        store.world.catalogue.add(product)
        return try .json(ProductState(product))
    }
}

// MARK: - Subscriptions and refunds

extension Simulator {
    /// The original transaction id of the subscription in the arguments, or of the customer's only subscription.
    private func subscription(_ arguments: ControlArguments) throws(ControlError) -> String {
        let customer = try customer(arguments.parameter)
        if let id = try arguments.text("subscription") {
            let owner = store.world.customer(ofTransaction: id)?.name
            let original = store.world.chain(ofTransaction: id)?.current.originalTransactionId
            if owner == customer.name, let original { return original }
            throw ControlError(.unknownTransaction, "\(customer.name) has no subscription \(id).")
        }
        let own = customer.subscriptions.filter { $0.sharedFrom == nil }
        guard own.count < 2 else {
            let list = own.map { "\($0.originalTransactionId) (\($0.productId ?? ""))" }.joined(separator: ", ")
            throw ControlError(.ambiguous, "Which subscription? Send {\"subscription\": \"…\"}. There are \(list).")
        }
        guard let only = own.first ?? customer.subscriptions.first else {
            throw ControlError(
                .impossible, "\(customer.name) has no subscription: buy a subscription with POST /customers/{name}/buy."
            )
        }
        return only.originalTransactionId
    }

    /// The id of the transaction in the arguments, or of the only possible transaction.
    ///
    /// - Parameter isPossible: Whether the command can be about a transaction. Only called if the arguments contain no
    ///   id.
    func transaction(
        _ arguments: ControlArguments, _ what: String, _ isPossible: (World, String) -> Bool
    ) throws(ControlError) -> String {
        let name = try customer(arguments.parameter).name
        let world = store.world
        if let id = try arguments.text("transaction") {
            if world.transaction(id) != nil, world.customer(ofTransaction: id)?.name == name { return id }
            throw ControlError(.unknownTransaction, "\(name) has no transaction \(id).")
        }
        let possible = world.history(of: name).map(\.transaction).filter { isPossible(world, $0.transactionId ?? "") }
        guard possible.count < 2 else {
            let list = possible.suffix(Self.listed).map { "\($0.transactionId ?? "") (\($0.productId ?? ""))" }
            throw ControlError(
                .ambiguous,
                "Which transaction? Send {\"transaction\": \"…\"}. There are \(list.joined(separator: ", ")).")
        }
        guard let id = possible.first?.transactionId else {
            throw ControlError(.impossible, "\(name) does not have \(what).")
        }
        return id
    }

    /// Whether a transaction can be refunded if the command names none: a purchase without a refund, and the newest of
    /// its subscription, if it has one.
    private static func isRefundable(_ world: World, _ id: String) -> Bool {
        guard let transaction = world.transaction(id), transaction.revocationDate == nil,
            transaction.inAppOwnershipType == .purchased
        else { return false }
        let newest = world.chain(ofTransaction: id)?.current.transactionId
        return newest == nil || newest == id
    }

    mutating func refund(_ arguments: ControlArguments) throws -> ControlResult {
        let id = try transaction(arguments, "a purchase that can be refunded", Self.isRefundable)
        let percentage = Int(try arguments.integer("percentage", in: 1...100) ?? 100)
        let reason: RevocationReason = try arguments.flag("issue") == true ? .appIssue : .other
        return try act(arguments) { world, _ in try world.refund(id, Refund(reason, percentage: percentage * 1000)) }
    }

    mutating func requestRefund(_ arguments: ControlArguments) throws -> ControlResult {
        let id = try transaction(arguments, "a purchase that can be refunded", Self.isRefundable)
        let reason = try arguments.word("reason", of: ConsumptionRequestReason.allCases) ?? .unintendedPurchase
        let declines = try arguments.flag("declines") ?? false
        return try act(arguments) { world, _ in try world.requestRefund(id, reason, declines: declines) }
    }

    mutating func increasePrice(_ arguments: ControlArguments) throws -> ControlResult {
        guard let price = try arguments.integer("price", in: 1...Self.highestPrice) else {
            throw ControlError(.invalid, "price is missing: send {\"price\": 5990} for 5.99.")
        }
        let needsConsent = try arguments.flag("consent") ?? true
        return try act(on: arguments) { try $0.increasePrice(of: $1, to: price, needsConsent: needsConsent) }
    }

    /// A million units of any currency, in milliunits, so that sums stay far inside an integer.
    private static let highestPrice: Int64 = 1_000_000_000

    mutating func extend(_ arguments: ControlArguments) throws -> ControlResult {
        guard let days = try arguments.integer("days", in: 1...90) else {
            throw ControlError(.invalid, "days is missing: send {\"days\": 30}.")
        }
        return try act(on: arguments) { try $0.extend($1, days: Int(days)) }
    }
}

// MARK: - Faults and roots

extension Simulator {
    mutating func setFaults(_ arguments: ControlArguments) throws -> ControlResult {
        do {
            try store.faults.set(.object(arguments.members))
        } catch {
            throw ControlError(.invalid, "\(error).")
        }
        return .json(store.faults.json)
    }
}

extension SimulatorRoots {
    /// Both roots in a single file, in the form that OpenSSL and `quittance --root` read.
    public var pem: String {
        [tokens, receipts].map { PEMDocument(type: "CERTIFICATE", derBytes: $0).pemString + "\n" }.joined()
    }
}
