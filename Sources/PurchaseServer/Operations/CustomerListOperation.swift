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
        "email", in: .query, "only customers whose `$email` is this text, in upper or lower case",
        .text(.attributeValue))
    private static let prefix = Field(
        "prefix", in: .query, "only customers with an id that begins with this text, in the order of these ids",
        .text(.customerID))
    private static let newest = Field(
        "newest", in: .query, "whether the newest customers come first", .flag, standard: "false")
    private static let limit = Field(
        "limit", in: .query,
        "the most customers on the page (at most \(searchLimit) with `email`, `prefix` or `newest`)",
        .number(1...Int64(pageLimit)), standard: "\(pageLimit)")

    package static let operation = Operation(
        .get, "/v1/customers", "returns a page of the app's customers with their entitlements",
        command: "customer list", roles: .readers, [after, .environments, email, prefix, newest, limit],
        errors: [.invalidCursor]
    ) { try await page($0) }

    /// The maximum number of customers on a page.
    private static let pageLimit = 500

    /// The maximum number of found customers on a page. Those with the same `$email` are looked up singly, because an
    /// address belongs to few customers, and a person reads no more of the others.
    private static let searchLimit = 100

    /// The number of transaction statements up to which a page has several customers: some tenths of a second of work,
    /// and 10 MB of ``ServerBounds/bodyBytesInFlight``. A page with more is cut in half, up to a single customer.
    private static let maxStatements = 5000

    private static func page(_ request: AuthenticatedRequest) async throws -> Answer<CustomerListBody>? {
        let app = request.scope.bundleId
        let mark = try mark(request)
        let start = try request[after]?.string.map { (text) throws(Refusal) in
            try CustomerCursor(text, of: app, mark)
        }
        // The cursor is taken before the first customer is read. A change meanwhile is then on the page or in an event.
        let events = start == nil && mark.isEmpty ? try await request.ledger.endOfEvents(of: app) : nil
        let (page, statements) = try await customers(request, of: app, after: start?.position, isSearch: !mark.isEmpty)
        let next = page.next.map { CustomerCursor($0, of: app, mark).text }
        return try await answer(request, page.items, statements, nextCursor: next, eventsCursor: events?.rawValue)
    }

    /// The mark of the cursors of a search; empty for all customers.
    @inline(never)
    private static func mark(_ request: AuthenticatedRequest) throws(Refusal) -> String {
        guard request[email]?.string?.isEmpty != true else {
            throw .invalid("“email” must be an e-mail address.")
        }
        let marks =
            [request[email].map { _ in "e" }, request[prefix].map { _ in "p" }].compactMap(\.self)
            + (request[newest]?.bool == true ? ["n"] : [])
        guard marks.count < 2 else { throw .invalid("At most one of “email”, “prefix” and “newest” is possible.") }
        return marks.first ?? ""
    }

    /// The customers of a page, and the number of statements of their purchases.
    private static func customers(
        _ request: AuthenticatedRequest, of app: String, after cursor: ScanCursor?, isSearch: Bool
    ) async throws -> (page: ScanPage<CustomerRecord>, statements: Int) {
        var limit = min(request.number(limit), isSearch ? searchLimit : pageLimit)
        while true {
            var page = try await found(request, of: app, after: cursor, limit: limit)
            // A customer may have several ids with the same beginning.
            var seen: Set<Customer> = []
            page.items.removeAll { !seen.insert($0.customer).inserted }
            let statements = try await request.ledger.statementCount(
                of: page.items, in: environments(of: page.items, request.environmentRule))
            guard statements > Self.maxStatements, page.items.count > 1 else { return (page, statements) }
            limit = page.items.count / 2
        }
    }

    private static func found(
        _ request: AuthenticatedRequest, of app: String, after cursor: ScanCursor?, limit: Int
    ) async throws -> ScanPage<CustomerRecord> {
        let ledger = request.ledger
        if let email = request[email]?.string {
            return try await ledger.customers(withEmail: email, of: app, after: cursor, limit: limit)
        }
        guard let prefix = request[prefix]?.string else {
            let selection: CustomerSelection = request[newest]?.bool == true ? .newest : .all
            return try await ledger.customers(selection, of: app, after: cursor, limit: limit)
        }
        let page = try await ledger.customers(.beginning(prefix), of: app, after: cursor, limit: limit)
        // The ledger has UUIDs in lower case, and a person may paste a part of one in upper case.
        guard page.items.isEmpty, page.next == nil, prefix != prefix.lowercased() else { return page }
        return try await ledger.customers(.beginning(prefix.lowercased()), of: app, after: cursor, limit: limit)
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

/// A position among the customers of an app, or in a search. The text has the app, so that a cursor of a different app
/// is refused.
struct CustomerCursor {
    let position: ScanCursor
    let text: String

    /// - Parameter mark: The beginning of the cursors of a search, whose form only the storage knows; empty for all
    ///   customers.
    init(_ position: ScanCursor, of bundleId: String, _ mark: String = "") {
        self.position = position
        let hidden = Base64.encodeURL(Array(position.rawValue.utf8)[...])
        let word = mark.isEmpty ? position.rawValue : mark + String(decoding: hidden, as: UTF8.self)
        text = "\(word).\(bundleId)"
    }

    /// - Throws: ``Refusal`` 400 if the text is not a cursor of the app's customers.
    init(_ text: String, of bundleId: String, _ mark: String = "") throws(Refusal) {
        let word = text.prefix { $0 != "." }
        let isMarked = !mark.isEmpty && word.hasPrefix(mark)
        let hidden = isMarked ? Base64.decodeURL(Array(word.dropFirst(mark.count).utf8)[...]) : nil
        let number = mark.isEmpty ? Int64(word).flatMap { $0 < 0 ? nil : "\($0)" } : nil
        guard let position = hidden.map({ String(decoding: $0, as: UTF8.self) }) ?? number else {
            throw .invalidCustomerCursor
        }
        self.init(ScanCursor(rawValue: position), of: bundleId, mark)
        guard self.text.utf8.elementsEqual(text.utf8) else { throw .invalidCustomerCursor }
    }
}

extension Refusal {
    fileprivate static let invalidCustomerCursor = Refusal(
        .invalidCursor,
        "“after” is not a cursor of this app's customers: send the nextCursor of the last page, or omit “after”.")
}
