// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation
import LedgerPostgres
import PurchaseLedger
import Synchronization

/// A ledger whose customers have a subscription of five periods each.
///
/// The first customer goes through the storage. The others are copies of its rows that SQL makes, with numbers and ids
/// of their own. Only the newest documents are there: those of the intakes.
final class FilledDatabase: Sendable {
    static let periods = 5
    static let scope = LedgerScope(bundleId: "com.example.notes", environment: .production)
    static let product = "com.example.notes.premium.monthly"
    static let now = Timestamp(milliseconds: 1_750_000_000_000)

    let name: String
    let customers: Int

    /// How many renewals were prepared.
    private let renewals = Atomic(0)

    /// The number of the first customer. All have numbers of equally many bytes in the binary form of a chain, so that
    /// SQL can replace them.
    private let firstNumber: Int64

    static func customer(_ number: Int) -> CustomerID { CustomerID("customer-\(number)", of: scope.bundleId) }
    static func chain(_ number: Int) -> ChainKey { ChainKey("\(3_000_000_000_000 + number)", in: scope) }

    static func transaction(_ chain: Int, _ period: Int) -> String {
        period == 0 ? self.chain(chain).originalTransactionId : "\(4_000_000_000_000 + chain * 10 + period)"
    }

    static func open(
        _ address: String, _ change: (inout PostgresSettings) -> Void
    ) async throws
        -> PostgresLedgerStorage
    {
        var settings = PostgresSettings(address)
        change(&settings)
        return try await PostgresLedgerStorage(
            settings, clock: ContinuousClock(), random: SystemRandomNumberGenerator())
    }

    init(_ name: String, transactions: Int, on server: DatabaseServer) async throws {
        (self.name, customers) = (name, transactions / Self.periods)
        try server.psql("postgres", "CREATE DATABASE \(name)")
        let storage = try await Self.open(server.address(name)) { $0.connections = 1 }
        defer { storage.close() }
        try server.psql(name, "UPDATE quittance.counter SET last = 2000000 WHERE id = 2")
        try await Self.addFirst(to: storage)
        firstNumber = Int64(try server.psql(name, "SELECT number FROM quittance.customers")) ?? 0
        try server.psql(name, try copies(server))
        // What pgbench inserts into and reads. Stored like a document: neither compressed nor elsewhere.
        try server.psql(
            name,
            """
            CREATE TABLE plain (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, content text NOT NULL);
            ALTER TABLE plain ALTER content SET STORAGE PLAIN;
            """)
        for statement in Self.settling { try server.psql(name, statement) }
        try await requireCopies(in: storage)
    }

    /// Brings the database into the state in which it spends most of its time. Statistics are there, except of tables
    /// that are still empty, since their plans would suit nothing else. Each page has changed since the last checkpoint:
    /// the first change after one writes all of it to the log.
    private static let settling = [
        "VACUUM ANALYZE quittance.chains, quittance.transactions, quittance.customers, quittance.holdings",
        "CHECKPOINT",
        """
        UPDATE quittance.chains SET version = version
        WHERE ctid = ANY (ARRAY(SELECT min(ctid) FROM quittance.chains GROUP BY (ctid::text::point)[0]))
        """,
    ]

    private static func addFirst(to storage: PostgresLedgerStorage) async throws {
        try await storage.commit(LedgerQuery([.customerID(customer(0))])) { snapshot in
            var changes = LedgerChanges()
            let customer = Customer(number: snapshot.newNumbers[customer(0)] ?? 0, bundleId: scope.bundleId)
            changes.customers = [CustomerRecord(customer, ids: [self.customer(0).id])]
            changes.chains = [record(chain(0), of: customer)]
            return .commit(changes, ())
        }
    }

    private static let columns = "product_id, type, purchase_date, expires_date, quantity, is_upgraded"

