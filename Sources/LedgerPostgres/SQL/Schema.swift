// SPDX-License-Identifier: Apache-2.0

/// The tables of a ledger, made by numbered migrations.
///
/// A migration that adds a table must distribute it too if the others are, see ``Distribution``.
///
/// A migration is never changed, and within a release servers of the version before keep running: it adds, and takes
/// away only what their statements do not need. Rows of most tables have a `home`, by which they can be distributed:
/// what is decided about together has the same one. All texts are compared byte for byte. All integers are `bigint`,
/// see ``PostgresValue``; times are milliseconds since 1970.
enum Schema {
    /// The statements of each migration.
    static let migrations: [[String]] = [
        apps + chains + documents + customers + events + others, pieces, eventsOfEachApp, periods,
        documentsWithoutArrival, retention, epochs, reportInstants, wordings, marker, holdings, holdingsBefore,
        outboxInOrder, unfinishedCopy, [PeopleViews.index], PeopleViews.migration, vacuuming, homesIfDistributed,
        [fillHomes], conflict,
    ]

    /// How many migrations a ledger without a marker has at most.
    static let unmarked = 9

    /// See ``LedgerSchema/marker``. A ledger that was made since has it from the beginning.
    private static let marker = [
        "ALTER TABLE quittance.schema_version ADD COLUMN IF NOT EXISTS ledger text",
        "UPDATE quittance.schema_version SET ledger = '\(LedgerSchema.marker)'",
    ]

