// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// A fact that the operator should look at, such as purchases of a product that the catalogue lacks. It is kept for
/// ``lifetime`` after it was last seen.
package struct Notice: Hashable, Sendable {
    /// What was noticed.
    package enum Kind: String, CaseIterable, Sendable {
        /// A purchase of a product that the catalogue lacks, so that it gives no entitlement. The subject is the
        /// product id.
        case unknownProduct
        /// A purchase that more customers presented than usually do: probably a document that went round. The subject
        /// is the name of the chain.
        case contestedPurchase

        /// The kind of the records that hold such notices.
        package var record: RecordKind { RecordKind(rawValue: rawValue) }
    }

    /// What was noticed.
    package var kind: Kind
    /// The app and environment.
    package var scope: LedgerScope
    /// What the notice is about, as its kind says.
    package var subject: String

    package init(_ kind: Kind, _ subject: String, in scope: LedgerScope) {
        self.kind = kind
        self.scope = scope
        self.subject = subject
    }

    /// How long a notice is kept after it was last seen: as long as a subscription's month, so that a product that is
    /// only renewed stays noticed.
    package static let lifetime = Duration.seconds(30 * 86_400)

    /// How much later a notice must end to be stored anew. A product that is sold all the time costs a write a day.
    static let precision = Duration.seconds(86_400)

    /// The key of the record that holds the notice.
    var key: RecordKey { RecordKey(kind.record, subject, of: .scope(scope)) }
}

extension Notice {
    /// Whether records of a kind hold notices.
    static func isKind(_ kind: RecordKind) -> Bool { Kind(rawValue: kind.rawValue) != nil }

    /// Whether a purchase was made in the last 30 days.
    static func isRecent(_ statement: TransactionStatement, at now: Timestamp) -> Bool {
        now < (statement.purchaseDate ?? now).advanced(by: lifetime)
    }

    /// The purchases of the last 30 days in a document whose products the app's catalogue lacks. Older ones, which a
    /// backfill brings, tell nothing about the catalogue of today. None if the app has no catalogue.
    static func unknownProducts(in document: Evidence, _ rules: LedgerRules, at now: Timestamp) -> [Notice] {
        guard let catalogue = rules.catalogues[document.scope.bundleId] else { return [] }
        let unknown = document.statements.filter { statement in
            catalogue.products[statement.productId] == nil && isRecent(statement, at: now)
        }
        return Set(unknown.map(\.productId)).sorted().map { Notice(.unknownProduct, $0, in: document.scope) }
    }
}
