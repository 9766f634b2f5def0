// SPDX-License-Identifier: Apache-2.0

import CLibPQ
import PurchaseLedger

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// A connection to PostgreSQL: the only file that calls libpq.
///
/// It sends requests in a pipeline and never waits: its ``ConnectionLoop`` does. It reads while it sends: otherwise
/// the buffers of both sides fill, and both wait for ever. A sync follows each request, so that none depends on another
/// one.
///
/// One thread at a time uses a connection, see ``ConnectionLoop``.
final class PostgresConnection: @unchecked Sendable {
    typealias Results = [Result<[PostgresRows], PostgresFailure>]

    private let connection: OpaquePointer
    private let usesNames: Bool
    /// The schema that the texts of statements get.
    private let schema: String
    private let warnings = Warnings()
    /// The names of the statements that were prepared, by their text.
    private var prepared: [String: String] = [:]
    /// The requests that were sent, and their answers so far.
    private var requests: [PostgresRequest] = []
    private var exchange = Exchange(count: 0)
    /// The end of the transaction that an error has left open, once it was sent.
    private var rollback: Exchange?
    /// Why the requests cannot be answered.
    private var failure: PostgresFailure?
    private var hasUnsent = false
    /// Whether another request can be sent.
    private(set) var isUsable = true
    private var isClosed = false

    /// Opens a connection.
    ///
    /// - Parameters:
    ///   - options: The parameters of libpq in their order, of which a later one replaces an earlier one.
    ///   - host: The host, and how long connecting may take.
    ///   - usesNames: Whether to prepare statements.
    ///   - schema: The schema of the ledger, see ``LedgerSchema``.
    /// - Throws: `PostgresFailure.unavailable`.
    init(
        _ options: [(name: String, value: String)], to host: PostgresHost = PostgresHost(), usesNames: Bool,
        schema: String = LedgerSchema.usual, clock: ContinuousClock
    ) throws(PostgresFailure) {
        let deadline = clock.now.advanced(by: host.limit)
        let options = options + host.options
        let opened = Self.withStrings(options.map(\.name)) { names in
            Self.withStrings(options.map(\.value)) { PQconnectStartParams(names, $0, 1) }
        }
        guard let opened else { throw .unavailable("libpq has no memory") }
        if let failure = Self.failure(toConnect: opened, until: deadline, clock) {
            PQfinish(opened)
            throw failure
        }
        connection = opened
        self.usesNames = usesNames
        self.schema = schema
        PQsetNoticeReceiver(opened, Warnings.receiver, Unmanaged.passUnretained(warnings).toOpaque())
        guard PQsetnonblocking(opened, 1) == 0, PQenterPipelineMode(opened) == 1 else {
            throw .unavailable("libpq cannot send without blocking")
        }
    }

    deinit {
        if !isClosed { PQfinish(connection) }
    }

    /// Closes the connection at once. Nothing else may be called after that.
    func close() {
        guard !isClosed else { return }
        isClosed = true
        isUsable = false
        PQfinish(connection)
    }
}

// MARK: - Requests

extension PostgresConnection {
    /// Sends requests together, as far as the socket takes them. ``proceed(_:)`` does the rest.
    ///
    /// A block of statements that fails leaves its transaction open until all requests are answered. Those after it are
    /// refused with 25P02, and do not run.
    func begin(_ requests: [PostgresRequest]) {
        self.requests = requests
        exchange = Exchange(count: requests.count)
        rollback = nil
        failure = nil
        do throws(PostgresFailure) {
            try send(requests)
            try flush()
        } catch {
            failure = error
        }
    }

    /// Whether ``proceed(_:)`` need not wait, since the requests cannot be answered.
    var hasFailed: Bool { failure != nil }

    /// The version of TLS; `nil` without TLS.
    var encryption: String? {
        PQsslInUse(connection) == 1 ? Self.text(PQsslAttribute(connection, "protocol")) : nil
    }

    /// The number of the process at the other end, as it was given to libpq.
    var process: Int64 { Int64(PQbackendPID(connection)) }

