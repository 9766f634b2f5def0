// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import HTTPTypes
import PurchaseLedger

/// The customers of an app with their entitlements, page by page. A backend that begins to follow the events reads all
/// pages once.
package enum ListCustomers: NamedOperation {
    private static let after = Field(
        "after", in: .query, "the `nextCursor` of the last page of customers", standard: "the first customer")
    private static let email = Field(
        "email", in: .query, "only customers whose `$email` is exactly this text, at most 100 on a page",
        .text(.attributeValue))

    package static let operation = Operation(
        .get, "/v1/customers", "returns a page of the app's customers with their entitlements",
        command: "customer list", [after, .environments, email], errors: [.invalidCursor]
    ) { try await page($0) }

    /// The maximum number of customers on a page.
    private static let pageLimit = 500

    /// The maximum number of customers with the same `$email` on a page. Each of them is looked up singly, because an
    /// address belongs to few customers.
    private static let emailLimit = 100

    /// The number of transaction statements up to which a page has several customers: some tenths of a second of work,
    /// and 10 MB of ``ServerBounds/bodyBytesInFlight``. A page with more is cut in half, up to a single customer.
    private static let maxStatements = 5000

    private static func page(_ request: AuthenticatedRequest) async throws -> Answer<CustomerListBody>? {
        let app = request.scope.bundleId
        let email = request[Self.email]?.string
        guard email?.isEmpty != true else { throw Refusal.invalid("“email” must be an e-mail address.") }
        let start = try request[after]?.string.map { (text) throws(Refusal) in
            try CustomerCursor(text, of: app, byEmail: email != nil)
        }
        // The cursor is taken before the first customer is read. A change meanwhile is then on the page or in an event.
        let events = start == nil && email == nil ? try await request.ledger.endOfEvents(of: app) : nil
        let (page, statements) = try await customers(request, of: app, withEmail: email, after: start?.position)
        let next = page.next.map { CustomerCursor($0, of: app, byEmail: email != nil).text }
        return try await answer(request, page.items, statements, nextCursor: next, eventsCursor: events?.rawValue)
    }

    /// The customers of a page, and the number of statements of their purchases.
    private static func customers(
        _ request: AuthenticatedRequest, of app: String, withEmail email: String?, after cursor: ScanCursor?
    ) async throws -> (page: ScanPage<CustomerRecord>, statements: Int) {
        var limit = email == nil ? Self.pageLimit : Self.emailLimit
        while true {
            let page =
                if let email {
                    try await request.ledger.customers(withEmail: email, of: app, after: cursor, limit: limit)
                } else { try await request.ledger.customers(of: app, after: cursor, limit: limit) }
            let statements = try await request.ledger.statementCount(
                of: page.items, in: environments(of: page.items, request.environmentRule))
            guard statements > Self.maxStatements, page.items.count > 1 else { return (page, statements) }
            limit = page.items.count / 2
        }
    }

    private static func answer(
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
    private static func environments(
        of customers: [CustomerRecord], _ rule: EnvironmentRule
    ) -> Set<AppStoreModel.Environment> {
        customers.reduce(into: []) { $0.formUnion(rule.counted(for: $1.ids)) }
    }
}

/// A position among the customers of an app, or among those with an e-mail address. The text has the app, so that a
/// cursor of a different app is refused.
struct CustomerCursor {
    /// The mark of positions by e-mail, whose form only the storage knows.
    private static let mark = "e"

    let position: ScanCursor
    let text: String

    init(_ position: ScanCursor, of bundleId: String, byEmail: Bool = false) {
        self.position = position
        let hidden = Base64.encodeURL(Array(position.rawValue.utf8)[...])
        let word = byEmail ? Self.mark + String(decoding: hidden, as: UTF8.self) : position.rawValue
        text = "\(word).\(bundleId)"
    }

    /// - Throws: ``Refusal`` 400 if the text is not a cursor of the app's customers.
    init(_ text: String, of bundleId: String, byEmail: Bool = false) throws(Refusal) {
        let word = text.prefix { $0 != "." }
        let hidden = byEmail && word.hasPrefix(Self.mark) ? Base64.decodeURL(Array(word.dropFirst().utf8)[...]) : nil
        let number = byEmail ? nil : Int64(word).flatMap { $0 < 0 ? nil : "\($0)" }
        guard let position = hidden.map({ String(decoding: $0, as: UTF8.self) }) ?? number else {
            throw .invalidCustomerCursor
        }
        self.init(ScanCursor(rawValue: position), of: bundleId, byEmail: byEmail)
        guard self.text.utf8.elementsEqual(text.utf8) else { throw .invalidCustomerCursor }
    }
}

extension Refusal {
    fileprivate static let invalidCustomerCursor = Refusal(
        .invalidCursor,
        "“after” is not a cursor of this app's customers: send the nextCursor of the last page, or omit “after”.")
}
