// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// A member that a statement about a transaction keeps if a newer document lacks the member.
///
/// Apple has signed transactions anew without their `appAccountToken`, for example after it migrated an Apple Account.
/// Such silence says nothing. A statement therefore takes each lasting member from the newest document with the member,
/// and notes when this document was signed (``TransactionStatement/olderMembers``). All other members come from the
/// newest document. If it lacks `revocationDate`, a refund was reversed.
struct LastingMember: Sendable {
    let name: String
    /// Whether an erasure of the customer removes the member; see ``Chain/residue``.
    let isPersonal: Bool
    /// The member's value; null if the statement is silent.
    let value: @Sendable (TransactionStatement) -> StoredValue
    /// Gives the first statement the value of the second.
    let copy: @Sendable (inout TransactionStatement, TransactionStatement) -> Void

    private init(
        _ name: String, isPersonal: Bool = false, _ value: @escaping @Sendable (TransactionStatement) -> StoredValue,
        _ copy: @escaping @Sendable (inout TransactionStatement, TransactionStatement) -> Void
    ) {
        self.name = name
        self.isPersonal = isPersonal
        self.value = value
        self.copy = copy
    }

    /// Closures rather than key paths: a read through a key path copies the whole statement.
    static let all: [LastingMember] = [
        .init("type", { $0.type.stored }, { $0.type = $1.type }),
        .init("subscriptionGroup", { $0.subscriptionGroup.stored }, { $0.subscriptionGroup = $1.subscriptionGroup }),
        .init("purchaseDate", { $0.purchaseDate.stored }, { $0.purchaseDate = $1.purchaseDate }),
        .init("expiresDate", { $0.expiresDate.stored }, { $0.expiresDate = $1.expiresDate }),
        .init("ownership", { $0.ownership.stored }, { $0.ownership = $1.ownership }),
        .init(
            "appAccountToken", isPersonal: true, { $0.appAccountToken.stored },
            { $0.appAccountToken = $1.appAccountToken }),
        .init("offerType", isPersonal: true, { $0.offerType.stored }, { $0.offerType = $1.offerType }),
        .init(
            "offerIdentifier", isPersonal: true, { $0.offerIdentifier.stored },
            { $0.offerIdentifier = $1.offerIdentifier }),
        .init(
            "offerDiscountType", isPersonal: true, { $0.offerDiscountType.stored },
            { $0.offerDiscountType = $1.offerDiscountType }),
        .init("offerPeriod", isPersonal: true, { $0.offerPeriod.stored }, { $0.offerPeriod = $1.offerPeriod }),
        .init("webOrderLineItemId", { $0.lineItem.stored }, { $0.webOrderLineItemId = $1.webOrderLineItemId }),
        .init("transactionReason", { $0.transactionReason.stored }, { $0.transactionReason = $1.transactionReason }),
        .init("price", isPersonal: true, { $0.price.stored }, { $0.price = $1.price }),
        .init("currency", isPersonal: true, { $0.currency.stored }, { $0.currency = $1.currency }),
        .init("storefront", isPersonal: true, { $0.storefront.stored }, { $0.storefront = $1.storefront }),
        .init(
            "commitment", isPersonal: true, { $0.commitment.map { .text("\($0)") } ?? .null },
            { $0.commitment = $1.commitment }),
        .init("revokedSeats", { $0.revokedSeats.stored }, { $0.revokedSeats = $1.revokedSeats }),
        .init(
            "originalApplicationVersion", { $0.originalApplicationVersion.stored },
            { $0.originalApplicationVersion = $1.originalApplicationVersion }),
        .init("originalPlatform", { $0.originalPlatform.stored }, { $0.originalPlatform = $1.originalPlatform }),
        .init("receiptType", { $0.receiptType.stored }, { $0.receiptType = $1.receiptType }),
    ]
}

extension TransactionStatement {
    /// Merges two statements from the same kind of document. The newer statement stays, takes over the lasting members
    /// that only the older statement has, and has the earlier ``knownSince``.
    func merged(with other: TransactionStatement) -> TransactionStatement {
        var (newer, older) = provenance > other.provenance ? (self, other) : (other, self)
        newer.knownSince = earliest(knownSince, other.knownSince)
        // Nothing takes an upgrade back: the App Store sends the member only as true.
        newer.isUpgraded = isUpgraded || other.isUpgraded
        newer.revocation = newer.revocation.map { $0.completed(by: older.revocation) }
        for member in LastingMember.all { newer.take(member, ifNewerIn: older) }
        return newer
    }

    private mutating func take(_ member: LastingMember, ifNewerIn older: TransactionStatement) {
        let known = member.value(older)
        // A newer receipt of a volume purchase may have no end any more.
        guard known != .null, !(isAppPurchase && member.name == "expiresDate") else { return }
        let own = member.value(self)
        let date = older.date(of: member)
        // If two documents have the same date, the greater value counts, so that their order does not matter.
        guard own == .null || (self.date(of: member), own) < (date, known) else { return }
        member.copy(&self, older)
        olderMembers[member.name] = date == provenance.signedDate ? nil : date
    }

    /// The name of the chain in the document. The chain that has the statement may have a different name.
    var namedChain: String { otherChain ?? chainName }

    private func date(of member: LastingMember) -> Timestamp { olderMembers[member.name] ?? provenance.signedDate }

    /// Adds the lasting members that only a statement from a different kind of document has.
    func completed(with other: TransactionStatement) -> TransactionStatement {
        var statement = self
        for member in LastingMember.all where member.value(self) == .null { member.copy(&statement, other) }
        return statement
    }

    /// The statement as an erasure leaves it in ``Chain/residue``: without account, storefront, offer, price and
    /// commitment.
    var asResidue: TransactionStatement {
        var statement = self
        for member in LastingMember.all where member.isPersonal {
            member.copy(&statement, .blank)
            statement.olderMembers[member.name] = nil
        }
        return statement
    }
}

extension TransactionStatement.Revocation {
    /// The revocation with what another document says about the same one: its share.
    fileprivate func completed(by other: Self?) -> Self {
        guard let other, other.date == date, (percentage ?? -1) < (other.percentage ?? -1) else { return self }
        return other
    }
}

extension StoredValue: Comparable {
    /// Compares two integers or two texts.
    @usableFromInline package static func < (left: StoredValue, right: StoredValue) -> Bool {
        switch (left, right) {
        case (.integer(let left), .integer(let right)): left < right
        case (.text(let left), .text(let right)): left.utf8.lexicographicallyPrecedes(right.utf8)
        default: false
        }
    }
}
