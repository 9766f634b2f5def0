// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger
import Synchronization

/// Where a document is stored: its name, and its ``PurchaseLedger/Evidence/home``, by which Citus chooses the node of
/// the document's row.
struct DocumentLocation: Hashable, Comparable {
    let name: Provenance
    let home: String

    static func < (one: DocumentLocation, other: DocumentLocation) -> Bool { one.name < other.name }

    var key: [PostgresValue] { name.key + [.text(home)] }
}

extension DocumentLocation {
    init(_ evidence: Evidence) { self.init(name: evidence.provenance, home: evidence.home) }
}

extension Provenance {
    var key: [PostgresValue] { [signedDate.parameter, digest.parameter] }

    /// A statement about the row of the document with this name.
    ///
    /// - Parameters:
    ///   - start: The text before `WHERE`.
    ///   - home: The home of the row, if it is known. With a home, Citus sends the statement to a single node.
    ///   - further: Further conditions, beginning with `AND`.
    func statement(_ start: String, at home: String?, _ further: String = "") -> PostgresStatement {
        let isHere = home == nil ? "" : " AND home = $3"
        let here = home.map { [PostgresValue.text($0)] } ?? []
        return PostgresStatement("\(start) WHERE signed_date = $1 AND digest = $2\(isHere)\(further)", key + here)
    }
}

extension PostgresRow {
    /// The name of a document.
    mutating func name() throws -> Provenance { Provenance(signedDate: try next(), digest: try next()) }

    mutating func location() throws -> DocumentLocation { DocumentLocation(name: try name(), home: try next()) }
}

/// A cache that spares searches on all nodes of Citus: the ``PurchaseLedger/Evidence/home`` of each document loaded
/// lately. An entry never becomes wrong, because a document's home never changes. The entry of an erased document does
/// no harm, because a search at this home finds no row.
final class KnownHomes: Sendable {
    /// The maximum number of cached homes, which take some 2 MB. Once there would be more, all earlier homes are
    /// dropped. A page of a scan, or a purchase, has far fewer documents, so the homes of all its documents fit.
    private static let limit = 10_000

    private let homes = Mutex([Provenance: String]())

    func note(_ locations: [DocumentLocation]) {
        note(Dictionary(locations.map { ($0.name, $0.home) }) { first, _ in first })
    }

    func note(_ found: [Provenance: String]) {
        homes.withLock { homes in
            if homes.count + found.count > Self.limit { homes = [:] }
            if found.count <= Self.limit { homes.merge(found) { first, _ in first } }
        }
    }

    /// The cached homes of the given documents.
    func homes(of names: Set<Provenance>) -> [Provenance: String] {
        guard !names.isEmpty else { return [:] }
        return homes.withLock { homes in
            names.reduce(into: [:]) { found, name in found[name] = homes[name] }
        }
    }
}