    /// What to wait for before ``proceed(_:)``.
    var pollEntry: pollfd {
        pollfd(fd: PQsocket(connection), events: Int16(POLLIN) | (hasUnsent ? Int16(POLLOUT) : 0), revents: 0)
    }

    /// Sends and receives what is possible without waiting.
    ///
    /// - Parameter events: What the wait has found.
    /// - Returns: The rows of each request's statements, or why it failed; `nil` if there is more to wait for.
    func proceed(_ events: Int16) -> Results? {
        do throws(PostgresFailure) {
            if let failure { throw failure }
            if hasUnsent { try flush() }
            if events & ~Int16(POLLOUT) != 0 { try consume() }
            guard try receive() else { return nil }
            return results()
        } catch {
            return end(error)
        }
    }

    /// The same after a wait.
    ///
    /// - Parameter milliseconds: How long to wait at most.
    func proceed(waiting milliseconds: Int32) -> Results? {
        var entry = pollEntry
        _ = hasFailed ? 0 : poll(&entry, 1, milliseconds)
        return proceed(entry.revents)
    }

    /// Reads what has arrived. With TLS it reads twice: a record may be longer than what libpq reads at once, and the
    /// socket does not show what OpenSSL has kept of it.
    private func consume() throws(PostgresFailure) {
        for _ in 0...PQsslInUse(connection) {
            guard PQconsumeInput(connection) == 1 else { throw .lost(message) }
        }
    }

    /// Gives the requests up, and the connection too.
    func end(_ failure: PostgresFailure) -> Results {
        isUsable = false
        exchange.fail(failure)
        return results()
    }

    /// Whether the database still works on requests that were given up.
    var isAtWork: Bool { !isUsable && !exchange.isComplete && PQstatus(connection) == CONNECTION_OK }

    /// Ends what the database still does for requests that were given up. Waits, so it needs a thread of its own.
    ///
    /// A cancellation ends one statement, and the next request in the pipeline begins, so it is repeated until all are
    /// answered. Nothing of it can meet another request, since the connection is not used again.
    ///
    /// - Parameter deadline: When to leave the rest to the database. libpq's call itself is bounded by the system
    ///   alone: by `tcp_user_timeout` while it connects, and by the keepalives while it waits.
    func cancel(until deadline: ContinuousClock.Instant, _ clock: ContinuousClock) {
        guard let request = PQgetCancel(connection) else { return }
        defer { PQfreeCancel(request) }
        var message = [CChar](repeating: 0, count: 256)
        while clock.now < deadline, PQcancel(request, &message, Int32(message.count)) == 1 {
            let next = min(deadline, clock.now.advanced(by: Self.betweenCancellations))
            while clock.now < next {
                let left = clock.now.duration(to: next).milliseconds
                if proceed(waiting: Int32(clamping: left)) != nil { return }
            }
        }
    }

    /// How long to wait until a statement has ended after its cancellation, which takes the database a millisecond. It
    /// may have come between two statements, and ended none.
    private static let betweenCancellations = Duration.milliseconds(20)

    private func results() -> Results {
        if PQtransactionStatus(connection) != PQTRANS_IDLE { isUsable = false }
        let results = exchange.results(requests)
        if results.contains(where: \.endsConnection) { isUsable = false }
        return results
    }
}

// MARK: - Connecting

extension PostgresConnection {
    /// Connects, and reports why that failed.
    private static func failure(
        toConnect connection: OpaquePointer, until deadline: ContinuousClock.Instant, _ clock: ContinuousClock
    ) -> PostgresFailure? {
        var events = Int16(POLLOUT)
        var status = PQstatus(connection)
        while PQstatus(connection) != CONNECTION_BAD {
            let left = clock.now.duration(to: deadline).milliseconds
            guard left > 0 else { return .unavailable("The database did not accept a connection in time") }
            var socket = pollfd(fd: PQsocket(connection), events: events, revents: 0)
            guard poll(&socket, 1, Int32(clamping: left)) >= 0 || errno == EINTR else {
                return .unavailable("poll failed")
            }
            guard socket.revents != 0 else { continue }
            status = PQstatus(connection)
            switch PQconnectPoll(connection) {
            case PGRES_POLLING_OK: return nil
            case PGRES_POLLING_READING: events = Int16(POLLIN)
            case PGRES_POLLING_WRITING: events = Int16(POLLOUT)
            default: return failure(of: connection, at: status)
            }
        }
        return failure(of: connection, at: status)
    }

