// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger

/// The tables of a new ledger: the first of the ``steps``. A new table must also be added to ``Distribution``.
///
/// Rows of most tables have a `home`, by which Citus, an extension of PostgreSQL, can distribute the rows over several
/// nodes. Rows used together in a decision have the same `home` if possible. The texts in keys have the collation
/// `"C"`, so they are compared byte by byte. All integers are `bigint`, see ``PostgresValue``. Times are milliseconds
/// since 1970.
enum Schema {
    static let steps = SchemaSteps(baseline: 29, [SchemaStep("baseline", tables)])

    /// The statements that create the tables.
    static let tables =
        apps + chains + documents + retention + pieces + customers + events + records + others + Conflict.function
        + PeopleViews.create

    /// A scope is an app in one environment, such as the sandbox. Apps and scopes are never deleted, so servers may
    /// cache their numbers.
    private static let apps = [
        """
        CREATE TABLE quittance.apps (
            id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            bundle_id text COLLATE "C" NOT NULL UNIQUE,
            erased_events bigint NOT NULL DEFAULT 0)
        """,
        """
        CREATE TABLE quittance.scopes (
            id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            app bigint NOT NULL,
            environment text COLLATE "C" NOT NULL,
            UNIQUE (app, environment))
        """,
    ]

    /// A chain is a subscription with all its renewals, or a product bought once. Each chain is a single row with a
    /// version. A commit that writes the chain, its documents or its events increments the version. `state` is a
    /// `ChainRecord` in the form of ``ChainCoding``. The row of a stored chain is never deleted. Otherwise a concurrent
    /// commit that loaded the chain would not notice the deletion, and would insert the row again. `transactions` leads
    /// from the id of a transaction to its chain.
    ///
    /// `published_as_of` serves to find chains whose state was published too early by a clock that ran fast. It is the
    /// time as of which the state was last published, if that state depended on the clock. The column is NULL unless
    /// time alone, for example an expiry, has changed the state since the newest document was signed. Few chains have a
    /// value, so the index `chains_ahead` is small.
    ///
    /// `settled_at`, `settled_by` and `unknown_products` repeat the ``PurchaseLedger/Settlement`` in `state`, so that a
    /// question about entitlements need not read the states of purchases that have nothing more to give.
    ///
    /// `state` is binary. Therefore `chains` and `transactions` have columns for people, see ``PeopleViews``. A renewal
    /// adds a row to `transactions` in any case, so these columns cost no further row.
    private static let chains = [
        """
        CREATE TABLE quittance.chains (
            home text COLLATE "C" NOT NULL,
            scope bigint NOT NULL,
            version bigint NOT NULL,
            next_change bigint,
            published_as_of bigint,
            owner bigint,
            state bytea NOT NULL,
            \(PeopleViews.columns(of: CommitPlan.settlementColumns)),
            \(PeopleViews.columns(of: PeopleViews.chainColumns)),
            PRIMARY KEY (home, scope)) WITH (fillfactor = 85, \(often))
        """,
        "ALTER TABLE quittance.chains ALTER state SET STORAGE MAIN",
        "CREATE INDEX chains_due ON quittance.chains (next_change) WHERE next_change IS NOT NULL",
        "CREATE INDEX chains_ahead ON quittance.chains (published_as_of) WHERE published_as_of IS NOT NULL",
        """
        CREATE TABLE quittance.transactions (
            home text COLLATE "C" NOT NULL,
            scope bigint NOT NULL,
            chain text COLLATE "C" NOT NULL,
            \(PeopleViews.columns(of: PeopleViews.transactionColumns)),
            PRIMARY KEY (home, scope, chain)) WITH (\(often), \(inserts))
        """,
        PeopleViews.index,
    ]

