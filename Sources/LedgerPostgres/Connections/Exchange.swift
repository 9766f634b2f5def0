// SPDX-License-Identifier: Apache-2.0

/// The requests sent in a pipeline, and their results so far.
struct Exchange {
    /// The statement or sync of the next result.
    enum Expected {
        case prepared(String)
        /// A statement of a request.
        case statement(Int, String, commits: Bool)
        case rollback
        /// The sync at the end of a request. It also ends the transaction of a single statement: outside a block, the
        /// result of a statement arrives before its commit.
        case sync(Int?)
    }

    var expected: [Expected] = []
    private var index = 0
    private var rows: [[PostgresRows]]
    private var failures: [PostgresFailure?]
    /// The failures to prepare statements. A later use of such a statement fails with an uninformative error.
    private var unprepared: [String: PostgresFailure] = [:]
    /// Whether the last result was the end of a statement.
    private var isBetween = false

    init(count: Int) {
        rows = Array(repeating: [], count: count)
        failures = Array(repeating: nil, count: count)
    }

    var isComplete: Bool { index == expected.count }

    var current: Expected? { index < expected.count ? expected[index] : nil }

    /// - Returns: False if no statement has begun. The caller would then loop for ever.
    mutating func endStatement() -> Bool {
        guard !isBetween else { return false }
        isBetween = true
        if case .sync = current {} else { index += 1 }
        return true
    }

    /// - Parameter warning: The warning at the end of a single statement's transaction, unless libpq delivered the
    ///   warning with the statement's result.
    mutating func endRequest(_ warning: String?) {
        isBetween = false
        // Statements without a result did not run.
        while let current {
            index += 1
            guard case .sync(let number) = current else { continue }
            if let number, let warning { failures[number] = failures[number] ?? .unconfirmed(warning) }
            return
        }
    }

    mutating func add(_ found: PostgresRows, _ warning: String?) {
        isBetween = false
        guard case .statement(let number, _, let commits) = current else { return }
        rows[number].append(found)
        if commits, let warning { failures[number] = .unconfirmed(warning) }
    }

    /// Notes that a statement did not run, because an earlier statement failed.
    mutating func skip() { isBetween = false }

    mutating func refuse(_ failure: PostgresFailure) {
        isBetween = false
        switch current {
        case .statement(let number, let sql, _): failures[number] = failures[number] ?? unprepared[sql] ?? failure
        case .sync(let number?): failures[number] = failures[number] ?? failure
        case .prepared(let sql): unprepared[sql] = failure
        case .rollback, .sync, nil: break
        }
    }

    /// Fails the requests without a complete answer. Without the result of its final sync, a request may be
    /// uncommitted. After a timeout, only the first of these requests counts as late. The others count as pipelined
    /// behind it.
    mutating func fail(_ failure: PostgresFailure) {
        var open = Set(failures.indices.filter { rows[$0].isEmpty })
        for case .sync(let number?) in expected.dropFirst(index) { open.insert(number) }
        let unanswered = open.filter { failures[$0] == nil }.sorted()
        for number in unanswered {
            if number != unanswered.first, case .late = failure {
                failures[number] = .behind
            } else {
                failures[number] = failure
            }
        }
    }

    func results(_ requests: [PostgresRequest]) -> [Result<[PostgresRows], PostgresFailure>] {
        zip(requests, zip(rows, failures)).map { request, answer in
            if let failure = answer.1 { return .failure(failure) }
            guard answer.0.count == request.statements.count else { return .failure(.lost("An answer is missing")) }
            return .success(request.answers(answer.0))
        }
    }
}
