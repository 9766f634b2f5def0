// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// A fact for the operator's attention, such as purchases of a product outside the catalogue. A notice is kept for
/// ``lifetime`` after its last occurrence.
package struct Notice: Hashable, Sendable {
    /// The kinds of notices.
    package enum Kind: String, CaseIterable, Sendable {
        /// A purchase of a product outside the catalogue. The purchase grants no entitlement. The subject is the
        /// product id.
        case unknownProduct
        /// A purchase presented by more customers than usual, probably with a document passed among strangers. The
        /// subject is the name of the purchase (``ChainKey/name``).
        case contestedPurchase

        /// The kind of the records for notices of this kind.
        package var record: RecordKind { RecordKind(rawValue: rawValue) }
    }

    /// The kind of the notice.
    package var kind: Kind
    /// The app and environment.
    package var scope: LedgerScope
    /// The subject of the notice; its form depends on the kind.
    package var subject: String

    package init(_ kind: Kind, _ subject: String, in scope: LedgerScope) {
        self.kind = kind
        self.scope = scope
        self.subject = subject
    }

    /// How long a notice is kept after its last occurrence. This is about a month, so that monthly renewals suffice to
    /// keep the notice of a product.
    package static let lifetime = Duration.seconds(30 * 86_400)

    /// A repeated notice is stored again only if the repetition extends its life by at least this duration. A product
    /// that sells all the time therefore costs one write a day.
    static let precision = Duration.seconds(86_400)

    /// The key of the notice's record.
    var key: RecordKey { RecordKey(kind.record, subject, of: .scope(scope)) }
}

extension Notice {
    /// Whether a purchase was made in the last 30 days, or at an unknown time.
    static func isRecent(_ statement: TransactionStatement, at now: Timestamp) -> Bool {
        now < (statement.purchaseDate ?? now).advanced(by: lifetime)
    }

    /// Notices of the document's recent purchases whose products are missing in the app's catalogue; empty if the app
    /// has no catalogue. Older purchases, for example if the past of an app is being recorded, may be of products that
    /// are no longer sold, and show no gap in the present catalogue.
    static func unknownProducts(in document: Evidence, _ rules: LedgerRules, at now: Timestamp) -> [Notice] {
        guard let catalogue = rules.catalogues[document.scope.bundleId] else { return [] }
        let unknown = document.statements.filter { statement in
            !statement.isAppPurchase && catalogue.products[exactly: statement.productId] == nil
                && isRecent(statement, at: now)
        }
        return Set(unknown.map(\.productId)).sorted().map { Notice(.unknownProduct, $0, in: document.scope) }
    }
}