    /// The second line of a failure to prove who the database is would be libpq's advice not to ask for the proof.
    private static func failure(of connection: OpaquePointer, at status: ConnStatusType) -> PostgresFailure {
        let message = text(PQerrorMessage(connection))
        let isUntrusted = status == CONNECTION_SSL_STARTUP && ["SSL", "certificate"].contains { message.contains($0) }
        return isUntrusted ? .untrusted(String(message.prefix { $0 != ";" })) : .unavailable(message)
    }

    /// Whether nothing answers at a host, or what answers is still starting. Waits.
    static func isAway(_ options: [(name: String, value: String)], _ host: PostgresHost) -> Bool {
        // 0 would be without an end.
        let options = options + host.options + [("connect_timeout", "3")]
        let state = withStrings(options.map(\.name)) { names in
            withStrings(options.map(\.value)) { PQpingParams(names, $0, 1) }
        }
        return state == PQPING_NO_RESPONSE || state == PQPING_REJECT
    }
}

// MARK: - Sending

extension PostgresConnection {
    private func send(_ requests: [PostgresRequest]) throws(PostgresFailure) {
        var names = usesNames ? try prepare(requests)[...] : []
        for (number, request) in requests.enumerated() {
            for statement in request.statements {
                try send(statement, names.popFirst() ?? nil)
                let commits = request.writes && (!request.isBlock || statement.sql == PostgresStatement.commit.sql)
                exchange.expected.append(.statement(number, statement.sql, commits: commits))
            }
            try sync(&exchange, number)
        }
    }

    /// Prepares new statements ahead of the requests, where no error of a request can keep them from being prepared.
    ///
    /// A name follows from the text. A pooler may pass requests to a connection on which others have prepared
    /// statements, and a name must never stand for another text than it does here.
    ///
    /// - Returns: The name of each statement, in order; `nil` for one that is not prepared.
    private func prepare(_ requests: [PostgresRequest]) throws(PostgresFailure) -> [String?] {
        var names: [String?] = []
        for statement in requests.flatMap(\.statements) {
            let known = statement.isPrepared ? prepared[statement.sql] : nil
            guard statement.isPrepared, known == nil else {
                names.append(known)
                continue
            }
            let text = LedgerSchema.text(statement.sql, in: schema)
            let name = "q\(DocumentDigest(Array(text.utf8)))"
            try require(PQsendPrepare(connection, name, text, 0, nil))
            prepared[statement.sql] = name
            names.append(name)
            exchange.expected.append(.prepared(statement.sql))
            try sync(&exchange)
        }
        return names
    }

    /// Ends the transaction that an error has left open.
    private func sendRollback() throws(PostgresFailure) {
        var exchange = Exchange(count: 0)
        try send(.rollback)
        exchange.expected.append(.rollback)
        try sync(&exchange)
        rollback = exchange
        try flush()
    }

    private func flush() throws(PostgresFailure) {
        let unsent = PQflush(connection)
        guard unsent >= 0 else { throw .lost(message) }
        hasUnsent = unsent > 0
    }

    private func send(_ statement: PostgresStatement, _ name: String? = nil) throws(PostgresFailure) {
        let code = Self.withBuffers(statement.parameters) { pointers, lengths, formats in
            let count = Int32(clamping: statement.parameters.count)
            guard let name else {
                let text = LedgerSchema.text(statement.sql, in: schema)
                return PQsendQueryParams(connection, text, count, nil, pointers, lengths, formats, 1)
            }
            return PQsendQueryPrepared(connection, name, count, pointers, lengths, formats, 1)
        }
        try require(code)
    }

