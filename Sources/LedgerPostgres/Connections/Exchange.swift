// SPDX-License-Identifier: Apache-2.0

/// The requests sent in a pipeline, and their results so far.
struct Exchange {
    /// A statement, or a synchronization point of the pipeline (a sync), whose result is awaited.
    enum Expected {
        case prepared(String)
        /// A statement of the request with the given index.
        case statement(Int, String, commits: Bool)
        case rollback
        /// The sync at the end of a request, with the request's index; `nil` for a sync after a preparation or a
        /// rollback. If the request is a single statement outside a block, the sync also commits it: the statement's
        /// result arrives before the commit.
        case sync(Int?)
    }

    var expected: [Expected] = []
    private var index = 0
    private var rows: [[PostgresRows]]
    private var failures: [PostgresFailure?]
    /// The failures to prepare statements, by the text of the statement. They replace the uninformative error of the
    /// later attempt to run the statement.
    private var unprepared: [String: PostgresFailure] = [:]
    /// Whether the last arrival was the end of a statement's results.
    private var isBetween = false

    init(count: Int) {
        rows = Array(repeating: [], count: count)
        failures = Array(repeating: nil, count: count)
    }

    var isComplete: Bool { index == expected.count }

    var current: Expected? { index < expected.count ? expected[index] : nil }

    /// Notes the end of a statement's results.
    ///
    /// - Returns: False if no result has arrived since the previous call of this method. The connection is then broken,
    ///   and a caller that continued would loop for ever.
    mutating func endStatement() -> Bool {
        guard !isBetween else { return false }
        isBetween = true
        if case .sync = current {} else { index += 1 }
        return true
    }

    /// Notes that a sync has been answered, which ends a request, a preparation or a rollback.
    ///
    /// - Parameter warning: The warning that came with the commit of a single statement; `nil` if there was none, or if
    ///   libpq has already delivered it with the statement's result.
    mutating func endRequest(_ warning: String?) {
        isBetween = false
        // The statements skipped here have no result, because they did not run.
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

    /// Notes that a statement did not run, because an earlier statement of its request failed.
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

    /// Fails the requests without a complete answer. An answer is complete only with the result of the request's final
    /// sync, because before that the request may be uncommitted. After a timeout, only the first of these requests
    /// counts as late. The others count as pipelined behind it.
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