    /// The signing date comes first in the key, so new documents go to the end of the index. The `home` depends on
    /// nothing but the document's own content, see ``PurchaseLedger/Evidence/home``. `chain` is the chain of a document
    /// that arrived as evidence for a single chain. Any other chains of a document are in `mentions`.
    ///
    /// A newly arrived document may replace a stored document that has the same ``PurchaseLedger/Wording``, unless the
    /// stored document is pinned, see ``PurchaseLedger/WordedDocument/isPinned``. A transaction or renewal info signed
    /// inside a notification has no `wording`, so storing a notification adds no entry to `documents_by_wording`.
    private static let documents = [
        """
        CREATE TABLE quittance.documents (
            signed_date bigint NOT NULL,
            digest bytea NOT NULL,
            home text COLLATE "C" NOT NULL,
            scope bigint NOT NULL,
            chain text COLLATE "C",
            kind text COLLATE "C" NOT NULL,
            received_at bigint NOT NULL,
            notification_type text,
            notification_subtype text,
            notification_uuid text,
            wording bigint,
            is_pinned bigint,
            content bytea NOT NULL,
            PRIMARY KEY (signed_date, digest, home)) PARTITION BY RANGE (signed_date)
        """,
        "CREATE TABLE quittance.documents_rest PARTITION OF quittance.documents DEFAULT",
        "CREATE INDEX documents_by_chain ON quittance.documents (chain, scope) WHERE chain IS NOT NULL",
        "CREATE INDEX documents_by_wording ON quittance.documents (chain, scope, wording) WHERE wording IS NOT NULL",
        """
        CREATE TABLE quittance.mentions (
            home text COLLATE "C" NOT NULL,
            scope bigint NOT NULL,
            signed_date bigint NOT NULL,
            digest bytea NOT NULL,
            PRIMARY KEY (home, scope, signed_date, digest))
        """,
        "CREATE INDEX mentions_by_document ON quittance.mentions (signed_date, digest)",
    ]

    /// Documents signed in the same calendar quarter share a table, so that the documents of a whole quarter can be
    /// detached. Documents for which there is no such table go to `documents_rest`. PostgreSQL locks and scans
    /// `documents_rest` whenever the table of a quarter is added. To keep `documents_rest` empty, documents from before
    /// the ledger's first quarter have a table too, `documents_before`.
    ///
    /// The operator sets `keeps_documents` to false before detaching documents, and to true once all are attached
    /// again.
    private static let retention = [
        "CREATE TABLE quittance.retention (id bigint PRIMARY KEY, keeps_documents boolean NOT NULL)",
        "INSERT INTO quittance.retention (id, keeps_documents) VALUES (1, true)",
        """
        DO $$ BEGIN
            EXECUTE format(
                'CREATE TABLE quittance.documents_before PARTITION OF quittance.documents '
                    'FOR VALUES FROM (MINVALUE) TO (%s)',
                (extract(epoch FROM date_trunc('quarter', now() AT TIME ZONE 'UTC')) * 1000)::bigint);
        END $$
        """,
    ]

    /// Blobs that several documents share: headers and certificates, see ``PartName/sharedBlob(_:)``. The name of a
    /// blob is the first 16 bytes of its SHA-256 digest. A blob is never changed or deleted.
    private static let pieces = ["CREATE TABLE quittance.pieces (digest bytea PRIMARY KEY, content bytea NOT NULL)"]

    /// Every id of a customer has a row with the whole record, so a single look-up finds the record. All rows of a
    /// customer change together.
    ///
    /// `holdings` has a row for each chain that a customer ever owned. The `home` of a holding is the customer's
    /// number, not an id. A purchase therefore writes a single holding, and a read gets each chain once, however many
    /// ids the customer has. The current owners of a chain are in `chains.state`.
    private static let customers = [
        """
        CREATE TABLE quittance.customers (
            home text COLLATE "C" NOT NULL,
            app bigint NOT NULL,
            version bigint NOT NULL,
            number bigint NOT NULL,
            is_established boolean NOT NULL,
            consented_at bigint,
            ids text[] NOT NULL,
            grants bytea,
            PRIMARY KEY (home, app)) WITH (fillfactor = 90, \(often))
        """,
        "CREATE INDEX customers_by_number ON quittance.customers (number)",
        """
        CREATE TABLE quittance.holdings (
            home text COLLATE "C" NOT NULL,
            scope bigint NOT NULL,
            chain text COLLATE "C" NOT NULL,
            PRIMARY KEY (home, scope, chain))
        """,
    ]

    private static let event = """
        recorded_at bigint NOT NULL,
        home text COLLATE "C" NOT NULL,
        source bigint NOT NULL,
        scope bigint NOT NULL,
        version bigint NOT NULL,
        place bigint NOT NULL,
        kind text NOT NULL,
        customer bigint,
        body bytea NOT NULL
        """