    /// The statements that copy the first customer's rows.
    private func copies(_ server: DatabaseServer) throws -> String {
        let first = firstNumber
        let number = (0..<4).map { ((first * 2) >> (7 * $0)) & 0x7f | ($0 < 3 ? 0x80 : 0) }
        let hex = number.map { String(format: "%02x", $0) }.joined()
        let state = try server.psql(name, "SELECT encode(state, 'hex') FROM quittance.chains")
        guard let place = state.range(of: hex) else { throw LoadFailure("No number in \(state)") }
        let offset = state.distance(from: state.startIndex, to: place.lowerBound) / 2 + 1
        let bytes = (0..<4).reduce("'\\x00000000'::bytea") {
            "set_byte(\($0), \($1), ((\(first) + n) * 2 >> \(7 * $1)) & 127 | \($1 < 3 ? 128 : 0))"
        }
        let chain = "(3000000000000 + n)::text"
        return """
            INSERT INTO quittance.chains (home, scope, version, next_change, owner, state)
                SELECT \(chain), scope, 1, next_change, \(first) + n, overlay(state PLACING \(bytes) FROM \(offset))
                FROM quittance.chains, generate_series(1, \(customers - 1)) AS n;
            INSERT INTO quittance.transactions (home, scope, chain, \(Self.columns))
                SELECT CASE WHEN period = 0 THEN \(chain) ELSE (4000000000000 + n::bigint * 10 + period)::text END,
                       scope, \(chain), \(Self.columns)
                FROM quittance.transactions, generate_series(1, \(customers - 1)) AS n,
                     generate_series(0, \(Self.periods - 1)) AS period
                WHERE home = '\(Self.chain(0).originalTransactionId)';
            INSERT INTO quittance.customers (home, app, version, number, is_established, ids)
                SELECT 'customer-' || n, app, 1, \(first) + n, is_established, ARRAY['customer-' || n]
                FROM quittance.customers, generate_series(1, \(customers - 1)) AS n;
            INSERT INTO quittance.holdings (home, scope, chain)
                SELECT (\(first) + n)::text, scope, \(chain)
                FROM quittance.holdings, generate_series(1, \(customers - 1)) AS n;
            """
    }
}

// MARK: - A subscription

extension FilledDatabase {
    /// The chain of a customer before its renewals. Transactions have the same ids in all chains.
    fileprivate static func record(_ key: ChainKey, of owner: Customer) -> ChainRecord {
        var record = ChainRecord(key)
        for period in 0..<periods {
            record.chain.merge(statement(transaction(0, period), of: record.key, period, by: nil))
        }
        var renewal = RenewalFact(
            provenance: Provenance(signedDate: start(of: periods - 1), digest: DocumentDigest([1])),
            chain: record.key.name)
        (renewal.terms.autoRenewProductId, renewal.willRenew) = (product, true)
        record.chain.merge(renewal)
        record.owners = [ChainRecord.Owner(owner, .appAccountToken)]
        record.report = report(transaction(0, 0), until: start(of: periods))
        return record
    }

    /// When a period begins. The last one before the renewals has not ended.
    fileprivate static func start(of period: Int) -> Timestamp {
        Timestamp(milliseconds: now.milliseconds - 86_400_000 + Int64(period - periods + 1) * 2_592_000_000)
    }

    static func report(_ transaction: String, until end: Timestamp) -> ChainReport {
        ChainReport(
            ChainState(
                status: .active, productId: product, transactionId: transaction, hasAccess: true, until: end,
                willRenew: true),
            isSubscription: true, expiresDate: end, isEntitling: true, nextChange: end)
    }

    /// - Parameter name: That of the document; one that follows from the id if `nil`.
    fileprivate static func statement(
        _ id: String, of chain: ChainKey, _ period: Int, by name: Provenance?
    ) -> TransactionStatement {
        var statement = TransactionStatement(
            source: .signedTransaction,
            provenance: name ?? Provenance(signedDate: start(of: period), digest: DocumentDigest(Array(id.utf8))),
            transactionId: id, chain: chain.name, productId: product)
        statement.type = Open(.autoRenewableSubscription)
        statement.subscriptionGroup = "21034567"
        (statement.purchaseDate, statement.expiresDate) = (start(of: period), start(of: period + 1))
        statement.ownership = Open(.purchased)
        statement.webOrderLineItemId = id
        return statement
    }
}

