// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger
import Synchronization

/// A document's name, and the home of its row.
struct DocumentPlace: Hashable, Comparable {
    let name: Provenance
    let home: String

    static func < (one: DocumentPlace, other: DocumentPlace) -> Bool { one.name < other.name }

    var key: [PostgresValue] { name.key + [.text(home)] }
}

extension DocumentPlace {
    init(_ evidence: Evidence) { self.init(name: evidence.provenance, home: evidence.home) }
}

extension Provenance {
    var key: [PostgresValue] { [signedDate.parameter, digest.parameter] }

    /// The condition that finds the document's row, and its parameters.
    ///
    /// - Parameter home: The home of the row, with which one node is asked instead of all; `nil` if it is not known.
    func condition(at home: String?) -> (sql: String, parameters: [PostgresValue]) {
        let sql = "signed_date = $1 AND digest = $2"
        return home.map { ("\(sql) AND home = $3", key + [.text($0)]) } ?? (sql, key)
    }
}

extension PostgresRow {
    /// A document's name.
    mutating func name() throws -> Provenance { Provenance(signedDate: try next(), digest: try next()) }
}

/// The homes of documents that were found lately. A document's home never changes, so that what is remembered is right,
/// also if the document was erased meanwhile.
final class KnownHomes: Sendable {
    /// The most homes to remember, some 2 MB: many times the documents that a page of a scan or a purchase has.
    private static let limit = 10_000

    private let homes = Mutex([Provenance: String]())

    func note(_ places: [DocumentPlace]) { note(Dictionary(places.map { ($0.name, $0.home) }) { first, _ in first }) }

    func note(_ found: [Provenance: String]) {
        homes.withLock { homes in
            if homes.count + found.count > Self.limit { homes = [:] }
            if found.count <= Self.limit { homes.merge(found) { first, _ in first } }
        }
    }

    /// The homes of some documents, as far as they are known.
    func homes(of names: Set<Provenance>) -> [Provenance: String] {
        guard !names.isEmpty else { return [:] }
        return homes.withLock { homes in
            names.reduce(into: [:]) { found, name in found[name] = homes[name] }
        }
    }
}