    private func sync(_ exchange: inout Exchange, _ request: Int? = nil) throws(PostgresFailure) {
        try require(PQpipelineSync(connection))
        exchange.expected.append(.sync(request))
    }

    private func require(_ code: Int32) throws(PostgresFailure) {
        guard code == 1 else { throw .lost(message) }
    }

    private var message: String { Self.text(PQerrorMessage(connection)) }
}

// MARK: - Receiving

extension PostgresConnection {
    /// Takes the results that have arrived.
    ///
    /// - Returns: Whether that was all of them, and no transaction is open.
    private func receive() throws(PostgresFailure) -> Bool {
        guard try receive(&exchange) else { return false }
        if rollback == nil, PQtransactionStatus(connection) == PQTRANS_INERROR { try sendRollback() }
        guard var rollback else { return true }
        defer { self.rollback = rollback }
        return try receive(&rollback)
    }

    private func receive(_ exchange: inout Exchange) throws(PostgresFailure) -> Bool {
        while !exchange.isComplete, PQisBusy(connection) == 0 { try take(PQgetResult(connection), &exchange) }
        return exchange.isComplete
    }

    /// Takes the next result, or the `nil` that ends the results of a statement.
    private func take(_ result: OpaquePointer?, _ exchange: inout Exchange) throws(PostgresFailure) {
        guard let result else {
            guard exchange.endStatement(), PQstatus(connection) == CONNECTION_OK else { throw .lost(message) }
            return
        }
        defer { PQclear(result) }
        let status = PQresultStatus(result)
        let warning = warnings.take()
        if status == PGRES_PIPELINE_SYNC { return exchange.endRequest(warning) }
        switch status {
        case PGRES_COMMAND_OK, PGRES_TUPLES_OK:
            guard PQresultMemorySize(result) <= Self.maxAnswer else {
                return exchange.refuse(.refused(state: "54000", message: "An answer has more than 256 MiB"))
            }
            exchange.add(try rows(of: result), warning)
        case PGRES_PIPELINE_ABORTED:
            exchange.skip()
        default:
            let state = Self.text(PQresultErrorField(result, Int32(UInt8(ascii: "C"))))
            let message = Self.text(PQresultErrorField(result, Int32(UInt8(ascii: "M"))))
            // Without a state it is libpq's own error: the connection ended.
            guard !state.isEmpty else { throw .lost(self.message) }
            if case .prepared(let sql) = exchange.current {
                // It is there already, with the same text.
                if state == "42P05" { return }
                prepared[sql] = nil
            }
            exchange.refuse(.refused(state: state, message: message))
        }
    }

    /// The largest answer to a statement that is decoded, which takes several times as much memory: a page of 500
    /// documents, the largest that any statement asks for, has 128 MiB if all of them are of the largest kind.
    private static let maxAnswer = 256 << 20

    private func rows(of result: OpaquePointer) throws(PostgresFailure) -> PostgresRows {
        let count = PQntuples(result)
        let columns = PQnfields(result)
        var rows = PostgresRows()
        for row in 0..<count {
            var values: [PostgresValue] = []
            for column in 0..<columns {
                guard PQgetisnull(result, row, column) == 0 else {
                    values.append(.null)
                    continue
                }
                let bytes = UnsafeRawBufferPointer(
                    start: PQgetvalue(result, row, column), count: Int(PQgetlength(result, row, column)))
                guard let value = PostgresValue(bytes, type: PQftype(result, column)) else {
                    throw .lost("A column has a type that no ledger has")
                }
                values.append(value)
            }
            rows.rows.append(values)
        }
        return rows
    }
}

extension Duration {
    /// Rounded up.
    var milliseconds: Int64 {
        let (seconds, attoseconds) = components
        return seconds * 1000 + (attoseconds + 999_999_999_999_999) / 1_000_000_000_000_000
    }
}

extension Result where Failure == PostgresFailure {
    fileprivate var endsConnection: Bool {
        guard case .failure(let failure) = self else { return false }
        return failure.endsConnection
    }
}

/// The last warning that the database sent.
private final class Warnings {
    private var last: String?

    /// The last warning since the last call; `nil` if there was none.
    func take() -> String? {
        defer { last = nil }
        return last
    }