// MARK: - Renewals

extension FilledDatabase {
    /// A renewal of a chain, which follows from its number alone.
    struct Renewal: Sendable {
        let key: ChainKey
        private let owner: Customer
        /// The numbers of the chain's renewals, of which this one is the last.
        private let numbers: [Int]
        private var number: Int { numbers[numbers.count - 1] }

        fileprivate init(_ number: Int, in database: FilledDatabase) {
            let customers = database.customers
            // In an order in which no chain is near the one before.
            let place = (number % customers) * FilledDatabase.stride % customers
            (key, owner) = (FilledDatabase.chain(place), database.owner(place))
            numbers = Array(Swift.stride(from: number % customers, through: number, by: customers))
        }

        /// Each renewal is a little later than the one before, as in reality.
        var time: Timestamp { Self.time(number) }
        var transaction: String { Self.transaction(number) }

        private static func time(_ number: Int) -> Timestamp {
            Timestamp(milliseconds: FilledDatabase.now.milliseconds + 1 + Int64(number))
        }

        private static func transaction(_ number: Int) -> String { "\(5_000_000_000_000 + number)" }

        /// A notification with two tokens, after the tokens.
        var documents: [Evidence] {
            let tokens = [token(.transaction, 0), token(.renewalInfo, 1)]
            let sent = Evidence.Notification(uuid: transaction, type: "DID_RENEW", subtype: nil)
            return tokens + [token(.notification, 2, parts: tokens, sent)]
        }

        private func token(
            _ kind: Evidence.Kind, _ place: Int, parts: [Evidence] = [], _ notification: Evidence.Notification? = nil
        ) -> Evidence {
            let bytes = Self.bytes(number, place)
            return Evidence(kind, bytes, FilledDatabase.scope, time, parts: parts, notification: notification) { name in
                let period = FilledDatabase.periods + numbers.count - 1
                return ([FilledDatabase.statement(transaction, of: key, period, by: name)], [])
            }
        }

        /// Nothing compresses a document of this length.
        private static func bytes(_ number: Int, _ place: Int) -> [UInt8] {
            let word = withUnsafeBytes(of: UInt64(number * 3 + place + 1) &* 0x9E37_79B9_7F4A_7C15, Array.init)
            return Array(repeatElement(word, count: 1100 / 8).joined())
        }

        /// The chain after the renewal.
        var record: ChainRecord {
            var record = FilledDatabase.record(key, of: owner)
            for (place, number) in numbers.enumerated() {
                let digest = DocumentDigest(Self.bytes(number, 0), .transaction)
                let name = Provenance(signedDate: Self.time(number), digest: digest)
                let period = FilledDatabase.periods + place
                record.chain.merge(
                    FilledDatabase.statement(Self.transaction(number), of: key, period, by: name))
            }
            let end = FilledDatabase.start(of: FilledDatabase.periods + numbers.count)
            record.report = FilledDatabase.report(transaction, until: end)
            return record
        }
    }

    /// A prime number.
    private static let stride = 387_911

    /// The next renewals, not more than there are customers: each is of another chain.
    func renewals(_ count: Int) -> [Renewal] {
        precondition(count <= customers, "There are too few customers")
        let first = renewals.add(count, ordering: .relaxed).oldValue
        return (first..<(first + count)).map { Renewal($0, in: self) }
    }

    fileprivate func owner(_ place: Int) -> Customer {
        Customer(number: firstNumber + Int64(place), bundleId: Self.scope.bundleId)
    }

    /// Fails unless the copies are what renewals begin with.
    private func requireCopies(in storage: PostgresLedgerStorage) async throws {
        for place in [0, 1, customers - 1] {
            let key = Self.chain(place)
            let found = try await storage.load(LedgerQuery([.chain(key)])).chains[key]
            guard found == Self.record(key, of: owner(place)) else {
                throw LoadFailure("Chain \(place) is not as expected")
            }
        }
    }
}
