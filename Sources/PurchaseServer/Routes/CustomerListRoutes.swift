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
                ],
                errors: [.invalidCursor]
            ) { try await page($0) }
        ]
    }

    private func page(_ request: AuthenticatedRequest) async throws -> Answer<CustomerListBody>? {
        let app = request.scope.bundleId
        let start = try request.query["after"].map { (text) throws(Refusal) in try CustomerCursor(text, of: app) }
        // The cursor is taken before the first customer is read. A change meanwhile is then on the page or in an event.
        let events = start == nil ? try await request.ledger.endOfEvents(of: app) : nil
        let (page, statements) = try await customers(request, of: app, after: start?.position)
        return try await request.withAnswer(of: statements + page.items.reduce(0) { $0 + $1.ids.count }) {
            let rule = request.environmentRule
            let found = try await request.ledger.holdings(
                of: page.items, in: environments(of: page.items, rule), at: request.now)
            let items = page.items.compactMap { found[$0.customer] }.map { ListedCustomerBody($0, rule) }
            return try Answer(
                CustomerListBody(
                    asOf: request.now, items: items, nextCursor: page.next.map { CustomerCursor($0, of: app).text },
                    eventsCursor: events?.rawValue))
        }
    }

    /// The customers of a page, and the number of statements of their purchases.
    private func customers(
        _ request: AuthenticatedRequest, of app: String, after cursor: ScanCursor?
    ) async throws -> (page: ScanPage<CustomerRecord>, statements: Int) {
        let rule = request.environmentRule
        var limit = Self.pageLimit
        while true {
            let page = try await request.ledger.customers(of: app, after: cursor, limit: limit)
            let environments = environments(of: page.items, rule)
            let statements = try await request.ledger.statementCount(of: page.items, in: environments)
            guard statements > Self.maxStatements, page.items.count > 1 else { return (page, statements) }
            limit = page.items.count / 2
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
