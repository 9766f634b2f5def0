// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger

/// The statements of one load, and how to read their answers. The files in `Rows` add to it.
struct LoadPlan {
    typealias Reader = (_ rows: PostgresRows, _ loaded: inout LoadedRecords) throws -> Void

    let scopes: ScopeNumbers
    private(set) var statements: [PostgresStatement] = []
    private var readers: [Reader] = []

    init(_ footprint: Footprint, _ scopes: ScopeNumbers) {
        self.scopes = scopes
        for key in footprint.chains { load(key) }
        for key in footprint.transactions { load(key) }
        for id in footprint.customers { load(id) }
        for customer in footprint.numbers { load(customer) }
        for name in footprint.names { look(up: name) }
        for name in footprint.documents { load(name) }
        for part in footprint.parts { load(part) }
        for key in footprint.evidence { loadEvidence(for: key) }
        for bundleId in footprint.catalogues { loadCatalogue(of: bundleId) }
        for id in footprint.jobs { load(id) }
    }

    mutating func add(_ sql: String, _ parameters: [PostgresValue], _ read: @escaping Reader) {
        statements.append(PostgresStatement(sql, parameters))
        readers.append(read)
    }

    /// The records in the answers to the statements.
    func records(_ answers: [PostgresRows]) throws -> LoadedRecords {
        var loaded = LoadedRecords()
        for (answer, read) in zip(answers, readers) { try read(answer, &loaded) }
        return loaded
    }
}