    static let receiver: PQnoticeReceiver = { context, result in
        guard let context, let severity = PQresultErrorField(result, Int32(UInt8(ascii: "V"))),
            String(cString: severity) == "WARNING"
        else { return }
        let warnings = Unmanaged<Warnings>.fromOpaque(context).takeUnretainedValue()
        warnings.last = PostgresConnection.text(PQresultErrorField(result, Int32(UInt8(ascii: "M"))))
    }
}

// MARK: - Connection strings

extension PostgresConnection {
    /// The parameters that a connection string of any form sets.
    ///
    /// - Throws: `PostgresFailure.settings`. Its message does not contain the string, which may contain a password.
    static func parameters(of text: String) throws(PostgresFailure) -> [String: String] {
        var error: UnsafeMutablePointer<CChar>?
        defer { PQfreemem(error) }
        guard let options = PQconninfoParse(text, &error) else {
            let reason = Self.text(error)
            // These name the parameter, and nothing else.
            let isHarmless =
                ["invalid URI query parameter", "invalid connection option"].contains { reason.hasPrefix($0) }
                && AddressSecrets.mayName(parametersOf: text)
            throw .settings(
                "The address of the database is not a connection string of libpq" + (isHarmless ? ": \(reason)" : ""))
        }
        defer { PQconninfoFree(options) }
        return parameters(options)
    }

    /// The parameters that the environment of this process sets.
    static var defaults: [String: String] {
        guard let options = PQconndefaults() else { return [:] }
        defer { PQconninfoFree(options) }
        return parameters(options)
    }

    private static func parameters(_ options: UnsafeMutablePointer<PQconninfoOption>) -> [String: String] {
        var parameters: [String: String] = [:]
        var option = options
        while let name = option.pointee.keyword {
            if let value = option.pointee.val { parameters[String(cString: name)] = String(cString: value) }
            option += 1
        }
        return parameters
    }
}

// MARK: - C strings

extension PostgresConnection {
    fileprivate static func text(_ message: UnsafePointer<CChar>?) -> String {
        let text = message.map { String(cString: $0) } ?? ""
        // libpq explains a failure in a second line.
        let lines = text.split(separator: "\n").map { $0.split(whereSeparator: \.isWhitespace).joined(separator: " ") }
        return lines.filter { !$0.isEmpty }.joined(separator: "; ")
    }

    private static func withStrings<Value>(
        _ texts: [String], _ body: (UnsafePointer<UnsafePointer<CChar>?>?) -> Value
    ) -> Value {
        let copies = texts.map { strdup($0) }
        defer { for copy in copies { free(copy) } }
        let pointers = copies.map { UnsafePointer<CChar>($0) } + [nil]
        return pointers.withUnsafeBufferPointer { body($0.baseAddress) }
    }

    private typealias Pointers = UnsafePointer<UnsafePointer<CChar>?>

    /// Lends pointers to the binary forms of all values, which stand one after another in one buffer. `nil` stands for
    /// NULL.
    private static func withBuffers(
        _ values: [PostgresValue],
        _ body: (Pointers?, UnsafePointer<Int32>?, UnsafePointer<Int32>?) -> Int32
    ) -> Int32 {
        var all: [UInt8] = []
        all.reserveCapacity(values.reduce(1) { $0 + $1.size })
        let lengths = values.map { $0.append(to: &all) }
        // One byte more, so that an empty value has an address.
        all.append(0)
        let formats = Array(repeating: Int32(1), count: values.count)
        return all.withUnsafeBufferPointer { buffer in
            buffer.withMemoryRebound(to: CChar.self) { buffer in
                var offset = 0
                let pointers = lengths.map { length -> UnsafePointer<CChar>? in
                    defer { offset += length ?? 0 }
                    return length == nil ? nil : buffer.baseAddress.map { $0 + offset }
                }
                return pointers.withUnsafeBufferPointer {
                    body($0.baseAddress, lengths.map { Int32(clamping: $0 ?? 0) }, formats)
                }
            }
        }
    }
}
