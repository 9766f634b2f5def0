// SPDX-License-Identifier: Apache-2.0

import GRDB

/// The tables of a ledger after the first six steps of its schema. Tests create such files and bring them up to date.
enum FirstSchema {
    static let steps = ["001 evidence", "002 facts", "003 customers", "004 events", "005 API keys", "006 proof"]

    /// Creates these tables.
    static func create(_ connection: Database) throws {
        try connection.execute(sql: "CREATE TABLE grdb_migrations (identifier TEXT NOT NULL PRIMARY KEY)")
        for step in steps {
            try connection.execute(sql: "INSERT INTO grdb_migrations VALUES (?)", arguments: [step])
        }
        try connection.execute(sql: tables)
    }

    private static let tables = """
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

        CREATE TABLE proof (
            id INTEGER PRIMARY KEY CHECK (id = 1),
            written INTEGER NOT NULL
        ) STRICT;
        """
}
