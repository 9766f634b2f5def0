// SPDX-License-Identifier: Apache-2.0

/// What was sent, and what was answered so far.
struct Exchange {
    /// What the next result is an answer to.
    enum Expected {
        case prepared(String)
        /// A statement of a request.
        case statement(Int, String, commits: Bool)
        case rollback
        /// The end of a request, and of its transaction if it has one statement: a statement outside a block is
        /// answered before it is committed.
        case sync(Int?)
    }

    var expected: [Expected] = []
    private var index = 0
    private var rows: [[PostgresRows]]
    private var failures: [PostgresFailure?]
    /// Why statements could not be prepared. What uses them then fails with an error that says nothing.
    private var unprepared: [String: PostgresFailure] = [:]
    /// Whether the last result was the end of a statement.
    private var isBetween = false

    init(count: Int) {
        rows = Array(repeating: [], count: count)
        failures = Array(repeating: nil, count: count)
    }

    var isComplete: Bool { index == expected.count }

    var current: Expected? { index < expected.count ? expected[index] : nil }

    /// - Returns: False if no statement has begun, so that this would go on for ever.
    mutating func endStatement() -> Bool {
        guard !isBetween else { return false }
        isBetween = true
        if case .sync = current {} else { index += 1 }
        return true
    }

    /// - Parameter warning: What the database said when it ended the transaction of a single statement, if libpq did
    ///   not read it together with the answer to the statement.
    mutating func endRequest(_ warning: String?) {
        isBetween = false
        // Statements that libpq reported no result for were not run.
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

    /// Notes that a statement did not run, since one before it failed.
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

    /// Fails the requests that have no complete answer yet. One whose end has not arrived may not be committed. If they
    /// are late, it is because of the first of them.
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
