// SPDX-License-Identifier: Apache-2.0

/// A value in the words of the other world, and what of the original has no words there.
public struct Conversion<Value: Sendable>: Sendable {
    public var value: Value
    /// What could not be carried over; nothing else was lost: converting back brings everything but this.
    public var leftovers: [Leftover]

    public init(value: Value, leftovers: [Leftover]) {
        self.value = value
        self.leftovers = leftovers
    }
}

/// A member that has no counterpart in the other world.
public struct Leftover: Hashable, Sendable {
    /// Where it stands, such as `receipt.in_app[2].web_order_line_item_id`.
    public var path: String
    public var value: JSONValue

    public init(path: String, value: JSONValue) {
        self.path = path
        self.value = value
    }
}

/// How one field, or a few that belong together, stand in both worlds. The tables of these are the whole conversion.
struct FieldMapping<Legacy, Modern>: Sendable {
    let toModern: @Sendable (Legacy, inout Modern) -> Void
    let toLegacy: @Sendable (Modern, inout Legacy) -> Void

    /// Two names for the same value.
    static func same<Value>(
        _ legacy: any WritableKeyPath<Legacy, Value> & Sendable,
        _ modern: any WritableKeyPath<Modern, Value> & Sendable
    ) -> Self {
        Self(
            toModern: { $1[keyPath: modern] = $0[keyPath: legacy] },
            toLegacy: { $1[keyPath: legacy] = $0[keyPath: modern] })
    }

    /// A value that is written in two ways.
    static func converted<Old, New>(
        _ legacy: any WritableKeyPath<Legacy, Old?> & Sendable, _ modern: any WritableKeyPath<Modern, New?> & Sendable,
        toModern: @escaping @Sendable (Old) -> New?, toLegacy: @escaping @Sendable (New) -> Old?
    ) -> Self {
        Self(
            toModern: { $1[keyPath: modern] = $0[keyPath: legacy].flatMap(toModern) },
            toLegacy: { $1[keyPath: legacy] = $0[keyPath: modern].flatMap(toLegacy) })
    }
}

// MARK: - Transactions

extension FieldMapping where Legacy == LatestReceiptInfo, Modern == JWSTransactionDecodedPayload {
    /// `latest_receipt_info` and `in_app` ⇄ `JWSTransactionDecodedPayload`.
    static var transactions: [Self] {
        [
            .converted(\.quantity, \.quantity, toModern: { Int(exactly: $0) }, toLegacy: { Int64($0) }),
            .same(\.productId, \.productId),
            .same(\.transactionId, \.transactionId),
            .same(\.originalTransactionId, \.originalTransactionId),
            .same(\.purchaseDate, \.purchaseDate),
            .same(\.originalPurchaseDate, \.originalPurchaseDate),
            .same(\.expiresDate, \.expiresDate),
            .same(\.webOrderLineItemId, \.webOrderLineItemId),
            // On an upgrade the old world has a cancellation too; the new one has isUpgraded alone.
            .same(\.cancellationDate, \.revocationDate),
            .same(\.cancellationReason, \.revocationReason),
            .converted(\.isUpgraded, \.isUpgraded, toModern: { $0 ? true : nil }, toLegacy: { $0 ? true : nil }),
            .same(\.inAppOwnershipType, \.inAppOwnershipType),
            .same(\.subscriptionGroupIdentifier, \.subscriptionGroupIdentifier),
            .converted(\.appAccountToken, \.appAccountToken, toModern: { $0.lowercased() }, toLegacy: { $0 }),
            Self(toModern: offer(_:_:), toLegacy: offer(_:_:)),
            Self(toModern: derived(_:_:), toLegacy: { _, _ in }),
        ]
    }

    @Sendable private static func offer(_ old: LatestReceiptInfo, _ new: inout JWSTransactionDecodedPayload) {
        if let identifier = old.promotionalOfferId {
            new.offerType = Open(.promotional)
            new.offerIdentifier = identifier
        } else if let name = old.offerCodeRefName {
            new.offerType = Open(.offerCode)
            new.offerIdentifier = name
        } else if old.isTrialPeriod == true {
            new.offerType = Open(.introductory)
            new.offerDiscountType = Open(.freeTrial)
        } else if old.isInIntroOfferPeriod == true {
            // Paid as you go or up front: the old world cannot tell.
            new.offerType = Open(.introductory)
        }
    }

    @Sendable private static func offer(_ new: JWSTransactionDecodedPayload, _ old: inout LatestReceiptInfo) {
        let isIntroductory = new.offerType == .introductory
        // Before 1.10 nothing says how an offer was paid; nothing paid is a trial.
        let isFree = new.offerDiscountType == nil && new.price == 0
        let isTrial = isIntroductory && (new.offerDiscountType == .freeTrial || isFree)
        old.isTrialPeriod = isTrial
        if new.expiresDate != nil { old.isInIntroOfferPeriod = isIntroductory && !isTrial }
        if new.offerType == .promotional { old.promotionalOfferId = new.offerIdentifier }
        if new.offerType == .offerCode { old.offerCodeRefName = new.offerIdentifier }
    }

