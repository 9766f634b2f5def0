// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Hummingbird
import PurchaseLedger

/// The route `/v1/customers`: the customers of an app with their entitlements, page by page. A backend that begins to
/// follow the events reads all pages once.
struct CustomerListRoutes: Sendable {
    let authentication: Authentication

    /// The maximum number of customers on a page.
    private static let pageLimit = 500

    /// The maximum number of customers with the same `$email` in an answer. An address belongs to few customers.
    private static let emailLimit = 100

    /// The number of transaction statements up to which a page has several customers: some tenths of a second of work,
    /// and 10 MB of ``ServerBounds/bodyBytesInFlight``. A page with more is cut in half, up to a single customer.
    private static let maxStatements = 5000

    var routes: [APIRoute] {
        [
            authentication.route(
                .get, "/v1/customers", "returns a page of the app's customers with their entitlements", role: .server,
                parameters: [
                    .init("after", "the `nextCursor` of the last page of customers; the first customer without it"),
                    .environments,
                    .init("email", "only the customers whose `$email` is exactly this text, at most 100"),
                ],
                errors: [.invalidCursor]
            ) { try await page($0) }
        ]
    }

    private func page(_ request: AuthenticatedRequest) async throws -> Answer<CustomerListBody>? {
        if let email = request.query["email"] { return try await customers(request, withEmail: email) }
        let app = request.scope.bundleId
        let start = try request.query["after"].map { (text) throws(Refusal) in try CustomerCursor(text, of: app) }
        // The cursor is taken before the first customer is read. A change meanwhile is then on the page or in an event.
        let events = start == nil ? try await request.ledger.endOfEvents(of: app) : nil
        let (page, statements) = try await customers(request, of: app, after: start?.position)
        let next = page.next.map { CustomerCursor($0, of: app).text }
        return try await answer(request, page.items, statements, nextCursor: next, eventsCursor: events?.rawValue)
    }

    /// The customers with an e-mail address.
    private func customers(
        _ request: AuthenticatedRequest, withEmail email: String
    ) async throws -> Answer<CustomerListBody>? {
        guard !email.isEmpty, request.query["after"] == nil else {
            throw Refusal.invalid("email is an e-mail address, and a request with email has no after.")
        }
        let found = try await request.ledger.customers(
            withEmail: email, of: request.scope.bundleId, limit: Self.emailLimit)
        let statements = try await request.ledger.statementCount(
            of: found, in: environments(of: found, request.environmentRule))
        return try await answer(request, found, statements)
    }

    /// The customers of a page, and the number of statements of their purchases.
    private func customers(
        _ request: AuthenticatedRequest, of app: String, after cursor: ScanCursor?
    ) async throws -> (page: ScanPage<CustomerRecord>, statements: Int) {
        var limit = Self.pageLimit
        while true {
            let page = try await request.ledger.customers(of: app, after: cursor, limit: limit)
            let statements = try await request.ledger.statementCount(
                of: page.items, in: environments(of: page.items, request.environmentRule))
            guard statements > Self.maxStatements, page.items.count > 1 else { return (page, statements) }
            limit = page.items.count / 2
        }
    }

    private func answer(
        _ request: AuthenticatedRequest, _ customers: [CustomerRecord], _ statements: Int, nextCursor: String? = nil,
        eventsCursor: String? = nil
    ) async throws -> Answer<CustomerListBody>? {
        try await request.withAnswer(of: statements + customers.reduce(0) { $0 + $1.ids.count }) {
            let rule = request.environmentRule
            let found = try await request.ledger.listed(
                customers, in: environments(of: customers, rule), at: request.now)
            let items = customers.compactMap { found[$0.customer] }.map { ListedCustomerBody($0, rule) }
            return try Answer(
                CustomerListBody(asOf: request.now, items: items, nextCursor: nextCursor, eventsCursor: eventsCursor))
        }
    }

    /// The environments that count for any of the customers.
    private func environments(of customers: [CustomerRecord], _ rule: EnvironmentRule) -> Set<AppStoreModel.Environment>
    {
        customers.reduce(into: []) { $0.formUnion(rule.counted(for: $1.ids)) }
    }
}

/// A position among the customers of an app. The text has the app, so that a cursor of a different app is refused.
struct CustomerCursor {
    let position: ScanCursor
    private let bundleId: String

    init(_ position: ScanCursor, of bundleId: String) {
        self.position = position
        self.bundleId = bundleId
    }

    /// - Throws: ``Refusal`` 400 if the text is not a cursor of the app's customers.
    init(_ text: String, of bundleId: String) throws(Refusal) {
        let digits = text.prefix { $0 != "." }
        guard let number = Int64(digits), number >= 0, "\(number)" == digits,
            text.utf8.elementsEqual("\(number).\(bundleId)".utf8)
        else { throw .invalidCustomerCursor }
        self.init(ScanCursor(rawValue: "\(number)"), of: bundleId)
    }

    var text: String { "\(position.rawValue).\(bundleId)" }
}

extension Refusal {
    fileprivate static let invalidCustomerCursor = Refusal(
        .invalidCursor,
        "“after” is not a cursor of this app's customers: send the nextCursor of the last page, or omit “after”.")
}
