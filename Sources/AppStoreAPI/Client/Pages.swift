// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// A page of a paginated list.
public protocol APIPage: Sendable {
    /// The name of the query parameter for the next page.
    static var nextParameter: String { get }
    /// The value of the query parameter for the next page: opaque text.
    var next: String? { get }
    /// Whether there is a next page.
    var hasMore: Bool? { get }
}

extension HistoryResponse: APIPage {
    /// The revision is the cursor.
    public static var nextParameter: String { "revision" }
    /// `revision`.
    public var next: String? { revision }
}

extension RefundHistoryResponse: APIPage {
    /// The revision is the cursor.
    public static var nextParameter: String { "revision" }
    /// `revision`.
    public var next: String? { revision }
}

extension NotificationHistoryResponse: APIPage {
    /// The pagination token is the cursor.
    public static var nextParameter: String { "paginationToken" }
    /// `paginationToken`.
    public var next: String? { paginationToken }
}

extension GroupMembersResponse: APIPage {
    /// The pagination token is the cursor.
    public static var nextParameter: String { "paginationToken" }
    /// `paginationToken`.
    public var next: String? { paginationToken }
}

extension AppStoreClient {
    /// All pages of a list. The client requests each page on demand.
    ///
    /// To continue later, a caller keeps ``APIPage/next`` of the last processed page.
    ///
    /// - Parameters:
    ///   - endpoint: The first page.
    ///   - cursor: ``APIPage/next`` of an earlier page, to continue after this page.
    ///   - environment: The list's environment, such as ``Found/environment``.
    ///   - limit: The maximum number of pages; see ``Pages``.
    ///   - time: The maximum duration per page.
    public func pages<Page: APIPage>(
        _ endpoint: Endpoint<Page>, after cursor: String? = nil, in environment: Environment,
        atMost limit: Int = Pages<Page>.usualLimit, within time: Duration = deadline
    ) -> Pages<Page> {
        Pages(client: self, first: endpoint, cursor: cursor, environment: environment, limit: limit, time: time)
    }
}

/// The pages of a list, one request each.
///
/// The sequence throws `contradiction` if a page leads back to an earlier page, and `endlessPages` after the maximum
/// number of pages. These limits protect the caller if Apple, or a server in Apple's place, continues a list without
/// end. Apple's refusal of an id after its first page is a `contradiction` too.
public struct Pages<Page: APIPage>: AsyncSequence, Sendable {
    /// The default maximum number of pages: 1,000, enough for 20,000 transactions of one customer.
    public static var usualLimit: Int { 1000 }

    /// The maximum length of a cursor in bytes. A cursor is part of a URL, and servers refuse longer URLs.
    static var cursorLimit: Int { 4096 }

    let client: AppStoreClient
    let first: Endpoint<Page>
    let cursor: String?
    let environment: Environment
    let limit: Int
    let time: Duration

    /// Begins with the first page, or after the cursor.
    public func makeAsyncIterator() -> Iterator { Iterator(pages: self, cursor: cursor) }

    /// Requests the pages in order.
    public struct Iterator: AsyncIteratorProtocol {
        let pages: Pages
        var cursor: String?
        private var seen: Set<String> = []
        private var count = 0
        private var isAtEnd = false

        init(pages: Pages, cursor: String?) {
            self.pages = pages
            self.cursor = cursor
        }

        public mutating func next(
            isolation actor: isolated (any Actor)?
        ) async throws(AppStoreAPIError) -> Page? {
            guard !isAtEnd else { return nil }
            var endpoint = pages.first
            if let cursor { endpoint.request.replace(Page.nextParameter, by: cursor) }
            // The page before has promised more.
            if count > 0 { endpoint = endpoint.following(answer: true, neverEmpty: true) }
            // An error ends the sequence.
            isAtEnd = true
            let page = try await pages.client.send(endpoint, to: pages.environment, within: pages.time)
            isAtEnd = try !advance(past: page)
            return page
        }

        public mutating func next() async throws(AppStoreAPIError) -> Page? { try await next(isolation: #isolation) }

        /// Advances the cursor, and returns whether there is a next page.
        private mutating func advance(past page: Page) throws(AppStoreAPIError) -> Bool {
            guard page.hasMore == true else { return false }
            if let cursor { seen.insert(cursor) }
            count += 1
            guard let next = page.next, !next.isEmpty, next.utf8.count <= Self.cursorLimit else {
                throw fault(.malformedAnswer, "has no usable \(Page.nextParameter)")
            }
            guard !seen.contains(next) else { throw fault(.contradiction, "leads to a page that was read before") }
            guard count < pages.limit else { throw fault(.endlessPages, "is not the last of \(pages.limit)") }
            cursor = next
            return true
        }

        private static var cursorLimit: Int { Pages.cursorLimit }

        private func fault(_ code: AppStoreAPIError.Code, _ what: String) -> AppStoreAPIError {
            AppStoreAPIError(code, "A page of '\(pages.first.name)' \(what).", in: pages.environment)
        }
    }
}