    /// What follows from other fields.
    @Sendable private static func derived(_ old: LatestReceiptInfo, _ new: inout JWSTransactionDecodedPayload) {
        if old.expiresDate != nil { new.type = Open(.autoRenewableSubscription) }
        if let id = old.transactionId, id == old.originalTransactionId { new.transactionReason = Open(.purchase) }
    }
}

// MARK: - Renewals

extension FieldMapping where Legacy == PendingRenewalInfo, Modern == JWSRenewalInfoDecodedPayload {
    /// `pending_renewal_info` ⇄ `JWSRenewalInfoDecodedPayload`.
    static var renewals: [Self] {
        [
            .same(\.autoRenewProductId, \.autoRenewProductId),
            .same(\.productId, \.productId),
            .same(\.originalTransactionId, \.originalTransactionId),
            .same(\.autoRenewStatus, \.autoRenewStatus),
            .same(\.expirationIntent, \.expirationIntent),
            .same(\.isInBillingRetryPeriod, \.isInBillingRetryPeriod),
            .same(\.gracePeriodExpiresDate, \.gracePeriodExpiresDate),
            // Two names of old for one thing; the newer of them says more.
            Self(
                toModern: { $1.priceIncreaseStatus = $0.priceIncreaseStatus ?? $0.priceConsentStatus },
                toLegacy: { $1.priceIncreaseStatus = $0.priceIncreaseStatus }),
            Self(toModern: offer(_:_:), toLegacy: offer(_:_:)),
        ]
    }

    @Sendable private static func offer(_ old: PendingRenewalInfo, _ new: inout JWSRenewalInfoDecodedPayload) {
        if let identifier = old.promotionalOfferId {
            new.offerType = Open(.promotional)
            new.offerIdentifier = identifier
        } else if let name = old.offerCodeRefName {
            new.offerType = Open(.offerCode)
            new.offerIdentifier = name
        }
    }

    @Sendable private static func offer(_ new: JWSRenewalInfoDecodedPayload, _ old: inout PendingRenewalInfo) {
        if new.offerType == .promotional { old.promotionalOfferId = new.offerIdentifier }
        if new.offerType == .offerCode { old.offerCodeRefName = new.offerIdentifier }
    }
}

// MARK: - The app

extension FieldMapping where Legacy == Receipt, Modern == AppTransaction {
    /// `receipt` ⇄ `AppTransaction`.
    static var apps: [Self] {
        [
            .converted(\.receiptType, \.receiptType, toModern: environment(of:), toLegacy: receiptType(of:)),
            Self(
                toModern: { $1.appAppleId = identifier($0.appItemId ?? $0.adamId) },
                toLegacy: {
                    $1.adamId = $0.appAppleId ?? zeroInSandbox($0)
                    $1.appItemId = $1.adamId
                }),
            .same(\.bundleId, \.bundleId),
            .same(\.applicationVersion, \.applicationVersion),
            Self(
                toModern: { $1.versionExternalIdentifier = identifier($0.versionExternalIdentifier) },
                toLegacy: { $1.versionExternalIdentifier = $0.versionExternalIdentifier ?? zeroInSandbox($0) }),
            .same(\.receiptCreationDate, \.receiptCreationDate),
            .same(\.requestDate, \.requestDate),
            .same(\.originalPurchaseDate, \.originalPurchaseDate),
            .same(\.originalApplicationVersion, \.originalApplicationVersion),
            .same(\.preorderDate, \.preorderDate),
            Self(toModern: { _, _ in }, toLegacy: { $1.downloadId = zeroInSandbox($0) }),
        ]
    }

    /// The old world writes 0 for an identifier that there is not.
    private static func identifier(_ number: Int64?) -> Int64? { number == 0 ? nil : number }

    /// In sandbox the App Store writes 0 for each of these identifiers; elsewhere nothing is known of a missing one.
    private static func zeroInSandbox(_ app: AppTransaction) -> Int64? {
        app.receiptType == .sandbox ? 0 : nil
    }

    /// Volume purchases are told apart in the old world only.
    @Sendable private static func environment(of type: Open<ReceiptType>) -> Open<Environment>? {
        type.known.map { Open($0.environment) } ?? Open(rawValue: type.rawValue)
    }

    @Sendable private static func receiptType(of environment: Open<Environment>) -> Open<ReceiptType>? {
        switch environment.known {
        case .production: Open(.production)
        case .sandbox: Open(.productionSandbox)
        case .xcode: Open(.xcode)
        case .localTesting, nil: Open(rawValue: environment.rawValue)
        }
    }
}

// MARK: - One document

/// What a document of the old world says once for all that is in it, and each of the new world for itself.
public struct ConversionContext: Hashable, Sendable {
    public var bundleId: String?
    public var environment: Open<Environment>?

