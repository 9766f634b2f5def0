// SPDX-License-Identifier: Apache-2.0

/// The tables of a new ledger.
///
/// A change of the tables needs the next ``version`` here, and an upgrade in ``SchemaUpgrade``, because upgraded
/// ledgers have the same tables. A new column comes last, because PostgreSQL appends new columns. A new table must be
/// distributed too, see ``Distribution``.
///
/// Rows of most tables have a `home`, by which Citus can distribute them. Rows used together in a decision have the
/// same `home`. All texts are compared byte by byte. All integers are `bigint`, see ``PostgresValue``. Times are
/// milliseconds since 1970.
enum Schema {
    /// The version of the tables. A server refuses a ledger with a higher version.
    static let version = 21

    /// The statements that create the tables.
    static let tables =
        apps + chains + documents + retention + pieces + customers + events + records + others + Conflict.function
        + PeopleViews.create

    /// Apps and scopes are never deleted, so servers may cache their numbers.
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

    /// A chain is a single row with a version. A commit that writes the chain, its documents or its events increments
    /// the version. `state` is a `ChainRecord` in the form of ``ChainCoding``. A row is never deleted, because a late
    /// writer would insert the row again. `transactions` finds the chain of a transaction whose id differs from the
    /// chain's name.
    ///
    /// `published_as_of` finds reports made by a clock that was ahead. Few chains have a value: only chains whose state
    /// has changed by time since the signing of their newest document. For all other chains an update changes no index.
    ///
    /// `state` is binary. Therefore both tables have columns for people, see ``PeopleViews``. A new transaction needs a
    /// row anyway, so the columns add no row to a renewal.
    private static let chains = [
        """
        CREATE TABLE quittance.chains (
            home text COLLATE "C" NOT NULL,
            scope bigint NOT NULL,
            version bigint NOT NULL,
            next_change bigint,
            state bytea NOT NULL,
            owner bigint,
            published_as_of bigint,
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

    /// The date comes first in the key, so new documents go to the end of the index. The document alone determines
    /// `home`: the name of its first chain, or its digest without a chain. `chain` is the document's only chain. If the
    /// document is evidence for several chains, they are in `mentions`.
    ///
    /// A different document with the same `wording` may replace a document, unless the document is pinned. Tokens in
    /// notifications have no `wording`, so an intake changes no further index.
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
            content bytea NOT NULL,
            wording bigint,
            is_pinned bigint,
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

    /// Documents are stored by the quarter of their signing, so that a whole quarter can be detached. Documents from
    /// before the ledger's first quarter have a table too, so that `documents_rest` is empty. PostgreSQL locks and
    /// scans `documents_rest` whenever a quarter is added.
    ///
    /// `keeps_documents` is false once any documents were detached. `has_quarters` is false if all documents are in
    /// `documents_rest`, because the ledger had documents before the software supported quarters.
    private static let retention = [
        """
        CREATE TABLE quittance.retention (
            id bigint PRIMARY KEY, keeps_documents boolean NOT NULL, has_quarters boolean NOT NULL)
        """,
        "INSERT INTO quittance.retention (id, keeps_documents, has_quarters) VALUES (1, true, true)",
        """
        DO $$ BEGIN
            EXECUTE format(
                'CREATE TABLE quittance.documents_before PARTITION OF quittance.documents '
                    'FOR VALUES FROM (MINVALUE) TO (%s)',
                (extract(epoch FROM date_trunc('quarter', now() AT TIME ZONE 'UTC')) * 1000)::bigint);
        END $$
        """,
    ]

    /// Blobs shared by documents. The name of a blob is the first 16 bytes of its SHA-256 digest. A blob is never
    /// changed or deleted.
    private static let pieces = ["CREATE TABLE quittance.pieces (digest bytea PRIMARY KEY, content bytea NOT NULL)"]

    /// Every id of a customer has a row with the whole record, so a single look-up finds the record. All rows of a
    /// customer change together.
    ///
    /// `holdings` has a row for each chain that a customer ever owned. A purchase therefore writes a single row, and a
    /// read gets each chain once. The `home` of a holding is the customer's number. The state of a chain names its
    /// current owners.
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

    /// A commit puts its events into the outbox. Events become readable when they are numbered, see ``EventSequencer``.
    /// The key begins with the transaction that added the event. A server that has found the outbox empty can therefore
    /// skip the dead rows of older transactions.
    ///
    /// Events copied from a different ledger keep their numbers, so two apps may use the same number.
    ///
    /// `epochs` has the epochs of each app's events. The newest epoch has the greatest `place` and no `last`.
    /// `identity` is the database that numbered the epoch's events, see ``EventSequencer/beginEpochs(showsIdentity:)``.
    /// Cursors of a version without epochs are plain numbers, and belong to an epoch with an empty id.
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

    /// The threshold of autovacuum: a fiftieth of the rows instead of a fifth. A fifth of 200 million chains, a
    /// kilobyte each, is 40 million rows, and makes a long run. In a test of 200,000 renewals among 600,000 chains, at
    /// most 93,000 dead rows remained with a fiftieth, and 166,000 with a fifth.
    ///
    /// Growing tables are vacuumed as often for their new rows. An index-only scan then finds pages visible to all
    /// transactions, and freezing comes in small parts. The table of events is analyzed as often, because its
    /// statistics do not cover the newest events.
    private static let often = "autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000"

    /// The thresholds of autovacuum for new rows, see ``often``.
    private static let inserts = """
        autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_vacuum_insert_threshold = 10000
        """

    /// `owner` is 0 for the ledger as a whole, the number of a scope, or the negative number of an app. `home` is the
    /// name of a record in a scope, and otherwise empty.
    static let records = [
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

    private static let others = ["CREATE TABLE quittance.proof (id bigint PRIMARY KEY, written bigint NOT NULL)"]
}
