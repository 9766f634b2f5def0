// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger

/// A waiting load, to be sent to the database in a batch with other loads.
struct WaitingLoad: Sendable {
    let query: LedgerQuery
    let answer: @Sendable (Result<LedgerSnapshot, any Error>) -> Void
}

/// A waiting commit, to be decided in a batch with other commits.
struct PendingCommit: Sendable {
    let query: LedgerQuery
    /// Runs the decision. Its output is a closure to report success, to be called once the changes are durable.
    let decide: @Sendable (LedgerSnapshot) throws -> LedgerDecision<@Sendable () -> Void>
    let fail: @Sendable (any Error) -> Void

    init<Output: Sendable>(
        _ query: LedgerQuery, _ decide: @escaping LedgerDecider<Output>,
        answer: @escaping @Sendable (Result<Output, any Error>) -> Void
    ) {
        self.query = query
        self.decide = { snapshot in
            switch try decide(snapshot) {
            case .load(let more): .load(more)
            case .commit(let changes, let output): .commit(changes, { answer(.success(output)) })
            }
        }
        fail = { answer(.failure($0)) }
    }
}

extension [LedgerQuery] {
    /// The ``PurchaseLedger/Evidence/home`` of each document to be stored by the decisions, by the document's name.
    var homes: [Provenance: String] {
        Dictionary(flatMap(\.arriving).map { ($0.provenance, $0.home) }) { first, _ in first }
    }

    var readSet: ReadSet { ReadSet(keys: reduce(into: []) { $0.formUnion($1.keys) }) }
}

/// A pass over a batch, which runs the decision of each commit in turn. If a decision needs more records, the storage
/// loads all records of the batch again, now with the additional records, and runs a further pass.
struct GroupPass {
    private let commits: [PendingCommit]
    private let loaded: ReadSet
    private(set) var queries: [LedgerQuery]
    private(set) var draft: GroupDraft
    /// The closures to call after the commit.
    private(set) var answers: [@Sendable () -> Void] = []
    /// Commits to run in batches of their own.
    private(set) var alone: [PendingCommit] = []
    /// The records to load for a further pass: the records requested by decisions, and the records needed to commit the
    /// changes.
    private(set) var needs = ReadSet()
    /// Whether the loaded records sufficed for every commit.
    private(set) var isComplete = true

    /// - Parameters:
    ///   - queries: The known reads of each commit so far, including the records requested by its decision in earlier
    ///     passes.
    ///   - readSet: The loaded keys, including keys whose record does not exist, and the loaded rows without a key.
    init(_ commits: [PendingCommit], _ queries: [LedgerQuery], _ readSet: ReadSet, _ records: LoadedRecords) {
        self.commits = commits
        self.queries = queries
        loaded = readSet
        draft = GroupDraft(records)
    }

    /// Not inlined into its asynchronous caller, because the Swift optimizer would miscompile the result.
    @inline(never)
    mutating func decide(numbers: [CustomerID: Int64]) {
        for index in commits.indices {
            do {
                try decide(index, numbers)
            } catch {
                // The error may depend on earlier changes of the batch, so it is reported only after the commit.
                let commit = commits[index]
                draft.add(LedgerChanges(), writing: [], reading: readSet(of: index))
                answers.append { commit.fail(error) }
            }
        }
    }

    private mutating func decide(_ index: Int, _ numbers: [CustomerID: Int64]) throws {
        switch try commits[index].decide(try LedgerSnapshot(queries[index], draft.after, numbers: numbers)) {
        case .load(let more):
            queries[index] = queries[index].union(more)
            needs.keys.formUnion(queries[index].keys)
            isComplete = false
        case .commit(let changes, let answer):
            let written = changes.keys
            guard commits.count == 1 || written.allSatisfy(\.isFoldable) else { return alone.append(commits[index]) }
            let needed = CommitPlan.needs(of: changes, written, draft.after)
            needs.formUnion(needed)
            isComplete = isComplete && loaded.contains(needed)
            var read = readSet(of: index)
            read.formUnion(needed)
            draft.add(changes, writing: written, reading: read)
            answers.append(answer)
        }
    }

    /// The reads of a commit's decision: the records of its query, and the chains found for its transactions and
    /// customers.
    private func readSet(of index: Int) -> ReadSet {
        var read = ReadSet(keys: queries[index].keys)
        read.keys.formUnion(draft.before.chainsFound(for: queries[index]).map(LedgerKey.chain))
        return read
    }
}
