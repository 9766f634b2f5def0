// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger

/// Why a request failed.
enum PostgresFailure: Error {
    /// The database refused a statement, with its SQLSTATE. Nothing was committed.
    case refused(state: String, message: String)
    /// The connection ended. The request was committed or not.
    case lost(String)
    /// The database did not answer in time. The request was committed or not, or still will be. It is not sent again,
    /// since the client would wait several times as long.
    case late
    /// The request was sent behind one that was not answered in time. It did not run, was committed, or still will be.
    /// It is sent again once: what it commits fails if it was committed before.
    case behind
    /// The request was never sent: no connection can be opened, or too many wait for one.
    case unavailable(String)
    /// The request was never sent: the database did not prove who it is.
    case untrusted(String)
    /// The request was not sent, or not again: connections have ended since the epoch that it names.
    case outdated
    /// The database committed, but warned that the commit may not be where it was required to be, such as on a standby.
    case unconfirmed(String)
    /// The connection string asks for something that is not safe or not understood.
    case settings(String)
}

extension PostgresFailure {
    /// Whether another commit was faster, so that the decision must be made again: a version differs
    /// (``Conflict``), a key is taken, or the database resolved a conflict or a deadlock itself.
    var isConflict: Bool {
        guard case .refused(let state, _) = self else { return false }
        return [Conflict.state, "23505", "40001", "40P01"].contains(state)
    }

    /// Whether the connection is of no more use: it ended, its server shuts down or takes no writes any more, a
    /// prepared statement no longer fits the tables, or a pooler passes requests to another database. With 08006 Citus
    /// says that another node is away.
    var endsConnection: Bool {
        switch self {
        case .lost, .late, .behind, .unconfirmed: true
        case .refused(let state, _):
            ["57P", "08"].contains { state.hasPrefix($0) } && state != "08006"
                || ["25006", "0A000", "26000", "22P02"].contains(state)
        case .unavailable, .untrusted, .outdated, .settings: false
        }
    }

    /// Whether the same request may succeed on another connection, since this one was of no more use.
    var isWorthAnotherConnection: Bool {
        switch self {
        case .lost, .refused: endsConnection
        case .late, .behind, .unavailable, .untrusted, .outdated, .unconfirmed, .settings: false
        }
    }

    /// Whether a statement took too long or waited for a lock too long, and was ended or given up.
    var isTimeout: Bool {
        switch self {
        case .refused(let state, _): ["57014", "55P03"].contains(state)
        case .late, .behind: true
        case .lost, .unavailable, .untrusted, .outdated, .unconfirmed, .settings: false
        }
    }

    /// The error of the ledger.
    var storageError: LedgerStorageError {
        switch self {
        case .refused("53100", let message): LedgerStorageError(.full, "PostgreSQL 53100: \(message)")
        case .refused("25006", let message):
            LedgerStorageError(
                .readOnly,
                "PostgreSQL 25006: \(message). The database takes no writes, as a standby does: name the primary in "
                    + "the address, or all hosts with target_session_attrs=read-write")
        case .refused("42501", let message):
            LedgerStorageError(
                .readOnly,
                "PostgreSQL 42501: \(message). quittance migrate --server-role gives a role the rights of a server")
        case .refused("26000", let message):
            LedgerStorageError(
                .unavailable,
                "PostgreSQL 26000: \(message). A pooler that does not keep prepared statements needs "
                    + "prepared_statements=false in the address")
        case .refused(let state, let message):
            LedgerStorageError(
                ["XX001", "XX002"].contains(state) ? .damaged : .unavailable, "PostgreSQL \(state): \(message)",
                isPassing: isPassing)
        case .lost, .late, .behind, .unavailable, .untrusted, .outdated, .unconfirmed, .settings:
            LedgerStorageError(.unavailable, "PostgreSQL: \(message)", isPassing: isPassing)
        }
    }

    /// Whether the same may succeed later although nobody changes anything: not if the database refuses what is asked.
    private var isPassing: Bool {
        switch self {
        case .refused(let state, _):
            isConflict || isTimeout || ["57P", "08", "53"].contains { state.hasPrefix($0) }
        case .settings, .untrusted: false
        case .lost, .late, .behind, .unavailable, .outdated, .unconfirmed: true
        }
    }

    /// What happened, as a sentence.
    var message: String {
        switch self {
        case .refused(_, let message), .lost(let message), .unavailable(let message), .untrusted(let message),
            .unconfirmed(let message), .settings(let message):
            message
        case .late, .behind: "The database did not answer in time"
        case .outdated: "Connections to the database ended too often"
        }
    }
}