    /// A commit puts its events into the table `outbox`. Events become readable when they are numbered and thereby move
    /// to the table `events`, see ``EventSequencer``. The key of `outbox` begins with the id of the database
    /// transaction that added the event. A server that has found the outbox empty can therefore skip the dead rows of
    /// older transactions.
    ///
    /// The events of all apps are numbered by the same counter. Other storages, such as SQLite, number the events of
    /// each app separately. Events copied from such a ledger keep their numbers, so two apps may use the same number,
    /// and the key of an event includes the app.
    ///
    /// `epochs` has the epochs of each app's events, see ``PurchaseLedger/EventEpoch``. The newest epoch has the
    /// greatest `place` and no `last`. `identity` is the database that numbered the epoch's events, see
    /// ``EventSequencer/beginEpochs(showsIdentity:)``.
    private static let events = [
        """
        CREATE TABLE quittance.outbox (
        \(event),
        added bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint,
        PRIMARY KEY (added, recorded_at, home, source, scope, version, place))
        WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000)
        """,
        """
        CREATE TABLE quittance.events (
        sequence bigint NOT NULL,
        app bigint NOT NULL,
        \(event),
        UNIQUE (recorded_at, home, source, scope, version, place),
        PRIMARY KEY (app, sequence))
        WITH (\(often), \(inserts), autovacuum_analyze_scale_factor = 0.02)
        """,
        "CREATE TABLE quittance.counter (id bigint PRIMARY KEY, last bigint NOT NULL)",
        "INSERT INTO quittance.counter (id, last) VALUES (1, 0), (2, 0)",
        """
        CREATE TABLE quittance.epochs (
            app bigint NOT NULL,
            place bigint NOT NULL,
            id text COLLATE "C" NOT NULL,
            last bigint,
            identity text,
            PRIMARY KEY (app, place))
        """,
    ]

    /// The id of a new epoch: 48 random bits, because no other ledger may have the same id.
    static let newEpoch = "left(replace(gen_random_uuid()::text, '-', ''), 12)"

    /// The threshold of autovacuum for dead rows: a fiftieth of the rows instead of the default of a fifth. With 200
    /// million chains of a kilobyte each, a fifth would be 40 million rows, and each vacuum would take long. In a test
    /// of 200,000 renewals among 600,000 chains, there were at most 93,000 dead rows with a fiftieth, and 166,000 with
    /// a fifth.
    ///
    /// Tables that mainly get new rows are vacuumed after a fiftieth of new rows too, see ``inserts``. An index-only
    /// scan then finds most pages marked as visible to all transactions, and rows are frozen in small portions. The
    /// table of events is also analyzed after a fiftieth of new rows, because statistics say nothing about events added
    /// after the last analysis.
    private static let often = "autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000"

    /// The thresholds of autovacuum for new rows, see ``often``.
    private static let inserts = """
        autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_vacuum_insert_threshold = 10000
        """

    /// `owner` is 0 for the ledger as a whole, the number of a scope, or the negative number of an app. `home` is the
    /// record's name if the owner is a scope, and otherwise empty.
    private static let records = [
        """
        CREATE TABLE quittance.records (
            kind text COLLATE "C" NOT NULL,
            owner bigint NOT NULL,
            home text COLLATE "C" NOT NULL,
            name text COLLATE "C" NOT NULL,
            version bigint NOT NULL,
            due_at bigint,
            entries text[],
            payload bytea NOT NULL,
            PRIMARY KEY (kind, owner, home, name)) WITH (\(often))
        """,
        "CREATE INDEX records_due ON quittance.records (due_at) WHERE due_at IS NOT NULL",
        "CREATE INDEX records_due_of_kind ON quittance.records (kind, owner, due_at) WHERE due_at IS NOT NULL",
        "CREATE INDEX records_by_entry ON quittance.records USING gin (entries) WHERE entries IS NOT NULL",
    ]

    /// A write to `proof` changes no record. It proves that the database accepts writes, and waits for a synchronous
    /// standby, see ``PostgresLedgerStorage/proofOfWriting()``.
    private static let others = ["CREATE TABLE quittance.proof (id bigint PRIMARY KEY, written bigint NOT NULL)"]
}
