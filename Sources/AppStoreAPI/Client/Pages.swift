// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// A page of a list that Apple returns in parts.
public protocol APIPage: Sendable {
    /// The name of the query's parameter that asks for the next page.
    static var nextParameter: String { get }
    /// The value of that parameter: opaque text.
    var next: String? { get }
    /// Whether there is a next page.
    var hasMore: Bool? { get }
}

extension HistoryResponse: APIPage {
    /// The revision goes on.
    public static var nextParameter: String { "revision" }
    /// `revision`.
    public var next: String? { revision }
}

extension RefundHistoryResponse: APIPage {
    /// The revision goes on.
    public static var nextParameter: String { "revision" }
    /// `revision`.
    public var next: String? { revision }
}

extension NotificationHistoryResponse: APIPage {
    /// The pagination token goes on.
    public static var nextParameter: String { "paginationToken" }
    /// `paginationToken`.
    public var next: String? { paginationToken }
}

extension GroupMembersResponse: APIPage {
    /// The pagination token goes on.
    public static var nextParameter: String { "paginationToken" }
    /// `paginationToken`.
    public var next: String? { paginationToken }
}

extension AppStoreClient {
    /// All pages of a list, each asked for when it is needed.
    ///
    /// A caller that wants to go on later keeps ``APIPage/next`` of the last page that it has dealt with.
    ///
    /// - Parameters:
    ///   - endpoint: The first page.
    ///   - cursor: ``APIPage/next`` of an earlier page, to go on after it.
    ///   - environment: The environment that knows the list, such as ``Found/environment``.
    ///   - limit: The most pages; see ``Pages``.
    ///   - time: The longest time for each page.
    public func pages<Page: APIPage>(
        _ endpoint: Endpoint<Page>, after cursor: String? = nil, in environment: Environment,
        atMost limit: Int = Pages<Page>.usualLimit, within time: Duration = deadline
    ) -> Pages<Page> {
        Pages(client: self, first: endpoint, cursor: cursor, environment: environment, limit: limit, time: time)
    }
}

/// The pages of a list, one request each.
///
/// A list that Apple, or somebody in its place, continues without end throws `endlessPages`: if a page asks for a page
/// that has been read, or after the most pages that the caller expects.
public struct Pages<Page: APIPage>: AsyncSequence, Sendable {
    /// The most pages if the caller names no number: 20,000 transactions of one customer.
    public static var usualLimit: Int { 1000 }

    /// The longest cursor in bytes. It is part of an address, and servers refuse longer ones.
    static var cursorLimit: Int { 4096 }

    let client: AppStoreClient
    let first: Endpoint<Page>
    let cursor: String?
    let environment: Environment
    let limit: Int
    let time: Duration

    /// Begins with the first page, or after the cursor.
    public func makeAsyncIterator() -> Iterator { Iterator(pages: self, cursor: cursor) }

    /// Asks for one page after the other.
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
            // After an error the sequence is at its end.
            isAtEnd = true
            let page = try await pages.client.send(endpoint, to: pages.environment, within: pages.time)
            isAtEnd = try !advance(past: page)
            return page
        }

        public mutating func next() async throws(AppStoreAPIError) -> Page? { try await next(isolation: #isolation) }

        /// Whether there is another page.
        private mutating func advance(past page: Page) throws(AppStoreAPIError) -> Bool {
            guard page.hasMore == true else { return false }
            if let cursor { seen.insert(cursor) }
            count += 1
            guard let next = page.next, !next.isEmpty, next.utf8.count <= Self.cursorLimit else {
                throw fault(.malformedAnswer, "has no usable \(Page.nextParameter)")
            }
            guard !seen.contains(next) else { throw fault(.endlessPages, "leads to a page that was read before") }
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
