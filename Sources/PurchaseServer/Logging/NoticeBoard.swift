// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel
import Logging
package import PurchaseLedger
import Synchronization

/// Notices for the operator. New notices are logged. `/health/ready` shows all notices of the last 30 days, as
/// sentences.
package final class NoticeBoard: Sendable {
    /// The time between two log lines of a notice. Its first occurrence is logged at once.
    private static let interval = Duration.seconds(3600)

    /// The maximum number of notices that wait for their first or next log line: many times the number of products of
    /// an app.
    private static let limit = 1000

    /// The maximum number of products or purchases that one sentence names.
    private static let named = 5

    private struct Entry {
        var count = 0
        var nextLine: Timestamp?
    }

    private struct State {
        var entries: [Notice: Entry] = [:]
        /// The time at which this process last logged each notice.
        var logged: [Notice: Timestamp] = [:]
        var concern: String?
    }

    private let state = Mutex(State())

    package init() {}

    /// Counts the notices that arriving documents or an answer to a client gave rise to.
    package func note(_ notices: [Notice: Int]) {
        state.withLock { state in
            for (notice, count) in notices where state.entries.count < Self.limit || state.entries[notice] != nil {
                state.entries[notice, default: Entry()].count += count
            }
        }
    }

    /// Takes the due notices, each with the number of its occurrences since its last log line.
    package func takeDue(at now: Timestamp) -> [(notice: Notice, count: Int)] {
        state.withLock { state in
            // A notice without a new occurrence within the interval is removed.
            state.entries = state.entries.filter { $1.count > 0 || $1.nextLine ?? now > now }
            var due: [(Notice, Int)] = []
            for (notice, entry) in state.entries where entry.count > 0 && entry.nextLine ?? now <= now {
                due.append((notice, entry.count))
                state.entries[notice] = Entry(nextLine: now.advanced(by: Self.interval))
                if state.logged.count < Self.limit { state.logged[notice] = now }
            }
            return due.sorted { $0.0.subject < $1.0.subject }
        }
    }

    /// The notices that this process logged in the last 30 days. They include notices of answers to clients; the ledger
    /// stores only notices of documents.
    func logged(at now: Timestamp) -> [Notice] {
        state.withLock { state in
            state.logged = state.logged.filter { now < $1.advanced(by: Notice.lifetime) }
            return Array(state.logged.keys)
        }
    }

    /// The current notices, as sentences for the operator; `nil` if there are none.
    var concern: String? { state.withLock { $0.concern } }

    /// Replaces the sentences of ``concern``.
    ///
    /// - Parameter notices: All notices of the last 30 days that still hold.
    func show(_ notices: [Notice]) {
        let sentences = Notice.Kind.allCases.compactMap { kind in
            let subjects = Set(notices.filter { $0.kind == kind }.map(\.name)).sorted()
            return subjects.isEmpty ? nil : kind.concern(Self.list(subjects), count: subjects.count)
        }
        let concern = sentences.isEmpty ? nil : sentences.joined(separator: " ")
        state.withLock { $0.concern = concern }
    }

    private static func list(_ subjects: [String]) -> String {
        let more = subjects.count > named ? " and \(subjects.count - named) more" : ""
        return subjects.prefix(named).joined(separator: ", ") + more
    }
}

extension Notice.Kind {
    /// The advice for the operator, as a sentence. The readiness response is public, so the sentence may name products,
    /// but no transactions.
    fileprivate func concern(_ subjects: String, count: Int) -> String {
        switch self {
        case .unknownProduct:
            """
            Purchases of the last 30 days are of products that the configuration lacks, so they give no entitlement: \
            \(subjects). Add them to products, with "entitlements": [] if they give none.
            """
        case .contestedPurchase:
            """
            More customers than usual presented one purchase within 30 days: \(count) of them, which the log names. If \
            their documents went round, set claimPolicy to keep, or require customerProof.
            """
        }
    }
}

extension Notice {
    /// The subject and its environment, for people.
    fileprivate var name: String { "\(publicSubject) (\(scope.environment.rawValue))" }

    /// The product id, or the original transaction id as Apple's documents have it: without the `@` and the time that
    /// the ledger appends to it in Xcode and LocalTesting.
    private var publicSubject: String {
        kind == .contestedPurchase ? ChainKey(subject, in: scope).originalTransactionId : subject
    }

    /// The message of the log line.
    var message: Logger.Message {
        switch kind {
        case .unknownProduct: "A purchase is of a product that the configuration lacks: it gives no entitlement"
        case .contestedPurchase: "More customers than usual presented one purchase: set claimPolicy or customerProof"
        }
    }

    /// The fields of the log line.
    ///
    /// - Parameter count: The number of the notice's occurrences since its last log line.
    func metadata(_ count: Int) -> Logger.Metadata {
        [
            kind == .unknownProduct ? "productId" : "originalTransactionId": .string(publicSubject),
            "bundleId": .string(scope.bundleId), "environment": .string(scope.environment.rawValue),
            "times": .stringConvertible(count),
        ]
    }

    /// Whether the notice still holds with the present catalogue.
    func holds(_ catalogue: Catalogue) -> Bool {
        switch kind {
        case .unknownProduct: catalogue.products[exactly: subject] == nil
        case .contestedPurchase: true
        }
    }
}