    /// Apps and scopes are never deleted, so that servers keep their numbers.
    private static let apps = [
        """
        CREATE TABLE quittance.apps (
            id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            bundle_id text COLLATE "C" NOT NULL UNIQUE,
            catalogue bytea,
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
    private static let chains = [
        """
        CREATE TABLE quittance.chains (
            home text COLLATE "C" NOT NULL,
            scope bigint NOT NULL,
            version bigint NOT NULL,
            next_change bigint,
            state bytea NOT NULL,
            PRIMARY KEY (home, scope)) WITH (fillfactor = 85)
        """,
        "ALTER TABLE quittance.chains ALTER state SET STORAGE MAIN",
        "CREATE INDEX chains_due ON quittance.chains (next_change) WHERE next_change IS NOT NULL",
        """
        CREATE TABLE quittance.transactions (
            home text COLLATE "C" NOT NULL,
            scope bigint NOT NULL,
            chain text COLLATE "C" NOT NULL,
            PRIMARY KEY (home, scope, chain))
        """,
    ]

    /// The index finds reports that a clock that was ahead has made. Few chains have an instant: those that changed by
    /// time since their newest document was signed. For all others an update changes no index.
    private static let reportInstants = [
        "ALTER TABLE quittance.chains ADD published_as_of bigint",
        "CREATE INDEX chains_ahead ON quittance.chains (published_as_of) WHERE published_as_of IS NOT NULL",
    ]

    /// The date comes first in the key, so that new documents are at the end of the index. `home` follows from the
    /// document alone: the first chain that it names, or its digest. `chain` is the only chain that it is evidence for;
    /// if there are several, they are in `mentions`.
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
            PRIMARY KEY (signed_date, digest, home)) PARTITION BY RANGE (signed_date)
        """,
        "CREATE TABLE quittance.documents_rest PARTITION OF quittance.documents DEFAULT",
        "CREATE INDEX documents_by_chain ON quittance.documents (chain, scope) WHERE chain IS NOT NULL",
        "CREATE INDEX documents_by_arrival ON quittance.documents (received_at)",
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

    /// The wordings of documents whose place others may take, unless they are pinned. Documents of before have no
    /// wording, and stay. Tokens in notifications have none either, so that an intake changes no index more.
    private static let wordings = [
        "ALTER TABLE quittance.documents ADD wording bigint, ADD is_pinned bigint",
        "CREATE INDEX documents_by_wording ON quittance.documents (chain, scope, wording) WHERE wording IS NOT NULL",
    ]

    /// What only distributed tables have. `also` names the chains that a document is evidence for besides `chain`, as
    /// `DocumentHomes` does; `mentions.document` is the home of the document. So the one is found from the home of
    /// the other, see ``DocumentPlace``. A write of `confirmations` waits for the standby of one node.
    static let homes = [
        "ALTER TABLE quittance.documents ADD COLUMN IF NOT EXISTS also text[]",
        "ALTER TABLE quittance.mentions ADD COLUMN IF NOT EXISTS document text COLLATE \"C\"",
        """
        CREATE TABLE IF NOT EXISTS quittance.confirmations (
            home text COLLATE "C" PRIMARY KEY, written bigint NOT NULL)
        """,
    ]

    /// For tables that were distributed before. `proof` was a table of which each node has a copy; its rows mean
    /// nothing.
    private static let homesIfDistributed = [
        """
        DO $$ BEGIN
            IF EXISTS (SELECT 1 FROM pg_extension WHERE extname = 'citus') THEN
                IF EXISTS (SELECT 1 FROM pg_dist_partition WHERE logicalrelid = to_regclass('quittance.jobs')) THEN
                    PERFORM set_config('citus.multi_shard_modify_mode', 'sequential', true);
                    \(homes.joined(separator: ";\n"));
                    PERFORM create_distributed_table(
                        'quittance.confirmations', 'home', colocate_with => 'quittance.chains');
                    DROP TABLE quittance.proof;
                    CREATE TABLE quittance.proof (id bigint PRIMARY KEY, written bigint NOT NULL);
                    PERFORM create_distributed_table(
                        'quittance.proof', NULL, distribution_type => NULL, colocate_with => 'quittance.counter');
                END IF;
            END IF;
        END $$
        """
    ]

    /// See ``Conflict``.
    private static let conflict =
        Conflict.function + [
            """
            DO $$ BEGIN
                IF EXISTS (SELECT 1 FROM pg_extension WHERE extname = 'citus') THEN
                    IF EXISTS (SELECT 1 FROM pg_dist_partition WHERE logicalrelid = to_regclass('quittance.jobs')) THEN
                        PERFORM set_config('citus.multi_shard_modify_mode', 'sequential', true);
                        PERFORM \(Conflict.distribution);
                    END IF;
                END IF;
            END $$
            """
        ]

    /// Fills in ``homes``, if there are the columns, for documents about several chains or with another home than their
    /// chain's. There are few, and each is found on all nodes. Those that were detached are left out.
    static let fillHomes = """
        DO $$ DECLARE
            stored record; at_home text; names text[];
        BEGIN
            IF NOT EXISTS (
                SELECT 1 FROM pg_attribute WHERE attrelid = 'quittance.documents'::regclass AND attname = 'also') THEN
                RETURN;
            END IF;
            PERFORM set_config('citus.multi_shard_modify_mode', 'sequential', true);
            FOR stored IN SELECT DISTINCT signed_date, digest FROM quittance.mentions LOOP
                SELECT documents.home INTO at_home FROM quittance.documents
                WHERE signed_date = stored.signed_date AND digest = stored.digest;
                CONTINUE WHEN at_home IS NULL;
                SELECT array_agg(environment || ' ' || mentions.home) INTO names
                FROM quittance.mentions JOIN quittance.scopes ON scopes.id = scope
                WHERE signed_date = stored.signed_date AND digest = stored.digest;
                UPDATE quittance.mentions SET document = at_home
                WHERE signed_date = stored.signed_date AND digest = stored.digest;
                UPDATE quittance.documents SET also = names
                WHERE signed_date = stored.signed_date AND digest = stored.digest AND home = at_home;
            END LOOP;
            FOR stored IN
                SELECT chain, scope, signed_date, digest, home FROM quittance.documents WHERE chain <> home
            LOOP
                INSERT INTO quittance.mentions (home, scope, signed_date, digest, document)
                VALUES (stored.chain, stored.scope, stored.signed_date, stored.digest, stored.home)
                ON CONFLICT DO NOTHING;
            END LOOP;
        END $$
        """

    /// An index by arrival was a sixth of what storing a document costs, and served one search, for the newest
    /// notification. A server of the version before finds it without the index too, but reads the whole table once.
    private static let documentsWithoutArrival = ["DROP INDEX quittance.documents_by_arrival"]

    /// Documents of a new ledger are stored by the quarter of their signing, so that those of a quarter can be
    /// detached together. Those before its first quarter have a table too, so that `documents_rest` is empty:
    /// PostgreSQL locks and reads all of it when it adds a quarter. A ledger that had documents before goes on with
    /// `documents_rest`.
    ///
    /// `keeps_documents` is false once any were detached.
    private static let retention = [
        """
        CREATE TABLE quittance.retention (
            id bigint PRIMARY KEY, keeps_documents boolean NOT NULL, has_quarters boolean NOT NULL)
        """,
        "INSERT INTO quittance.retention SELECT 1, true, NOT EXISTS (SELECT 1 FROM quittance.documents)",
        """
        DO $$ BEGIN
            IF (SELECT has_quarters FROM quittance.retention) THEN
                EXECUTE format(
                    'CREATE TABLE quittance.documents_before PARTITION OF quittance.documents '
                        'FOR VALUES FROM (MINVALUE) TO (%s)',
                    (extract(epoch FROM date_trunc('quarter', now() AT TIME ZONE 'UTC')) * 1000)::bigint);
            END IF;
        END $$
        """,
    ]

    /// What documents share, named by the first 16 bytes of its SHA-256 digest. A piece is never changed or deleted.
    ///
    /// `forms` says which form of documents servers write: 0 plain, 1 packed. All versions that have this table read
    /// both. A ledger that has documents already may have servers that do not: there an operator changes the row.
    private static let pieces = [
        "CREATE TABLE quittance.pieces (digest bytea PRIMARY KEY, content bytea NOT NULL)",
        "CREATE TABLE quittance.forms (id bigint PRIMARY KEY, documents bigint NOT NULL)",
        """
        INSERT INTO quittance.forms (id, documents)
        SELECT 1, CASE WHEN EXISTS (SELECT 1 FROM quittance.documents) OR EXISTS (SELECT 1 FROM quittance.api_keys)
            THEN 0 ELSE 1 END
        """,
    ]

    /// Each of a customer's ids has a row with the whole record, so that one look-up finds it; all rows of a customer
    /// change together. `chains` has the environment and the id of each chain that the customer ever owned: the chains
    /// themselves say who owns them now.
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
            chains text[] NOT NULL,
            PRIMARY KEY (home, app)) WITH (fillfactor = 90)
        """,
        "CREATE INDEX customers_by_number ON quittance.customers (number)",
    ]

    /// The chains that customers ever owned, each in a row of its own: so a purchase writes one row, and a read gets
    /// each chain once. `home` is the customer's number.
    ///
    /// `forms.customers` says where servers write them: 0 also in `customers.chains`, 1 in this table alone. Servers of
    /// the version before read and write the lists, and may do so at any time in a ledger that they have made. What
    /// they write gets here by the triggers: only what is new in a list, so that nobody waits for `holdingsBefore`. A
    /// ledger that was made with its marker needs neither: they refuse it.
    private static let holdings = [
        """
        CREATE TABLE quittance.holdings (
            home text COLLATE "C" NOT NULL,
            scope bigint NOT NULL,
            chain text COLLATE "C" NOT NULL,
            PRIMARY KEY (home, scope, chain))
        """,
        "ALTER TABLE quittance.customers ALTER chains SET DEFAULT '{}'",
        "ALTER TABLE quittance.forms ADD customers bigint NOT NULL DEFAULT 1",
        """
        UPDATE quittance.forms SET customers = 0
        WHERE NOT (SELECT attnotnull FROM pg_attribute
                   WHERE attrelid = 'quittance.schema_version'::regclass AND attname = 'ledger')
        """,
        """
        CREATE FUNCTION quittance.hold() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF TG_OP <> 'INSERT' THEN
                DELETE FROM quittance.holdings WHERE home = OLD.number::text
                    AND NOT EXISTS (SELECT 1 FROM quittance.customers WHERE number = OLD.number);
            END IF;
            IF TG_OP <> 'DELETE' THEN
                INSERT INTO quittance.holdings
                SELECT NEW.number::text, scopes.id, substr(name, strpos(name, ' ') + 1)
                FROM unnest(NEW.chains) AS name JOIN quittance.scopes ON environment = split_part(name, ' ', 1)
                WHERE scopes.app = NEW.app
                    AND (TG_OP = 'INSERT' OR NEW.number <> OLD.number OR name <> ALL (OLD.chains))
                ON CONFLICT DO NOTHING;
            END IF;
            RETURN NULL;
        END $$
        """,
        """
        DO $$ BEGIN
            IF EXISTS (SELECT 1 FROM pg_extension WHERE extname = 'citus') THEN
                IF EXISTS (SELECT 1 FROM pg_dist_partition WHERE logicalrelid = to_regclass('quittance.jobs')) THEN
                    PERFORM create_distributed_table(
                        'quittance.holdings', 'home', colocate_with => 'quittance.chains');
                    RETURN;  -- Citus takes no trigger. There no server of the version before may run.
                END IF;
            END IF;
            IF (SELECT customers FROM quittance.forms) = 0 THEN
                CREATE TRIGGER hold AFTER INSERT OR DELETE ON quittance.customers
                    FOR EACH ROW EXECUTE FUNCTION quittance.hold();
                CREATE TRIGGER hold_changes AFTER UPDATE OF number, chains ON quittance.customers FOR EACH ROW
                    WHEN (OLD.number <> NEW.number OR OLD.chains <> NEW.chains)
                    EXECUTE FUNCTION quittance.hold();
            END IF;
        END $$
        """,
    ]

    /// After the trigger was committed, so that intakes go on meanwhile: what changes then gets here by the trigger.
    private static let holdingsBefore = [
        """
        INSERT INTO quittance.holdings
        SELECT DISTINCT number::text, scopes.id, substr(name, strpos(name, ' ') + 1)
        FROM quittance.customers, unnest(chains) AS name
        JOIN quittance.scopes ON environment = split_part(name, ' ', 1) WHERE scopes.app = customers.app
        ON CONFLICT DO NOTHING
        """
    ]

    private static let event = """
        recorded_at bigint NOT NULL,
        home text COLLATE "C" NOT NULL,
        source bigint NOT NULL,
        scope bigint NOT NULL,
        version bigint NOT NULL,
        place bigint NOT NULL,
        kind text NOT NULL,
        effective_at bigint NOT NULL,
        customer bigint,
        original_transaction_id text,
        transaction_id text,
        product_id text,
        detail text,
        before_status text,
        before_product_id text,
        before_until bigint,
        before_will_renew bigint,
        before_commitment_will_renew bigint,
        after_status text,
        after_product_id text,
        after_until bigint,
        after_will_renew bigint,
        after_commitment_will_renew bigint
        """

    /// What people read with `psql`, since `chains.state` is binary: the row of each transaction has the columns of the
    /// view. The row is written when the chain gets the transaction anyway, so this costs no row more for a renewal.
    /// Rows that the version before wrote have no product, and are not in the view.
    private static let periods = [
        "ALTER TABLE quittance.chains ADD owner bigint",
        "ALTER TABLE quittance.transactions \(addedColumns)",
        """
        CREATE VIEW quittance.periods AS
        SELECT (SELECT ids[1] FROM quittance.customers WHERE customers.number = chains.owner LIMIT 1) AS customer,
               bundle_id, environment, chain AS original_transaction_id, transactions.home AS transaction_id,
               \(periodColumns.map(\.name).joined(separator: ", "))
        FROM quittance.transactions
        JOIN quittance.chains ON chains.home = transactions.chain AND chains.scope = transactions.scope
        JOIN quittance.scopes ON scopes.id = transactions.scope JOIN quittance.apps ON apps.id = scopes.app
        WHERE product_id IS NOT NULL
        """,
    ]

    private static let addedColumns = periodColumns.map { "ADD \($0.name) \($0.type.rawValue)" }
        .joined(separator: ", ")

    /// The columns of a transaction that only people read.
    static let periodColumns: [(name: String, type: ColumnType)] = [
        ("product_id", .text), ("type", .text), ("purchase_date", .integer), ("expires_date", .integer),
        ("quantity", .integer), ("offer_type", .integer), ("is_upgraded", .integer), ("revocation_date", .integer),
        ("price", .integer), ("currency", .text),
    ]

    /// A commit puts its events into the outbox. They become readable when they are numbered, see ``EventSequencer``.
    private static let events = [
        """
        CREATE TABLE quittance.outbox (
        \(event),
        PRIMARY KEY (recorded_at, home, source, scope, version, place))
        WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000)
        """,
        """
        CREATE TABLE quittance.events (
        sequence bigint PRIMARY KEY,
        app bigint NOT NULL,
        \(event),
        UNIQUE (recorded_at, home, source, scope, version, place))
        """,
        "CREATE INDEX events_by_app ON quittance.events (app, sequence)",
        "CREATE TABLE quittance.counter (id bigint PRIMARY KEY, last bigint NOT NULL)",
        "INSERT INTO quittance.counter (id, last) VALUES (1, 0), (2, 0)",
    ]

    /// The transaction that put an event into the outbox comes first in the key. So a server that has seen the outbox
    /// empty need not look at the rows of transactions that had ended then, which are dead. Servers of the version
    /// before go on.
    private static let outboxInOrder = [
        "ALTER TABLE quittance.outbox ADD added bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint",
        "ALTER TABLE quittance.outbox DROP CONSTRAINT outbox_pkey",
        """
        ALTER TABLE quittance.outbox
            ADD PRIMARY KEY (added, recorded_at, home, source, scope, version, place)
        """,
    ]

    /// Events that were copied from another ledger keep their numbers, which two apps may have in common. Servers of
    /// the version before go on: their statements name no key of this table but the unique one, which stays. While the
    /// new index is made, readers and commits go on, and only numbering waits.
    private static let eventsOfEachApp = [
        "CREATE UNIQUE INDEX events_of_app ON quittance.events (app, sequence)",
        "ALTER TABLE quittance.events DROP CONSTRAINT events_pkey",
        "ALTER TABLE quittance.events ADD CONSTRAINT events_pkey PRIMARY KEY USING INDEX events_of_app",
        "DROP INDEX quittance.events_by_app",
    ]

    /// The epochs of each app's events, the newest with the greatest `place` and without a `last`. `identity` is the
    /// database in which events were numbered in it, see ``EventSequencer/beginEpochs(showsIdentity:)``.
    ///
    /// Cursors of a version without epochs are numbers alone, and belong to an epoch without an id, which ends here.
    private static let epochs = [
        """
        CREATE TABLE quittance.epochs (
            app bigint NOT NULL,
            place bigint NOT NULL,
            id text COLLATE "C" NOT NULL,
            last bigint,
            identity text,
            PRIMARY KEY (app, place))
        """,
        """
        DO $$ DECLARE
            number bigint := (SELECT last FROM quittance.counter WHERE id = 1);
        BEGIN
            INSERT INTO quittance.epochs (app, place, id, last)
            SELECT id, 0, '', number FROM quittance.apps WHERE number > 0;
        END $$
        """,
        "INSERT INTO quittance.epochs (app, place, id) SELECT id, 1, \(newEpoch) FROM quittance.apps",
        """
        DO $$ BEGIN
            IF EXISTS (SELECT 1 FROM pg_extension WHERE extname = 'citus') THEN
                IF EXISTS (SELECT 1 FROM pg_dist_partition WHERE logicalrelid = to_regclass('quittance.jobs')) THEN
                    PERFORM create_distributed_table(
                        'quittance.epochs', NULL, distribution_type => NULL, colocate_with => 'quittance.counter');
                END IF;
            END IF;
        END $$
        """,
    ]

    /// Has a row while the ledger is the target of a copy that has not ended. Each node of Citus has a copy of it,
    /// since servers ask the node that they are connected to.
    private static let unfinishedCopy = [
        """
        CREATE TABLE quittance.unfinished_copy (
            id bigint PRIMARY KEY CHECK (id = 1), source text NOT NULL, began_at bigint NOT NULL)
        """,
        """
        DO $$ BEGIN
            IF EXISTS (SELECT 1 FROM pg_extension WHERE extname = 'citus') THEN
                IF EXISTS (SELECT 1 FROM pg_dist_partition WHERE logicalrelid = to_regclass('quittance.jobs')) THEN
                    PERFORM create_reference_table('quittance.unfinished_copy');
                END IF;
            END IF;
        END $$
        """,
    ]

    /// The id of a new epoch: 48 random bits, since no other ledger may have the same.
    static let newEpoch = "left(replace(gen_random_uuid()::text, '-', ''), 12)"

    /// When autovacuum comes. Its usual fifth of the rows is 40 million of 200 million chains, a kilobyte each, and
    /// then a long run. Of 200,000 renewals among 600,000 chains 93,000 dead rows were left at most with a fiftieth,
    /// and 166,000 with a fifth. Tables that mostly grow are vacuumed for their new rows as often: a look-up in the
    /// index alone then finds pages that everybody may see, and freezing comes in small parts. The newest events are
    /// beyond what the statistics know.
    private static let vacuuming = [
        vacuum("chains"), vacuum("customers"), vacuum("jobs"), vacuum("transactions", often + inserts),
        vacuum("events", often + inserts + ["autovacuum_analyze_scale_factor = 0.02"]),
    ]

    private static let often = ["autovacuum_vacuum_scale_factor = 0.02", "autovacuum_vacuum_threshold = 1000"]
    private static let inserts = [
        "autovacuum_vacuum_insert_scale_factor = 0.02", "autovacuum_vacuum_insert_threshold = 10000",
    ]

    private static func vacuum(_ table: String, _ parameters: [String] = often) -> String {
        "ALTER TABLE quittance.\(table) SET (\(parameters.joined(separator: ", ")))"
    }

    private static let others = [
        """
        CREATE TABLE quittance.jobs (
            home text COLLATE "C" NOT NULL,
            scope bigint NOT NULL,
            kind text COLLATE "C" NOT NULL,
            version bigint NOT NULL,
            due_at bigint NOT NULL,
            attempts bigint NOT NULL,
            payload bytea NOT NULL,
            failure text,
            PRIMARY KEY (home, scope, kind))
        """,
        "CREATE INDEX jobs_due ON quittance.jobs (kind, scope, due_at)",
        """
        CREATE TABLE quittance.api_keys (
            id text COLLATE "C" PRIMARY KEY,
            place bigint GENERATED ALWAYS AS IDENTITY,
            name text NOT NULL,
            role text NOT NULL,
            app bigint NOT NULL,
            secret_hash bytea NOT NULL,
            created_at bigint NOT NULL,
            revoked_at bigint)
        """,
        "CREATE TABLE quittance.proof (id bigint PRIMARY KEY, written bigint NOT NULL)",
    ]
}
