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

/// A connection to PostgreSQL. Only this file calls libpq.
///
/// The connection sends requests in a pipeline without blocking; the waiting is left to its ``ConnectionLoop``. It
/// reads while it sends, because otherwise the buffers of both sides could fill, and each side would wait for the other
/// for ever. A sync (a synchronization point of the protocol) follows each request: after an error, PostgreSQL skips
/// the statements up to the next sync, and so only the rest of the same request.
///
/// Only one thread at a time uses a connection, see ``ConnectionLoop``.
final class PostgresConnection: @unchecked Sendable {
    typealias Results = [Result<[PostgresRows], PostgresFailure>]

    private let connection: OpaquePointer
    private let usesNames: Bool
    /// The schema to write into the texts of statements.
    private let schema: String
    private let warnings = Warnings()
    /// The names of the prepared statements, by text.
    private var prepared: [String: String] = [:]
    /// The requests sent, and their results so far.
    private var requests: [PostgresRequest] = []
    private var exchange = Exchange(count: 0)
    /// The rollback of a transaction left open by an error, once the rollback was sent.
    private var rollback: Exchange?
    /// The failure that prevents an answer to the requests.
    private var failure: PostgresFailure?
    private var hasUnsent = false
    /// Whether the connection can send further requests.
    private(set) var isUsable = true
    private var isClosed = false

    /// Opens a connection.
    ///
    /// - Parameters:
    ///   - options: The parameters of libpq in order. A later parameter overrides an earlier parameter of the same
    ///     name.
    ///   - host: The host, with the timeout for connecting.
    ///   - usesNames: Whether to prepare statements.
    ///   - schema: The schema of the ledger, see ``LedgerSchema``.
    /// - Throws: `PostgresFailure.unavailable`, or `PostgresFailure.untrusted` if the database did not prove its
    ///   identity.
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

    /// Closes the connection at once. No other method may be called afterwards.
    func close() {
        guard !isClosed else { return }
        isClosed = true
        isUsable = false
        PQfinish(connection)
    }
}

// MARK: - Requests

extension PostgresConnection {
    /// Sends requests together, as far as the socket accepts them. ``proceed(_:)`` sends the rest.
    ///
    /// If a block of statements fails, its transaction stays open until all requests are answered. Until then
    /// PostgreSQL refuses the later requests with the SQLSTATE 25P02 (the transaction has failed), and does not run
    /// them.
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

    /// Whether the requests have failed, so that ``proceed(_:)`` returns without waiting.
    var hasFailed: Bool { failure != nil }

    /// The TLS version; `nil` without TLS.
    var encryption: String? {
        PQsslInUse(connection) == 1 ? Self.text(PQsslAttribute(connection, "protocol")) : nil
    }

    /// The number of the server process, as libpq received it.
    var process: Int64 { Int64(PQbackendPID(connection)) }

    /// The socket and events to poll before ``proceed(_:)``.
    var pollEntry: pollfd {
        pollfd(fd: PQsocket(connection), events: Int16(POLLIN) | (hasUnsent ? Int16(POLLOUT) : 0), revents: 0)
    }

    /// Sends and receives as much as possible without waiting.
    ///
    /// - Parameter events: The events that `poll` returned.
    /// - Returns: The rows of each request's statements, or the failure of the request; `nil` if results are still
    ///   outstanding.
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

    /// Waits for events, and then sends and receives as much as possible.
    ///
    /// - Parameter milliseconds: The maximum wait.
    func proceed(waiting milliseconds: Int32) -> Results? {
        var entry = pollEntry
        _ = hasFailed ? 0 : poll(&entry, 1, milliseconds)
        return proceed(entry.revents)
    }

    /// Reads the available input. With TLS it reads twice: a TLS record may exceed libpq's read size, and the socket
    /// does not show the rest that OpenSSL has buffered.
    private func consume() throws(PostgresFailure) {
        for _ in 0...PQsslInUse(connection) {
            guard PQconsumeInput(connection) == 1 else { throw .lost(message) }
        }
    }

    /// Abandons the connection, and fails the requests that have no complete answer yet.
    func end(_ failure: PostgresFailure) -> Results {
        isUsable = false
        exchange.fail(failure)
        return results()
    }

    /// Whether the database may still be running abandoned requests.
    var isAtWork: Bool { !isUsable && !exchange.isComplete && PQstatus(connection) == CONNECTION_OK }