    public init(bundleId: String? = nil, environment: Open<Environment>? = nil) {
        self.bundleId = bundleId
        self.environment = environment
    }
}

extension LatestReceiptInfo {
    /// The transaction as the App Store signs it today, as far as the old world knows of it.
    ///
    /// It has no `signedDate`: nobody signed it in this form. `type` is known of subscriptions only.
    public func modern(in context: ConversionContext) -> Conversion<JWSTransactionDecodedPayload> {
        var new = JWSTransactionDecodedPayload()
        for mapping in FieldMapping.transactions { mapping.toModern(self, &new) }
        new.bundleId = context.bundleId
        new.environment = context.environment
        return Conversion(value: new, leftovers: leftovers(of: self, notIn: Self(new)))
    }

    init(_ new: JWSTransactionDecodedPayload) {
        self.init()
        for mapping in FieldMapping.transactions { mapping.toLegacy(new, &self) }
    }
}

extension JWSTransactionDecodedPayload {
    /// The transaction as verifyReceipt answers it. The app and the environment stand outside of it there, so they are left
    /// over; ``DecodedPurchases/legacy()`` has a place for them.
    public func legacy() -> Conversion<LatestReceiptInfo> {
        let old = LatestReceiptInfo(self)
        return Conversion(value: old, leftovers: leftovers(of: self, notIn: old.modern(in: ConversionContext()).value))
    }
}

extension PendingRenewalInfo {
    /// The renewal info as the App Store signs it today, as far as the old world knows of it.
    public func modern(in context: ConversionContext) -> Conversion<JWSRenewalInfoDecodedPayload> {
        var new = JWSRenewalInfoDecodedPayload()
        for mapping in FieldMapping.renewals { mapping.toModern(self, &new) }
        new.environment = context.environment
        return Conversion(value: new, leftovers: leftovers(of: self, notIn: Self(new)))
    }

    init(_ new: JWSRenewalInfoDecodedPayload) {
        self.init()
        for mapping in FieldMapping.renewals { mapping.toLegacy(new, &self) }
    }
}

extension JWSRenewalInfoDecodedPayload {
    /// The renewal info as verifyReceipt answers it. The environment stands outside of it there, so it is left over;
    /// ``DecodedPurchases/legacy()`` has a place for it.
    public func legacy() -> Conversion<PendingRenewalInfo> {
        let old = PendingRenewalInfo(self)
        return Conversion(value: old, leftovers: leftovers(of: self, notIn: old.modern(in: ConversionContext()).value))
    }
}

extension Receipt {
    /// The app's purchase as the App Store signs it today, as far as the old world knows of it; without `in_app`.
    public func modern() -> Conversion<AppTransaction> {
        var new = AppTransaction()
        for mapping in FieldMapping.apps { mapping.toModern(self, &new) }
        var old = self
        old.inApp = nil
        return Conversion(value: new, leftovers: leftovers(of: old, notIn: Self(new)))
    }

    init(_ new: AppTransaction) {
        self.init()
        for mapping in FieldMapping.apps { mapping.toLegacy(new, &self) }
    }
}

extension AppTransaction {
    /// The app's purchase as verifyReceipt answers it; without `in_app`.
    public func legacy() -> Conversion<Receipt> {
        let old = Receipt(self)
        var back = Self()
        for mapping in FieldMapping.apps { mapping.toModern(old, &back) }
        return Conversion(value: old, leftovers: leftovers(of: self, notIn: back))
    }
}

// MARK: - What is left over

/// The members of `original` that did not come back: what the other world has no words for. That it is found by going
/// there and back, and not by a second list, is why nothing can be lost in silence.
func leftovers<Value: Encodable>(of original: Value, notIn returned: Value) -> [Leftover] {
    // Neither throws: no payload holds a number that JSON cannot write.
    guard let members = try? JSONValue(encoding: original).members, let back = try? JSONValue(encoding: returned) else {
        return []
    }
    let returned = Dictionary((back.members ?? []).map { ($0.name, $0.value) }) { _, last in last }
    let missing = members.filter { member in !isSame(member.value, returned[member.name]) }
    let names = Set(missing.map(\.name))
    // An instant has three members of old; one stands for all.
    return missing.filter { member in
        !["_ms", "_pst"].contains {
            member.name.hasSuffix($0) && names.contains(String(member.name.dropLast($0.count)))
        }
    }.map { Leftover(path: $0.name, value: $0.value) }
}

/// Equal, or the same UUID: the old world writes them in capitals.
private func isSame(_ value: JSONValue, _ other: JSONValue?) -> Bool {
    if value == other { return true }
    guard let text = value.string, let other = other?.string, text.utf8.count == 36 else { return false }
    return text.lowercased() == other.lowercased()
}

extension [Leftover] {
    /// The same with `path` in front of theirs.
    func below(_ path: String) -> [Leftover] {
        map { Leftover(path: "\(path).\($0.path)", value: $0.value) }
    }
}
