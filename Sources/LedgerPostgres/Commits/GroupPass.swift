// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger

/// A load that waits for others to share a request with.
struct WaitingLoad: Sendable {
    let query: LedgerQuery
    let answer: @Sendable (Result<LedgerSnapshot, any Error>) -> Void
}

/// A work that waits to be decided and committed.
struct PendingCommit: Sendable {
    let query: LedgerQuery
    /// Decides. The output of a commit is a closure that reports success, to call once it is durable.
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
    /// The homes of the documents that the works may store.
    var homes: [Provenance: String] {
        Dictionary(flatMap(\.arriving).map { ($0.provenance, $0.home) }) { first, _ in first }
    }

    var readSet: ReadSet { ReadSet(keys: reduce(into: []) { $0.formUnion($1.keys) }) }
}

/// One pass over the works of a group: each is decided about, one after another. If some need more records, all are
/// loaded again, and another pass follows.
struct GroupPass {
    private let works: [PendingCommit]
    private let loaded: ReadSet
    private(set) var queries: [LedgerQuery]
    private(set) var draft: GroupDraft
    /// What is called after the commit.
    private(set) var answers: [@Sendable () -> Void] = []
    /// Works whose changes cannot be in a group with others.
    private(set) var alone: [PendingCommit] = []
    /// What must be loaded before the changes can be committed.
    private(set) var needs = ReadSet()
    /// Whether all works were decided.
    private(set) var isComplete = true

    /// - Parameters:
    ///   - queries: What each work looks at, as far as that is known.
    ///   - readSet: What was loaded, also if it does not exist.
    init(_ works: [PendingCommit], _ queries: [LedgerQuery], _ readSet: ReadSet, _ records: LoadedRecords) {
        self.works = works
        self.queries = queries
        loaded = readSet
        draft = GroupDraft(records)
    }

    /// Not inlined into its asynchronous caller, which this compiler's optimizer gets wrong.
    @inline(never)
    mutating func decide(numbers: [CustomerID: Int64]) {
        for index in works.indices {
            do {
                try decide(index, numbers)
            } catch {
                // It may have thrown because of what works before it changed, so this too is reported after the commit.
                let work = works[index]
                draft.add(LedgerChanges(), writing: [], reading: readSet(of: index))
                answers.append { work.fail(error) }
            }
        }
    }

    private mutating func decide(_ index: Int, _ numbers: [CustomerID: Int64]) throws {
        switch try works[index].decide(try LedgerSnapshot(queries[index], draft.after, numbers: numbers)) {
        case .load(let more):
            queries[index] = queries[index].union(more)
            needs.keys.formUnion(queries[index].keys)
            isComplete = false
        case .commit(let changes, let answer):
            let written = changes.keys
            guard works.count == 1 || written.allSatisfy(\.isFoldable) else { return alone.append(works[index]) }
            let needed = CommitPlan.needs(of: changes, written, draft.after)
            needs.formUnion(needed)
            isComplete = isComplete && loaded.contains(needed)
            var read = readSet(of: index)
            read.formUnion(needed)
            draft.add(changes, writing: written, reading: read)
            answers.append(answer)
        }
    }

    /// What a work looked at.
    private func readSet(of index: Int) -> ReadSet {
        var read = ReadSet(keys: queries[index].keys)
        read.keys.formUnion(draft.before.chainsFound(for: queries[index]).map(LedgerKey.chain))
        return read
    }
}
