// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import AppStoreTrust
import PurchaseLedger

// Reads all transactions of a customer, request by request.

/// The reading of a customer's history in an environment. Each step makes at most one request, and verifies the answer.
///
/// The documents are recorded after the last answer, as one statement, so that the events tell the state after all of
/// them. A reading that fails records what it has.
struct HistoryReading {
    let reconciler: Reconciler
    /// The question about the part of the history that is not recorded.
    private(set) var question: HistoryQuestion
    /// The question about the part of the history that is not read.
    private var unread: HistoryQuestion
    /// The documents that were read and not recorded.
    private var held: [Evidence] = []
    /// The number of held documents from which they are recorded before the last answer, so that the eight histories of
    /// a backfill do not need more than some 40 MB: more than nine years of a weekly subscription.
    private static let maxHeld = 500
    private(set) var report: HistoryReport
    /// The transactions that all readings of the same backfill have seen. A single reading has a set of its own.
    private let seen: SeenTransactions
    /// This reading among those of the backfill.
    private let own: Reading
    /// The time limit of a step.
    let timeout: Duration
    private var pages: Pages<HistoryResponse>.Iterator?
    /// Whether no further page about the question's first id needs to be read.
    private var isRead = false
    /// Whether a complete reading has already covered the rest of this history.
    private var isKnown = false

    /// - Parameters:
    ///   - own: This reading in a backfill; `nil` for a single reading.
    ///   - seen: The transactions of the backfill.
    init(
        _ question: HistoryQuestion, by reconciler: Reconciler, as own: Reading? = nil,
        of seen: SeenTransactions = SeenTransactions(), timeout: Duration = AppStoreClient.deadline
    ) {
        self.reconciler = reconciler
        self.question = question
        unread = question
        self.seen = seen
        self.own = own ?? seen.begin()
        self.timeout = timeout
        report = HistoryReport(in: reconciler.scope.environment)
    }

    /// Makes the next request, or drops the first id if no request about it is left.
    ///
    /// - Returns: False if no id is left, so that the history is complete.
    /// - Throws: `VerificationError` if a document is refused now but may pass on a retry; ``HistoryQuestionError`` if
    ///   the order id is unknown; ``HistoryIsBeingRead``; `AppStoreAPIError`; `LedgerStorageError`.
    mutating func step() async throws -> Bool {
        do {
            return try await read()
        } catch {
            try await record()
            throw error
        }
    }

    /// Records the documents that were read.
    mutating func record() async throws {
        if !held.isEmpty {
            let result = try await reconciler.ledger.record(held, isBackfill: true, at: reconciler.now())
            report.count(result)
        }
        held = []
        question = unread
    }

    private mutating func read() async throws -> Bool {
        if let order = unread.order {
            try await lookUp(order)
            return true
        }
        guard let id = unread.transactions.first else {
            try await record()
            return false
        }
        do {
            if try await readPage(of: id) { return true }
            if unread.hasSubscription, !isKnown { try await askStatuses(of: id) }
        } catch let error as AppStoreAPIError
            where error.errorCode == .invalidRequestRevision && unread.mayBeginAnew
        {
            unread.beginAnew()
            pages = nil
            return true
        } catch let error as AppStoreAPIError where error.isUnknownTransaction && !isLastHope {
            // A receipt may have ids that the App Store no longer knows. Only the first answer about an id can say so.
        }
        unread.dropFirst()
        pages = nil
        isRead = false
        isKnown = false
        return true
    }

    /// Whether this is the last id, and no id has led to a purchase yet.
    private var isLastHope: Bool { unread.transactions.count == 1 && unread.hasFound != true }

    private mutating func lookUp(_ order: String) async throws {
        let answer = try await reconciler.client.send(
            .lookUpOrder(order), to: reconciler.scope.environment, within: timeout)
        let documents = await reconciler.verifier.checked(answer, at: reconciler.now())
        guard answer.isValid else { throw HistoryQuestionError("The App Store does not know this order id.") }
        unread.foundOrder(transactions: try hold(documents))
    }

