// SPDX-License-Identifier: Apache-2.0

package import GRDB

/// The tables of a ledger, as numbered steps. A step that was released is never changed: what changes is a new step. None was
/// released so far.
package enum Schema {
    package static var migrator: DatabaseMigrator {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("001 evidence") { try $0.execute(sql: evidence) }
        migrator.registerMigration("002 facts") { try $0.execute(sql: facts) }
        migrator.registerMigration("003 customers") { try $0.execute(sql: customers) }
        migrator.registerMigration("004 events") { try $0.execute(sql: events) }
        migrator.registerMigration("005 API keys") { try $0.execute(sql: apiKeys) }
        migrator.registerMigration("006 proof") { try $0.execute(sql: proof) }
        migrator.registerMigration("007 governing period") { try $0.execute(sql: governingPeriod) }
        migrator.registerMigration("008 claims") { try $0.execute(sql: claims) }
        migrator.registerMigration("009 published states") { try $0.execute(sql: publishedStates) }
        migrator.registerMigration("010 events by app") { try $0.execute(sql: eventsByApp) }
        migrator.registerMigration("011 periods") { try $0.execute(sql: periods) }
        migrator.registerMigration("012 migrated subscriptions") { try $0.execute(sql: migratedSubscriptions) }
        migrator.registerMigration("013 evidence by chain") { try $0.execute(sql: evidenceByChain) }
        migrator.registerMigration("014 periods of tokens and receipts") { try $0.execute(sql: completedPeriods) }
        migrator.registerMigration("015 residue") { try $0.execute(sql: residue) }
        return migrator
    }

    /// - Parameter orNone: Whether a database without any tables will do.
    /// - Throws: ``LedgerStorageError``: `damaged` if it is no ledger, or of a newer version.
    static func requireLedger(_ connection: Database, orNone: Bool = false) throws {
        guard try migrator.appliedIdentifiers(connection).isDisjoint(with: migrator.migrations) else {
            guard try !migrator.hasBeenSuperseded(connection) else {
                throw SQLiteErrors.damaged("The ledger was written by a newer version of this software")
            }
            return
        }
        // All that there is if making a ledger was interrupted before its first step.
        let tables = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name <> 'grdb_migrations'"
        guard orNone, try Int.fetchOne(connection, sql: tables) == 0 else {
            throw SQLiteErrors.damaged("This is a database, but no ledger")
        }
    }

    /// Documents without what they have in common with others: of that, tokens are documents too, and the rest are pieces. See
    /// ``EvidenceParts``.
    ///
    /// A document is found by its provenance, of whose digest the first 16 octets are kept: nobody finds two documents of one
    /// instant that have these in common, and its content tells the rest. By digest alone every new one would change another page of a large index; by
    /// date the new ones are at its end. So the date that is read from a document is part of its name: another reading of it
    /// would not find what is there. Pieces are few, and found by the first eight octets of their digest.
    ///
    /// Nearly every document speaks of one chain or of none. Those that speak of more are in `mentions`. Until step 013 each document of
    /// a chain named the one before it, and the chain the last.
    ///
    /// A chain's row holds what its newest renewal info says and, from `toldStatus` on (`publishedStatus` since step 009), what was published of it last, as each of a
    /// subscription's notifications changes both: in tables of their own they would be two more pages to write.
    private static let evidence = """
        CREATE TABLE apps (
            id INTEGER PRIMARY KEY,
            bundleId TEXT NOT NULL UNIQUE
        ) STRICT;

        CREATE TABLE scopes (
            id INTEGER PRIMARY KEY,
            app INTEGER NOT NULL REFERENCES apps,
            environment TEXT NOT NULL,
            UNIQUE (app, environment)
        ) STRICT;

        CREATE TABLE chains (
            id INTEGER PRIMARY KEY,
            scope INTEGER NOT NULL REFERENCES scopes,
            originalTransactionId TEXT NOT NULL,
            lastDocument INTEGER,
            documentCount INTEGER NOT NULL DEFAULT 0,
            forgottenAt INTEGER,
            renewalSignedDate INTEGER,
            renewalEvidence BLOB,
            renewalProductId TEXT,
            autoRenewProductId TEXT,
            autoRenewStatus INTEGER,
            expirationIntent INTEGER,
            isInBillingRetry INTEGER,
            gracePeriodExpiresDate INTEGER,
            priceIncreaseStatus INTEGER,
            renewalAppAccountToken TEXT,
            toldStatus TEXT,
            toldProductId TEXT,
            toldTransactionId TEXT,
            toldExpiresDate INTEGER,
            toldWillRenew INTEGER,
            toldRevoked TEXT,
            toldEntitling INTEGER,
            nextChange INTEGER,
            UNIQUE (originalTransactionId, scope)
        ) STRICT;
        CREATE INDEX chainsDue ON chains (nextChange) WHERE nextChange IS NOT NULL;

        CREATE TABLE pieces (
            id INTEGER PRIMARY KEY,
            digest INTEGER NOT NULL,
            content BLOB NOT NULL
        ) STRICT;
        CREATE INDEX piecesByDigest ON pieces (digest);

        CREATE TABLE documents (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            signedDate INTEGER NOT NULL,
            digest BLOB NOT NULL,
            scope INTEGER NOT NULL REFERENCES scopes,
            chain INTEGER REFERENCES chains,
            previous INTEGER,
            kind TEXT NOT NULL,
            receivedAt INTEGER NOT NULL,
            notificationType TEXT,
            notificationSubtype TEXT,
            notificationUUID TEXT,
            content BLOB NOT NULL,
            UNIQUE (signedDate, digest)
        ) STRICT;

        CREATE TABLE mentions (
            chain INTEGER NOT NULL REFERENCES chains,
            document INTEGER NOT NULL REFERENCES documents,
            PRIMARY KEY (chain, document)
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX mentionsByDocument ON mentions (document);
        """

    /// What one document says of one transaction is one row, beside the others of its chain: a chain is read in one piece. The
    /// original transaction's id is the chain's, and is found by that.
    private static let facts = """
        CREATE TABLE statements (
            chain INTEGER NOT NULL REFERENCES chains,
            transactionId TEXT NOT NULL,
            source INTEGER NOT NULL,
            isOriginal INTEGER NOT NULL,
            signedDate INTEGER NOT NULL,
            evidence BLOB NOT NULL,
            productId TEXT NOT NULL,
            type TEXT,
            subscriptionGroup TEXT,
            purchaseDate INTEGER,
            expiresDate INTEGER,
            quantity INTEGER NOT NULL,
            isUpgraded INTEGER NOT NULL,
            revocationDate INTEGER,
            revocationReason INTEGER,
            revocationType TEXT,
            revocationPercentage INTEGER,
            ownership TEXT,
            appAccountToken TEXT,
            offerType INTEGER,
            webOrderLineItemId TEXT,
            PRIMARY KEY (chain, transactionId, source)
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX statementsByTransaction ON statements (transactionId) WHERE NOT isOriginal;
        """

    /// A customer's number is never given again, since events go on naming it: hence AUTOINCREMENT. `place` is the order in
    /// which ids and links were added. What a customer has is told by the index alone, as every question for entitlements asks it.
    private static let customers = """
        CREATE TABLE customers (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            app INTEGER NOT NULL REFERENCES apps
        ) STRICT;

        CREATE TABLE customerIds (
            customer INTEGER NOT NULL REFERENCES customers,
            place INTEGER NOT NULL,
            app INTEGER NOT NULL REFERENCES apps,
            id TEXT NOT NULL,
            PRIMARY KEY (customer, place),
            UNIQUE (id, app)
        ) STRICT, WITHOUT ROWID;

        CREATE TABLE links (
            place INTEGER PRIMARY KEY,
            chain INTEGER NOT NULL REFERENCES chains,
            customer INTEGER NOT NULL REFERENCES customers,
            reason TEXT NOT NULL,
            UNIQUE (chain, customer)
        ) STRICT;
        CREATE INDEX linksByCustomer ON links (customer, place, chain);
        """

    /// A customer of an older file exists in its own right if an event tells of a claim, if it has several ids, which only an
    /// alias makes, or if its id is no account that a purchase names now. Of claims to purchases that were the customer's
    /// already there is no trace; the next one establishes it.
    ///
    /// `times` is JSON. Few purchases ever change their owner, so that this is not one more column of `chains`.
    private static let claims = """
        ALTER TABLE customers ADD COLUMN isEstablished INTEGER NOT NULL DEFAULT 0;

        UPDATE customers SET isEstablished = 1
        WHERE number IN (SELECT customer FROM events WHERE kind = 'purchase.linked' AND detail = 'claim')
            OR number IN (SELECT customer FROM customerIds GROUP BY customer HAVING count(*) > 1)
            OR number IN (
                SELECT customer FROM customerIds WHERE (app, id) NOT IN (
                    SELECT app, appAccountToken FROM statements
                    JOIN chains ON chains.id = chain JOIN scopes ON scopes.id = scope
                    WHERE appAccountToken IS NOT NULL
                    UNION
                    SELECT app, renewalAppAccountToken FROM chains JOIN scopes ON scopes.id = scope
                    WHERE renewalAppAccountToken IS NOT NULL));

        CREATE TABLE ownerChanges (
            chain INTEGER PRIMARY KEY REFERENCES chains,
            times TEXT NOT NULL
        ) STRICT;
        """

    /// A row that is written to find out whether anything can be.
    private static let proof = """
        CREATE TABLE proof (
            id INTEGER PRIMARY KEY CHECK (id = 1),
            written INTEGER NOT NULL
        ) STRICT;
        """

    /// The secret itself is nowhere. `place` is the order in which keys were put.
    private static let apiKeys = """
        CREATE TABLE apiKeys (
            place INTEGER PRIMARY KEY AUTOINCREMENT,
            id TEXT NOT NULL UNIQUE,
            name TEXT NOT NULL,
            role TEXT NOT NULL,
            app INTEGER NOT NULL REFERENCES apps,
            secretHash BLOB NOT NULL,
            createdAt INTEGER NOT NULL,
            revokedAt INTEGER
        ) STRICT;
        """

    /// What decides which period governs, and whether renewal info is about it. An older file does not say it, and until
    /// `quittance rebuild` derives it from the documents, what is filled in here keeps renewal info about the newest period: a
    /// transaction counts as known since its purchase, and renewal info that was signed with a transaction is about that one.
    private static let governingPeriod = """
        ALTER TABLE statements ADD COLUMN knownSince INTEGER;
        ALTER TABLE statements ADD COLUMN transactionReason TEXT;
        ALTER TABLE chains ADD COLUMN renewalDate INTEGER;
        UPDATE statements SET knownSince = min(signedDate, coalesce(purchaseDate, signedDate))
        WHERE signedDate > -9223372036854775808;
        UPDATE chains SET renewalDate = (
            SELECT expiresDate FROM statements WHERE chain = chains.id AND signedDate = renewalSignedDate
            ORDER BY purchaseDate DESC LIMIT 1)
        WHERE renewalSignedDate IS NOT NULL;
        """

    /// Events name customers that may have been deleted since, so that this is no reference. They themselves are never
    /// deleted, so that no number is given twice.
    private static let events = """
        CREATE TABLE events (
            sequence INTEGER PRIMARY KEY,
            kind TEXT NOT NULL,
            scope INTEGER NOT NULL REFERENCES scopes,
            recordedAt INTEGER NOT NULL,
            customer INTEGER,
            originalTransactionId TEXT,
            transactionId TEXT,
            productId TEXT,
            detail TEXT
        ) STRICT;
        """

    /// What was published about a chain, now also of what was bought once, and what stays of it when it is erased. `residue` is JSON;
    /// few chains have any.
    ///
    /// Evidence for chains that were erased is evidence for the others only.
    private static let publishedStates = """
        ALTER TABLE chains RENAME COLUMN forgottenAt TO erasedAt;
        ALTER TABLE chains RENAME COLUMN toldStatus TO publishedStatus;
        ALTER TABLE chains RENAME COLUMN toldProductId TO publishedProductId;
        ALTER TABLE chains RENAME COLUMN toldTransactionId TO publishedTransactionId;
        ALTER TABLE chains RENAME COLUMN toldExpiresDate TO publishedExpiresDate;
        ALTER TABLE chains RENAME COLUMN toldWillRenew TO publishedWillRenew;
        ALTER TABLE chains RENAME COLUMN toldRevoked TO publishedRevoked;
        ALTER TABLE chains RENAME COLUMN toldEntitling TO publishedEntitling;
        ALTER TABLE chains ADD COLUMN publishedIsSubscription INTEGER;
        ALTER TABLE chains ADD COLUMN publishedUntil INTEGER;
        ALTER TABLE chains ADD COLUMN lastEventAt INTEGER;
        ALTER TABLE chains ADD COLUMN residue TEXT;

        UPDATE chains SET
            publishedIsSubscription = publishedStatus IS NOT NULL,
            publishedUntil = iif(publishedStatus = 'active', publishedExpiresDate, NULL),
            publishedStatus = coalesce(publishedStatus,
                iif(publishedEntitling, 'active', iif(publishedRevoked IS NOT NULL, 'revoked', 'expired')))
        WHERE publishedEntitling IS NOT NULL;

        UPDATE chains SET lastEventAt = last.recordedAt
        FROM (
            SELECT scope, originalTransactionId, max(recordedAt) AS recordedAt FROM events
            WHERE originalTransactionId IS NOT NULL GROUP BY scope, originalTransactionId) AS last
        WHERE chains.originalTransactionId = last.originalTransactionId AND chains.scope = last.scope;

        DELETE FROM mentions WHERE chain IN (SELECT id FROM chains WHERE erasedAt IS NOT NULL);

        ALTER TABLE apps ADD COLUMN catalogueDigest BLOB;
        ALTER TABLE statements ADD COLUMN price INTEGER;
        ALTER TABLE statements ADD COLUMN currency TEXT;
        """

    /// Each app has its own sequence of events. Old ones keep their numbers, which all apps shared: `sharedSequence` is the last of
    /// those, which cursors of any app may name. `erasedEvents` is the last sequence that was erased.
    private static let eventsByApp = """
        ALTER TABLE apps ADD COLUMN erasedEvents INTEGER NOT NULL DEFAULT 0;
        ALTER TABLE apps ADD COLUMN sharedSequence INTEGER NOT NULL DEFAULT 0;
        UPDATE apps SET sharedSequence = coalesce((SELECT max(sequence) FROM events), 0);

        CREATE TABLE appEvents (
            app INTEGER NOT NULL REFERENCES apps,
            sequence INTEGER NOT NULL,
            kind TEXT NOT NULL,
            scope INTEGER NOT NULL REFERENCES scopes,
            recordedAt INTEGER NOT NULL,
            effectiveAt INTEGER NOT NULL,
            customer INTEGER,
            originalTransactionId TEXT,
            transactionId TEXT,
            productId TEXT,
            detail TEXT,
            beforeStatus TEXT,
            beforeProductId TEXT,
            beforeUntil INTEGER,
            beforeWillRenew INTEGER,
            afterStatus TEXT,
            afterProductId TEXT,
            afterUntil INTEGER,
            afterWillRenew INTEGER,
            PRIMARY KEY (app, sequence)
        ) STRICT, WITHOUT ROWID;
        INSERT INTO appEvents (app, sequence, kind, scope, recordedAt, effectiveAt, customer, originalTransactionId,
                               transactionId, productId, detail)
        SELECT app, sequence, kind, scope, recordedAt, recordedAt, customer, originalTransactionId,
               transactionId, productId, detail
        FROM events JOIN scopes ON scopes.id = scope ORDER BY app, sequence;
        DROP TABLE events;
        ALTER TABLE appEvents RENAME TO events;
        """

    /// `predecessors` is a JSON array; few chains have any. What was paid decides nothing, and is there for people.
    private static let migratedSubscriptions = """
        ALTER TABLE chains ADD COLUMN successor TEXT;
        ALTER TABLE chains ADD COLUMN predecessors TEXT;
        """

    /// For people with a `sqlite3` shell; docs/ledger.md promises its columns. A row for each transaction: what the newest document
    /// says of it, of two of the same instant the signed transaction.
    private static let periods = """
        CREATE VIEW periods AS
        SELECT
            (SELECT customerIds.id FROM links JOIN customerIds ON customerIds.customer = links.customer
             WHERE links.chain = statements.chain ORDER BY links.place, customerIds.place LIMIT 1) AS customer,
            bundleId, environment, originalTransactionId, transactionId, productId, type, purchaseDate, expiresDate,
            quantity, offerType, isUpgraded, revocationDate, price, currency
        FROM statements
            JOIN chains ON chains.id = statements.chain
            JOIN scopes ON scopes.id = chains.scope
            JOIN apps ON apps.id = scopes.app
        WHERE NOT EXISTS (
            SELECT 1 FROM statements AS other
            WHERE other.chain = statements.chain AND other.transactionId = statements.transactionId
                AND (other.signedDate, statements.source) > (statements.signedDate, other.source));
        """

    /// An index in place of lists of the documents that are evidence for one chain alone.
    private static let evidenceByChain = """
        CREATE INDEX documentsByChain ON documents (chain) WHERE chain IS NOT NULL;
        ALTER TABLE documents DROP COLUMN previous;
        ALTER TABLE chains DROP COLUMN lastDocument;
        ALTER TABLE chains DROP COLUMN documentCount;
        """

    /// As `TransactionFact.current`: if a receipt is newer than the signed transaction, the latter still says what receipts have
    /// no words for.
    private static let completedPeriods = """
        DROP VIEW periods;
        CREATE VIEW periods AS
        SELECT
            (SELECT customerIds.id FROM links JOIN customerIds ON customerIds.customer = links.customer
             WHERE links.chain = newest.chain ORDER BY links.place, customerIds.place LIMIT 1) AS customer,
            bundleId, environment, originalTransactionId, newest.transactionId, newest.productId,
            coalesce(newest.type, signed.type) AS type, newest.purchaseDate, newest.expiresDate, newest.quantity,
            coalesce(newest.offerType, signed.offerType) AS offerType,
            coalesce(signed.isUpgraded, newest.isUpgraded) AS isUpgraded,
            CASE
                WHEN signed.revocationDate IS NOT NULL AND (
                    newest.revocationDate IS NOT NULL OR coalesce(newest.type, signed.type) = 'Consumable')
                    THEN signed.revocationDate
                WHEN signed.isUpgraded AND signed.revocationDate IS NULL THEN NULL
                ELSE newest.revocationDate
            END AS revocationDate,
            coalesce(newest.price, signed.price) AS price, coalesce(newest.currency, signed.currency) AS currency
        FROM statements AS newest
            LEFT JOIN statements AS signed ON signed.chain = newest.chain
                AND signed.transactionId = newest.transactionId AND signed.source = 0 AND newest.source = 1
            JOIN chains ON chains.id = newest.chain
            JOIN scopes ON scopes.id = chains.scope
            JOIN apps ON apps.id = scopes.app
        WHERE NOT EXISTS (
            SELECT 1 FROM statements AS other
            WHERE other.chain = newest.chain AND other.transactionId = newest.transactionId
                AND (other.signedDate, newest.source) > (newest.signedDate, other.source));
        """

    /// What is known of transactions whose documents were erased, as in `statements`, in place of the JSON that chains had: that
    /// named only those that were taken back, and consumables.
    private static let residue = """
        CREATE TABLE residue (
            chain INTEGER NOT NULL REFERENCES chains,
            transactionId TEXT NOT NULL,
            source INTEGER NOT NULL,
            signedDate INTEGER NOT NULL,
            evidence BLOB NOT NULL,
            productId TEXT NOT NULL,
            type TEXT,
            subscriptionGroup TEXT,
            purchaseDate INTEGER,
            expiresDate INTEGER,
            quantity INTEGER NOT NULL,
            isUpgraded INTEGER NOT NULL,
            revocationDate INTEGER,
            revocationReason INTEGER,
            revocationType TEXT,
            revocationPercentage INTEGER,
            ownership TEXT,
            appAccountToken TEXT,
            offerType INTEGER,
            webOrderLineItemId TEXT,
            transactionReason TEXT,
            knownSince INTEGER,
            price INTEGER,
            currency TEXT,
            PRIMARY KEY (chain, transactionId, source)
        ) STRICT, WITHOUT ROWID;

        INSERT INTO residue (chain, transactionId, source, signedDate, evidence, productId, quantity, isUpgraded,
                             revocationDate, revocationReason, revocationType, revocationPercentage)
        SELECT chains.id, taken.key, 0, chains.residue ->> '$.erasedAt', zeroblob(32), '', 1, 0, taken.value ->> '$.date',
               taken.value ->> '$.reason', taken.value ->> '$.type', taken.value ->> '$.percentage'
        FROM chains, json_each(chains.residue, '$.revoked') AS taken WHERE chains.residue IS NOT NULL;

        INSERT INTO residue (chain, transactionId, source, signedDate, evidence, productId, type, quantity, isUpgraded)
        SELECT chains.id, used.value, 0, chains.residue ->> '$.erasedAt', zeroblob(32), '', 'Consumable', 1, 0
        FROM chains, json_each(chains.residue, '$.consumables') AS used WHERE chains.residue IS NOT NULL
        ON CONFLICT DO UPDATE SET type = excluded.type;

        ALTER TABLE chains DROP COLUMN residue;
        """
}
