// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// Whether a purchase gives access by itself, and until when. The catalogue does not matter: a purchase gives access
/// even if its product is not in the catalogue.
public struct Access: Hashable, Sendable {
    /// Whether the purchase gives access now.
    public var isGiven: Bool
    /// The instant at which access ends or ended, exclusive. If the purchase never gave access, this is its date. `nil`
    /// only if access is given and has no known end. Therefore access is given if there is no instant, or if it is
    /// ahead.
    public var until: Timestamp?

    static func given(until end: Timestamp?) -> Access { Access(isGiven: true, until: end) }
    static func ended(_ end: Timestamp) -> Access { Access(isGiven: false, until: end) }

    /// Access that ends at an instant, if there is one.
    init(until end: Timestamp?, at now: Timestamp) {
        self.init(isGiven: now < end ?? .distantFuture, until: end)
    }

    private init(isGiven: Bool, until: Timestamp?) {
        self.isGiven = isGiven
        self.until = until
    }

    /// Access that ended with the loss of a purchase, but neither before the purchase began nor after its end.
    ///
    /// - Parameter date: When the purchase was lost; `nil` if its revocation says so.
    init(lost purchase: TransactionStatement, at date: Timestamp? = nil) {
        let date = min(date ?? purchase.revocation?.date ?? .distantPast, purchase.end)
        self = .ended(max(purchase.date, date))
    }
}

extension TransactionStatement {
    /// The date of the purchase. The App Store always signs it; without it, the purchase counts as made in 1970.
    var date: Timestamp { purchaseDate ?? Timestamp(milliseconds: 0) }
}
