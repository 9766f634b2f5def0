// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// A position in a customer's list of transactions or refunds. Each page comes with the position at its end as a text,
/// and clients send the text (`revision`) to get the next page. A position never expires.
struct RevisionToken: Hashable, Sendable {
    /// The list in which the position is.
    enum List: String, Sendable {
        case ascending = "a"
        case descending = "d"
        case refunds = "r"
    }

    var list: List
    /// The customer's app transaction id.
    var customer: String
    /// The date of the last refund that the client has read; 0 in the lists of transactions.
    var date: Int64 = 0
    /// The number of the last change that the client has read; see `World.history(of:)`.
    var change: UInt64

    /// The text of the position, in base64url, which clients need not understand.
    var text: String {
        TokenPlan.base64URL(Array("\(list.rawValue).\(customer).\(date).\(change)".utf8))
    }

    /// Creates a position at the beginning of a list.
    init(_ list: List, of customer: StoreCustomer) {
        self.list = list
        self.customer = customer.appTransactionId
        change = list == .descending ? .max : 0
    }

    /// Reads the parameter `revision`. Without the parameter, the position is the beginning of the list.
    ///
    /// - Throws: `StoreRefusal` if the text is not a position in this list of this customer.
    init(_ call: StoreCall, _ list: List, of customer: StoreCustomer) throws(StoreRefusal) {
        self.init(list, of: customer)
        guard let text = call.value("revision") else { return }
        let parts = String(decoding: Base64.decodeURL(Array(text.utf8)[...]) ?? [], as: UTF8.self).split(separator: ".")
        guard parts.count == 4, parts[0] == list.rawValue, parts[1] == customer.appTransactionId,
            let date = Int64(parts[2]), let change = UInt64(parts[3])
        else { throw StoreRefusal(.invalidRequestRevision) }
        self.date = date
        self.change = change
    }
}

/// The division of lists into pages.
enum Paging {
    /// The number of transactions, refunds or notifications on a page: Apple's number.
    static let pageLength = 20
}
