// SPDX-License-Identifier: Apache-2.0

/// The tables of a new ledger.
///
/// A change of the tables is made here, with the next ``version``, and in ``SchemaUpgrade``: ledgers that were upgraded
/// have the same tables. A new column comes last, since PostgreSQL adds it there. A new table is distributed too, see
/// ``Distribution``.
///
/// Rows of most tables have a `home`, by which they can be distributed: what is decided about together has the same
/// one. All texts are compared byte for byte. All integers are `bigint`, see ``PostgresValue``; times are milliseconds
/// since 1970.
enum Schema {
    /// The version of these tables. A server refuses a ledger with a higher one.
    static let version = 21

    /// The statements that make the tables.
    static let tables =
        apps + chains + documents + retention + pieces + customers + events + records + others + Conflict.function
        + PeopleViews.create

    /// Apps and scopes are never deleted, so that servers keep their numbers.
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

    /// A chain is one row with a version, which each commit that changes or uses the chain increments. `state` is a
    /// `ChainRecord` in the form of ``ChainCoding``. A row is never deleted: a late writer would bring it back.
    /// `transactions` finds the chains of transactions whose id is not the chain's own.
    ///
    /// `published_as_of` finds reports that a clock that was ahead has made. Few chains have it: those that changed by
    /// time since their newest document was signed. For all others an update changes no index.
    ///
    /// `state` is binary. Therefore both tables have columns that only people read, see ``PeopleViews``. The row of a
    /// transaction is written when the chain gets the transaction anyway, so that its columns cost no row more for a
    /// renewal.
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

    /// The date comes first in the key, so that new documents are at the end of the index. `home` follows from the
    /// document alone: the first chain that it names, or its digest. `chain` is the only chain that it is evidence for;
    /// if there are several, they are in `mentions`.
    ///
    /// Others may take the place of a document that has a `wording`, unless it is pinned. Tokens in notifications have
    /// none, so that an intake changes no index more.
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

    /// Documents are stored by the quarter of their signing, so that those of a quarter can be detached together. Those
    /// before the ledger's first quarter have a table too, so that `documents_rest` is empty: PostgreSQL locks and
    /// reads all of it when it adds a quarter.
    ///
    /// `keeps_documents` is false once any were detached. `has_quarters` is false if all documents are in
    /// `documents_rest`, since the ledger had documents before it could have quarters.
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

    /// What documents share, named by the first 16 bytes of its SHA-256 digest. A piece is never changed or deleted.
    private static let pieces = ["CREATE TABLE quittance.pieces (digest bytea PRIMARY KEY, content bytea NOT NULL)"]

    /// Each of a customer's ids has a row with the whole record, so that one look-up finds it; all rows of a customer
    /// change together.
    ///
    /// `holdings` has the chains that each customer ever owned, each in a row of its own: so a purchase writes one row,
    /// and a read gets each chain once. Its `home` is the customer's number. The chains themselves say who owns them
    /// now.
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

    /// A commit puts its events into the outbox. They become readable when they are numbered, see ``EventSequencer``.
    /// The transaction that put an event into the outbox comes first in its key: so a server that has seen the outbox
    /// empty need not look at the rows of transactions that had ended then, which are dead.
    ///
    /// Events that were copied from another ledger keep their numbers, which two apps may have in common.
    ///
    /// `epochs` has those of each app's events, the newest with the greatest `place` and without a `last`. `identity`
    /// is the database in which events were numbered in it, see ``EventSequencer/beginEpochs(showsIdentity:)``. Cursors
    /// of a version without epochs are numbers alone, and belong to an epoch whose id is empty.
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

    /// The id of a new epoch: 48 random bits, since no other ledger may have the same.
    static let newEpoch = "left(replace(gen_random_uuid()::text, '-', ''), 12)"

    /// When autovacuum comes. Its usual fifth of the rows is 40 million of 200 million chains, a kilobyte each, and
    /// then a long run. Of 200,000 renewals among 600,000 chains 93,000 dead rows were left at most with a fiftieth,
    /// and 166,000 with a fifth. Tables that mostly grow are vacuumed for their new rows as often: a look-up in the
    /// index alone then finds pages that everybody may see, and freezing comes in small parts. The newest events are
    /// beyond what the statistics know.
    private static let often = "autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000"

    /// See ``often``.
    private static let inserts = """
        autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_vacuum_insert_threshold = 10000
        """

    /// `owner` is 0 for the ledger as a whole, the number of a scope, or the negative number of an app. `home` is the
    /// name in a scope, otherwise empty.
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
