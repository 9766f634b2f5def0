// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

/// The tables of a new ledger: the first of the ``steps``.
///
/// A field of a fact about a transaction is a column of `statements` and `residue`, and a field of a chain (a purchase
/// with its renewals) is a column of `chains`. Both are listed in the conformance to ``StoredFields``.
enum Schema {
    /// The `application_id` of every ledger, by which it is told from the files of other software.
    static let applicationID: UInt32 = 0x5175_6974

    static let steps = SchemaSteps(baseline: 33, [SchemaStep("baseline", tables)])

    static var tables: [String] {
        [apps, epochs, chains, documents, facts, customers, events, records, others, periods]
    }

    /// Each app has its own sequence of events. `erasedEvents` is the number of the last erased event. A ledger may be
    /// copied from PostgreSQL, where all apps share one sequence. `sharedSequence` is then the last number of the
    /// shared sequence, which a cursor of any app may have.
    private static let apps = """
        CREATE TABLE apps (
            id INTEGER PRIMARY KEY,
            bundleId TEXT NOT NULL UNIQUE,
            erasedEvents INTEGER NOT NULL DEFAULT 0,
            sharedSequence INTEGER NOT NULL DEFAULT 0
        ) STRICT;

        CREATE TABLE scopes (
            id INTEGER PRIMARY KEY,
            app INTEGER NOT NULL REFERENCES apps,
            environment TEXT NOT NULL,
            UNIQUE (app, environment)
        ) STRICT;
        """

    /// The epochs of each app's events. A new epoch begins whenever events may have been lost, for example after a
    /// restore from a backup. A cursor names an epoch, so that a number of a lost event is not taken for a number of a
    /// later event. The newest epoch has the greatest `place`, and its `last` is null.
    private static let epochs = """
        CREATE TABLE epochs (
            app INTEGER NOT NULL REFERENCES apps,
            place INTEGER NOT NULL,
            id TEXT NOT NULL,
            last INTEGER,
            PRIMARY KEY (app, place)
        ) STRICT, WITHOUT ROWID;
        """

    /// Ends the present epoch of each app, and begins a new epoch with an event in each environment.
    static func beginEpochs(at now: Timestamp) -> [String] {
        [
            "UPDATE epochs SET last = (SELECT \(lastEvent) FROM apps WHERE id = epochs.app) WHERE last IS NULL",
            "INSERT INTO epochs (app, place, id) SELECT app, max(place) + 1, \(newEpoch) FROM epochs GROUP BY app",
            """
            INSERT INTO events (app, sequence, scope, recordedAt, kind, body)
            SELECT apps.id, \(lastEvent) + row_number() OVER (PARTITION BY apps.id ORDER BY scopes.id), scopes.id,
                   \(now.milliseconds), '\(LedgerEvent.Kind.ledgerRestored.rawValue)',
                   CAST('\(EventContent.body(effectiveAt: "\(now.milliseconds)"))' AS BLOB)
            FROM scopes JOIN apps ON apps.id = scopes.app
            """,
        ]
    }

    /// Removes the events with which a backup began its epoch, if nothing followed them: nobody has read them, and the
    /// restored ledger begins an epoch of its own.
    static let forgetUnreadEpoch = """
        DELETE FROM events WHERE sequence > (SELECT max(last) FROM epochs WHERE app = events.app) AND NOT EXISTS (
            SELECT 1 FROM events AS later
            WHERE later.app = events.app AND later.kind <> '\(LedgerEvent.Kind.ledgerRestored.rawValue)'
                AND later.sequence > (SELECT max(last) FROM epochs WHERE app = events.app))
        """

    /// The id of a new epoch: 48 random bits, so that no other ledger has the same id.
    static let newEpoch = "lower(hex(randomblob(6)))"

    /// The highest number that cursors of an app may have, in a query of `apps`.
    ///
    /// In a ledger copied from PostgreSQL, a cursor may have a higher number than the app's last event. Such a cursor
    /// must stay valid, and the app's next event must get a higher number than the cursor.
    static let lastEvent = """
        max(erasedEvents, (SELECT max(sharedSequence) FROM apps),
            coalesce((SELECT max(sequence) FROM events WHERE app = apps.id), 0))
        """