    /// Cancels the abandoned requests in the database. The call blocks, and so needs its own thread.
    ///
    /// A cancellation ends a single statement, and then the next request in the pipeline begins. The cancellation is
    /// therefore repeated until all requests are answered. It cannot hit a later request, because the connection is not
    /// used again.
    ///
    /// - Parameter deadline: The instant after which no further cancellation is sent. A cancellation in progress may
    ///   exceed it, because only the system bounds libpq's call: `tcp_user_timeout` bounds the time to connect, and the
    ///   keepalives bound the wait for an answer.
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

    /// The pause after each cancellation. The database usually takes a millisecond to end the statement. A cancellation
    /// between two statements ends no statement, and must be repeated.
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
    /// Connects, and returns the failure; `nil` after success.
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

    /// The failure to connect. If the database could not prove its identity, the second line of libpq's message
    /// suggests doing without the proof, so that line is removed.
    private static func failure(of connection: OpaquePointer, at status: ConnStatusType) -> PostgresFailure {
        let message = text(PQerrorMessage(connection))
        let isUntrusted = status == CONNECTION_SSL_STARTUP && ["SSL", "certificate"].contains { message.contains($0) }
        return isUntrusted ? .untrusted(String(message.prefix { $0 != ";" })) : .unavailable(message)
    }

    /// Whether no server answers at a host, or the server is still starting. The call blocks.
    static func isAway(_ options: [(name: String, value: String)], _ host: PostgresHost) -> Bool {
        // Overrides the timeout in the address, because a timeout of 0 would let the call block without a limit.
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

    /// Prepares new statements before the requests, so that an error in a request cannot prevent the preparation.
    ///
    /// The name of a statement is a digest of its text. A pooler may pass requests to a connection on which other
    /// clients have prepared statements. With a digest, a name stands for the same text on every connection.
    ///
    /// - Returns: The name of each statement, in order; `nil` for an unprepared statement.
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

    /// Rolls back the transaction left open by an error.
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
    /// Takes the available results.
    ///
    /// - Returns: Whether all results have arrived and no transaction is open.
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

    /// Takes the next result, or the `nil` at the end of a statement's results.
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
            // An error without a state is libpq's own: the connection has ended.
            guard !state.isEmpty else { throw .lost(self.message) }
            if case .prepared(let sql) = exchange.current {
                // A client of the same pooler has already prepared the statement, with the same text.
                if state == "42P05" { return }
                prepared[sql] = nil
            }
            exchange.refuse(.refused(state: state, message: message))
        }
    }

    /// The maximum size of a result. Decoding a result takes several times its size in memory. The largest page of any
    /// statement has 500 documents. If all documents are of the largest kind, the page has 128 MiB.
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
    /// The duration in milliseconds, rounded up.
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

/// The last warning from the database.
private final class Warnings {
    private var last: String?

    /// The last warning since the previous call; `nil` if there was no warning.
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
    /// The parameters set by a connection string, which is a URI or a list such as `host=… dbname=…`.
    ///
    /// - Throws: `PostgresFailure.settings`. The message does not contain the string, because the string may contain a
    ///   password.
    static func parameters(of text: String) throws(PostgresFailure) -> [String: String] {
        var error: UnsafeMutablePointer<CChar>?
        defer { PQfreemem(error) }
        guard let options = PQconninfoParse(text, &error) else {
            let reason = Self.text(error)
            // These errors quote only the name of a parameter.
            let isHarmless =
                ["invalid URI query parameter", "invalid connection option"].contains { reason.hasPrefix($0) }
                && AddressSecrets.mayName(parametersOf: text)
            throw .settings(
                "The address of the database is not a connection string of libpq" + (isHarmless ? ": \(reason)" : ""))
        }
        defer { PQconninfoFree(options) }
        return parameters(options)
    }

    /// The parameters set by the environment of this process.
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
        // libpq often continues the explanation of a failure on a second line.
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

    /// Lends pointers to the binary forms of all values, stored contiguously in a buffer. A `nil` pointer means NULL.
    private static func withBuffers(
        _ values: [PostgresValue],
        _ body: (Pointers?, UnsafePointer<Int32>?, UnsafePointer<Int32>?) -> Int32
    ) -> Int32 {
        var all: [UInt8] = []
        all.reserveCapacity(values.reduce(1) { $0 + $1.size })
        let lengths = values.map { $0.append(to: &all) }
        // An extra byte gives even an empty value an address.
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