    /// - Returns: False if there is no further page.
    private mutating func readPage(of id: String) async throws -> Bool {
        guard !isRead else { return false }
        if pages == nil {
            pages =
                reconciler.client.pages(
                    .transactionHistory(id).following(
                        answer: unread.isAnswered == true,
                        neverEmpty: unread.isAnswered == true && (unread.revision == nil || unread.hasMore == true)),
                    after: unread.revision, in: reconciler.scope.environment, within: timeout
                ).makeAsyncIterator()
        }
        guard let page = try await pages?.next() else { return false }
        try await take(page)
        return true
    }

    /// Takes a page: a first page that the caller has requested, or the next page.
    mutating func take(_ page: HistoryResponse) async throws {
        let key = TransactionKey(unread.transactions.first ?? "", in: reconciler.scope)
        if page.signedTransactions?.isEmpty != false, unread.isAnswered != true,
            try await reconciler.ledger.chain(of: key) != nil
        {
            // Apple signed the transaction. The page is asked for again, and must have it.
            unread.isAnswered = true
            pages = nil
            return
        }
        let documents = await reconciler.verifier.checked(page, at: reconciler.now())
        let payloads = try hold(documents)
        isRead = page.hasMore != true
        unread.answered(with: payloads, upTo: page.revision, hasMore: !isRead)
        switch seen.others(with: payloads.compactMap(\.transactionId), besides: own) {
        case .none: break
        case .reading(let other):
            // The other reading does not record these documents again.
            try await record()
            throw HistoryIsBeingRead(reading: other, report: report)
        case .complete:
            isRead = true
            isKnown = true
        }
        if held.count >= Self.maxHeld { try await record() }
    }

    private mutating func askStatuses(of id: String) async throws {
        // The answer repeats transactions that the pages had a moment ago. Of its transactions, only those with changed
        // content are recorded.
        let key = ChainKey(id, in: reconciler.scope)
        let (evidence, refusal) = try await reconciler.statuses(of: key, followingAnswer: true, within: timeout)
        let new = evidence.filter { $0.kind != .transaction || !seen.contains($0) }
        held += new
        // An invalid document does not delay the rest. A document that may be valid later is requested again.
        if let refusal, new.isEmpty || refusal.isRetryable { throw refusal }
    }

    /// Holds the valid documents of an answer that no reading of the backfill has seen.
    private mutating func hold(
        _ documents: [CheckedDocument<Verified<JWSTransactionDecodedPayload>>]
    ) throws(VerificationError) -> [JWSTransactionDecodedPayload] {
        let (evidence, payloads) = try report.take(documents)
        let new = seen.claim(evidence, by: own)
        report.count(known: evidence.count - new.count)
        held += new
        return payloads
    }
}

/// The error if a different reading of the same history is already running.
struct HistoryIsBeingRead: Error {
    let reading: Reading
    /// The report of the reading that throws the error, up to then.
    let report: HistoryReport
}

extension HistoryQuestion {
    fileprivate mutating func dropFirst() {
        transactions.removeFirst()
        revision = nil
        hasSubscription = false
        hasBegunAnew = false
        isAnswered = nil
        hasMore = nil
    }

    /// Whether the history may be read from its beginning after the App Store refused Apple's `revision`, from which
    /// the reading continued.
    fileprivate var mayBeginAnew: Bool { revision != nil && !hasBegunAnew }

    fileprivate mutating func beginAnew() {
        revision = nil
        hasBegunAnew = true
    }

    fileprivate mutating func foundOrder(transactions found: [JWSTransactionDecodedPayload]) {
        order = nil
        isAnswered = true
        hasFound = true
        // All transactions of an order belong to the same customer, so a single id is enough.
        transactions = found.compactMap(\.originalTransactionId).first.map { [$0] } ?? []
    }

    /// Notes a recorded page. Ids that the page contains need no question of their own.
    fileprivate mutating func answered(
        with found: [JWSTransactionDecodedPayload], upTo revision: String?, hasMore: Bool
    ) {
        let known = Set(found.flatMap { [$0.transactionId, $0.originalTransactionId].compactMap(\.self) })
        transactions = transactions.prefix(1) + transactions.dropFirst().filter { !known.contains($0) }
        hasSubscription = hasSubscription || found.contains { $0.type?.known == .autoRenewableSubscription }
        self.revision = revision
        self.hasMore = hasMore ? true : nil
        isAnswered = true
        if !found.isEmpty { hasFound = true }
    }
}