    /// A chain's row contains its newest renewal info and its last published state. Each notification of a subscription
    /// changes both. In separate tables, they would cost two more page writes for each notification. Rare data of a
    /// chain is JSON in a column (`predecessors`, `publishedRevoked`), or in the separate table `ownerChanges`
    /// (`times`, also JSON). `settledAt`, `settledBy`, `unknownProducts` (JSON) and `newestPeriod` are its
    /// ``Settlement``; they are in front, because a question about entitlements reads only them of most rows.
    /// `publishedAsOf` is null unless the mere passage of time (an expiry, say) has changed the chain's state since its
    /// newest document was signed.
    private static let chains = """
        CREATE TABLE chains (
            id INTEGER PRIMARY KEY,
            scope INTEGER NOT NULL REFERENCES scopes,
            originalTransactionId TEXT NOT NULL,
            settledAt INTEGER,
            settledBy INTEGER,
            unknownProducts TEXT,
            newestPeriod INTEGER,
            erasedAt INTEGER,
            lastEventAt INTEGER,
            successor TEXT,
            claimants TEXT,
            isCorrected INTEGER NOT NULL,
            predecessors TEXT,
            renewalSignedDate INTEGER,
            renewalEvidence BLOB,
            renewalTerms TEXT,
            autoRenewStatus INTEGER,
            expirationIntent INTEGER,
            isInBillingRetry INTEGER,
            gracePeriodExpiresDate INTEGER,
            hasGraceWithoutEnd INTEGER,
            renewalAppAccountToken TEXT,
            olderTokenDate INTEGER,
            renewalDate INTEGER,
            commitmentAutoRenewStatus INTEGER,
            commitmentAutoRenewProductId TEXT,
            publishedStatus TEXT,
            publishedProductId TEXT,
            publishedHasAccess INTEGER,
            publishedUntil INTEGER,
            publishedWillRenew INTEGER,
            publishedCommitmentWillRenew INTEGER,
            publishedRenewal TEXT,
            publishedIsSubscription INTEGER,
            publishedTransactionId TEXT,
            publishedExpiresDate INTEGER,
            publishedRevoked TEXT,
            publishedEntitling INTEGER,
            publishedEntitlements TEXT,
            publishedDetails INTEGER,
            publishedExpirationIntent INTEGER,
            deniedAt INTEGER,
            deniedBecause TEXT,
            nextChange INTEGER,
            publishedAsOf INTEGER,
            UNIQUE (originalTransactionId, scope)
        ) STRICT;
        CREATE INDEX chainsDue ON chains (nextChange) WHERE nextChange IS NOT NULL;
        CREATE INDEX chainsAhead ON chains (publishedAsOf) WHERE publishedAsOf IS NOT NULL;

        CREATE TABLE ownerChanges (
            chain INTEGER PRIMARY KEY REFERENCES chains,
            times TEXT NOT NULL
        ) STRICT;
        """

    /// Documents, and the parts that several documents share (`sharedBlobs`), such as headers and certificates; see
    /// ``DocumentStore``.
    ///
    /// A document is found by its signing date and the first 16 bytes of its digest. Nobody can make two documents of
    /// the same instant whose digests begin with the same 16 bytes. Reading a document compares the whole digest all
    /// the same. An index by digest alone would be large, and each new document would change a different page of it.
    /// The index therefore begins with the date, so that new documents are at its end. For this reason, the date is
    /// part of a document's name. Every later version of the software must read the same date from a document, because
    /// otherwise the lookup would miss the stored document. Shared parts are few, and are found by the first eight
    /// bytes of their digest.
    ///
    /// Nearly every document is about one chain or none. `mentions` contains the chains of a document that are not in
    /// `chain`.
    ///
    /// Two documents have the same `wording` if they differ only in signing date and signature. A new document may
    /// replace a stored document of the same chain with the same wording, unless the stored document is pinned; see
    /// ``WordedDocument/isPinned``. A document without a wording is never replaced. The index of wordings begins with
    /// the chain, so that the documents of a purchase are next to each other.
    private static let documents = """
        CREATE TABLE sharedBlobs (
            id INTEGER PRIMARY KEY,
            digest INTEGER NOT NULL,
            content BLOB NOT NULL
        ) STRICT;
        CREATE INDEX sharedBlobsByDigest ON sharedBlobs (digest);

        CREATE TABLE documents (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            signedDate INTEGER NOT NULL,
            digest BLOB NOT NULL,
            scope INTEGER NOT NULL REFERENCES scopes,
            chain INTEGER REFERENCES chains,
            kind TEXT NOT NULL,
            receivedAt INTEGER NOT NULL,
            notificationType TEXT,
            notificationSubtype TEXT,
            notificationUUID TEXT,
            wording INTEGER,
            isPinned INTEGER,
            content BLOB NOT NULL,
            UNIQUE (signedDate, digest)
        ) STRICT;
        CREATE INDEX documentsByChain ON documents (chain) WHERE chain IS NOT NULL;
        CREATE INDEX documentsByWording ON documents (chain, wording) WHERE wording IS NOT NULL;

        CREATE TABLE mentions (
            chain INTEGER NOT NULL REFERENCES chains,
            document INTEGER NOT NULL REFERENCES documents,
            PRIMARY KEY (chain, document)
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX mentionsByDocument ON mentions (document);
        """

    /// `statements` has a row per transaction and kind of document. The rows of a chain are adjacent, so that they are
    /// read together. The id of a chain's original transaction is the id of the chain. This transaction is therefore
    /// found by the index of `chains`, and `statementsByTransaction` leaves it out. `residue` has such rows for the
    /// documents of erased customers, without account, storefront, offer, price and commitment; see ``Chain/residue``.
    private static var facts: String {
        """
        CREATE TABLE statements (
            isOriginal INTEGER NOT NULL,
        \(fact)
        CREATE INDEX statementsByTransaction ON statements (transactionId) WHERE NOT isOriginal;

        CREATE TABLE residue (
        \(fact)
        CREATE INDEX residueByTransaction ON residue (transactionId);
        """
    }

