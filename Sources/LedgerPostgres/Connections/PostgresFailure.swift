// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger

/// The reason why a request failed.
enum PostgresFailure: Error {
    /// The database refused a statement with an error; `state` is its SQLSTATE. The request was not committed.
    case refused(state: String, message: String)
    /// The connection ended. The outcome of the request is unknown.
    case lost(String)
    /// The database did not answer in time. The outcome of the request is unknown: not run, committed, or still
    /// pending. The request is not sent again, because its client would wait several times as long.
    case late
    /// The request was pipelined behind a request that timed out. Its outcome is unknown: not run, committed, or still
    /// pending. The request is sent again once. If it commits changes to loaded records, and the first attempt
    /// succeeded, the second attempt fails with a conflict, because the records no longer have the loaded versions.
    case behind
    /// The request was not sent: no connection can be opened, too many requests wait for a connection, or the request
    /// has waited too long.
    case unavailable(String)
    /// The request was not sent: the database did not prove its identity.
    case untrusted(String)
    /// The request is bound to an epoch (see ``ConnectionOpener/epoch``) that has ended. It was not sent or, if it had
    /// to be repeated, not sent again.
    case outdated
    /// The database committed the request, but with a warning: the commit has perhaps not reached a required standby.
    case unconfirmed(String)
    /// The connection string is invalid, or asks for an unsafe connection.
    case settings(String)
}

extension PostgresFailure {
    /// Whether the request conflicts with a concurrent transaction, so that it must be repeated, or its changes decided
    /// again on newly loaded records: a row no longer has the loaded version (``Conflict``), a new key already exists,
    /// or the database reports a serialization failure or a deadlock.
    var isConflict: Bool {
        guard case .refused(let state, _) = self else { return false }
        return [Conflict.state, "23505", "40001", "40P01"].contains(state)
    }

    /// Whether the connection must not be used again. It ended, did not answer in time, or did not confirm a commit;
    /// PostgreSQL shuts down or takes no more writes; a prepared statement is lost or no longer fits the tables; or a
    /// pooler passes requests to a different database. After the SQLSTATE 08006 the connection is still usable, because
    /// Citus uses it to report an unreachable node.
    var endsConnection: Bool {
        switch self {
        case .lost, .late, .behind, .unconfirmed: true
        case .refused(let state, _):
            ["57P", "08"].contains { state.hasPrefix($0) } && state != "08006"
                || ["25006", "0A000", "26000", "22P02"].contains(state)
        case .unavailable, .untrusted, .outdated, .settings: false
        }
    }

    /// Whether the request may succeed on a new connection: its connection ended, or must not be used again after an
    /// error of PostgreSQL.
    var isWorthAnotherConnection: Bool {
        switch self {
        case .lost, .refused: endsConnection
        case .late, .behind, .unavailable, .untrusted, .outdated, .unconfirmed, .settings: false
        }
    }

    /// Whether a statement, its wait for a lock, or the whole request timed out.
    var isTimeout: Bool {
        switch self {
        case .refused(let state, _): ["57014", "55P03"].contains(state)
        case .late, .behind: true
        case .lost, .unavailable, .untrusted, .outdated, .unconfirmed, .settings: false
        }
    }

    /// The failure as an error of the ledger.
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

    /// Whether a retry may succeed without a change by the operator. False if the settings are invalid, if the database
    /// did not prove its identity, and if PostgreSQL would refuse the request again.
    private var isPassing: Bool {
        switch self {
        case .refused(let state, _):
            isConflict || isTimeout || ["57P", "08", "53"].contains { state.hasPrefix($0) }
        case .settings, .untrusted: false
        case .lost, .late, .behind, .unavailable, .outdated, .unconfirmed: true
        }
    }

    /// The description of the failure, as a sentence.
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