    private static let fact = """
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
            offerIdentifier TEXT,
            offerDiscountType TEXT,
            offerPeriod TEXT,
            storefront TEXT,
            commitmentPeriod INTEGER,
            commitmentPeriods INTEGER,
            commitmentExpiresDate INTEGER,
            commitmentPrice INTEGER,
            revokedSeats INTEGER,
            originalApplicationVersion TEXT,
            originalPlatform TEXT,
            receiptType TEXT,
            olderMembers TEXT,
            otherChain TEXT,
            PRIMARY KEY (chain, transactionId, source)
        ) STRICT, WITHOUT ROWID;
        """

    /// A customer's number is never reused, because events still name an erased customer by the number: hence
    /// AUTOINCREMENT. `links` contains the chains of each customer. `place` is the order in which ids and links were
    /// added. Every request for entitlements looks up a customer's chains. The index `linksByCustomer` contains all
    /// columns of this query, so that the table itself need not be read.
    private static let customers = """
        CREATE TABLE customers (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            app INTEGER NOT NULL REFERENCES apps,
            isEstablished INTEGER NOT NULL DEFAULT 0,
            consentedAt INTEGER,
            grants BLOB
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

    /// Events may name erased customers, so `customer` is not a foreign key.
    private static let events = """
        CREATE TABLE events (
            app INTEGER NOT NULL REFERENCES apps,
            sequence INTEGER NOT NULL,
            scope INTEGER NOT NULL REFERENCES scopes,
            recordedAt INTEGER NOT NULL,
            kind TEXT NOT NULL,
            customer INTEGER,
            chainName TEXT,
            body BLOB NOT NULL,
            PRIMARY KEY (app, sequence)
        ) STRICT, WITHOUT ROWID;
        """

    /// `owner` is 0 for the ledger as a whole, the number of a scope, or the negative number of an app. `entries` is a
    /// JSON array, or null if the record has no entries. The table `recordEntries` has the same entries, to find the
    /// records with an entry.
    private static let records = """
        CREATE TABLE records (
            number INTEGER PRIMARY KEY,
            kind TEXT NOT NULL,
            owner INTEGER NOT NULL,
            name TEXT NOT NULL,
            dueAt INTEGER,
            entries TEXT,
            payload BLOB NOT NULL,
            UNIQUE (kind, owner, name)
        ) STRICT;
        CREATE INDEX recordsDue ON records (dueAt) WHERE dueAt IS NOT NULL;
        CREATE INDEX recordsDueOfKind ON records (kind, owner, dueAt) WHERE dueAt IS NOT NULL;

        CREATE TABLE recordEntries (
            entry TEXT NOT NULL,
            record INTEGER NOT NULL REFERENCES records ON DELETE CASCADE,
            PRIMARY KEY (entry, record)
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX recordEntriesByRecord ON recordEntries (record);
        """

    /// The row of `proof` is written to test whether the ledger is writable.
    private static let others = """
        CREATE TABLE proof (
            id INTEGER PRIMARY KEY CHECK (id = 1),
            written INTEGER NOT NULL
        ) STRICT;
        """

    /// A view for people with a `sqlite3` shell. docs/ledger.md documents the columns, so the columns must stay. The
    /// view has a row for each transaction, from the newest document about the transaction. If a receipt and a signed
    /// transaction have the same date, the signed transaction counts as newer. Fields that are missing in a newer
    /// receipt come from the signed transaction, as in `TransactionFact.current`.
    private static let periods = """
        CREATE VIEW periods AS
        SELECT
            (SELECT customerIds.id FROM links JOIN customerIds ON customerIds.customer = links.customer
             WHERE links.chain = newest.chain ORDER BY links.place, customerIds.place LIMIT 1) AS customer,
            bundleId, environment, originalTransactionId, newest.transactionId, newest.productId,
            coalesce(newest.type, signed.type) AS type, \(near("purchaseDate")), \(near("expiresDate")), newest.quantity,
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
        WHERE (newest.otherChain IS NULL OR EXISTS (
            SELECT 1 FROM chains AS former
            WHERE former.originalTransactionId = newest.otherChain AND former.scope = chains.scope
                AND former.successor = chains.originalTransactionId)) AND NOT EXISTS (
            SELECT 1 FROM statements AS other
            WHERE other.chain = newest.chain AND other.transactionId = newest.transactionId
                AND (other.signedDate, newest.source) > (newest.signedDate, other.source));
        """

    /// The newest date, unless it is a receipt's and the signed transaction has the same date with its milliseconds.
    private static func near(_ date: String) -> String {
        let difference = "newest.\(date) - signed.\(date)"
        return "iif(\(difference) BETWEEN -999 AND 999, signed.\(date), newest.\(date)) AS \(date)"
    }
}
