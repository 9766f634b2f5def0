// SPDX-License-Identifier: Apache-2.0

/// A converted value, and the members of the original without a counterpart in the other format.
///
/// The old format (“legacy” in names) is verifyReceipt's format. The new format (“modern”) is the format of signed
/// payloads.
public struct Conversion<Value: Sendable>: Sendable {
    /// The converted value.
    public var value: Value
    /// The members that could not be converted. Converting back returns all other members.
    public var leftovers: [Leftover]

    /// A conversion with the given result.
    public init(value: Value, leftovers: [Leftover]) {
        self.value = value
        self.leftovers = leftovers
    }
}

/// A member without a counterpart in the other format.
public struct Leftover: Hashable, Sendable {
    /// The path of the member in the original document, such as `receipt.in_app[2].web_order_line_item_id`.
    public var path: String
    /// The value of the member.
    public var value: JSONValue

    /// A leftover at the given path.
    public init(path: String, value: JSONValue) {
        self.path = path
        self.value = value
    }
}

/// Converts a field, or a few related fields, in both directions. Together with ``ConversionContext``, the tables of
/// such mappings convert every row of a verifyReceipt answer: an element of `latest_receipt_info`, `in_app` or
/// `pending_renewal_info`, or the `receipt` itself.
struct FieldMapping<Legacy, Modern>: Sendable {
    let toModern: @Sendable (Legacy, inout Modern) -> Void
    let toLegacy: @Sendable (Modern, inout Legacy) -> Void

    /// A value of the same type in both formats.
    static func same<Value>(
        _ legacy: any WritableKeyPath<Legacy, Value> & Sendable,
        _ modern: any WritableKeyPath<Modern, Value> & Sendable
    ) -> Self {
        Self(
            toModern: { $1[keyPath: modern] = $0[keyPath: legacy] },
            toLegacy: { $1[keyPath: legacy] = $0[keyPath: modern] })
    }

    /// A value of a different type in each format.
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
            // After an upgrade, the old format also has a cancellation date. It becomes a `revocationDate`, although
            // the App Store itself would sign only `isUpgraded`.
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
            // The old format does not distinguish an offer paid as you go from an offer paid up front.
            new.offerType = Open(.introductory)
        }
    }

    @Sendable private static func offer(_ new: JWSTransactionDecodedPayload, _ old: inout LatestReceiptInfo) {
        old.setOffer(
            new.offerType, new.offerIdentifier, new.offerDiscountType, isFree: new.price == 0,
            isSubscription: new.expiresDate != nil)
    }

    /// Sets the fields whose values follow from other fields.
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
            // The old format has two members for price increases. `price_consent_status` is only for increases that
            // require consent, and `price_increase_status` is for all increases.
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

    /// The old format has 0 for a missing identifier.
    private static func identifier(_ number: Int64?) -> Int64? { number == 0 ? nil : number }

    /// In sandbox the App Store writes 0 for each of these identifiers. Elsewhere a missing identifier stays missing.
    private static func zeroInSandbox(_ app: AppTransaction) -> Int64? {
        app.receiptType == .sandbox ? 0 : nil
    }

    /// The environment of a receipt type. A receipt type also states whether the app was bought in the Volume Purchase
    /// Program, which is lost here, because the new format does not state it.
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

/// The values that a document in the old format states once for all its purchases. In the new format each payload
/// states them.
public struct ConversionContext: Hashable, Sendable {
    /// The bundle id of the app.
    public var bundleId: String?
    /// The environment.
    public var environment: Open<Environment>?

    /// A context with the given values.
    public init(bundleId: String? = nil, environment: Open<Environment>? = nil) {
        self.bundleId = bundleId
        self.environment = environment
    }
}

extension LatestReceiptInfo {
    /// Sets the members about the offer of a signed transaction.
    ///
    /// - Parameter isFree: Whether the price is 0.
    package mutating func setOffer(
        _ type: Open<OfferType>?, _ identifier: String?, _ discount: Open<OfferDiscountType>?, isFree: Bool,
        isSubscription: Bool
    ) {
        let isIntroductory = type == .introductory
        // If the transaction does not state how the offer was paid, a price of 0 means a trial.
        let isTrial = isIntroductory && (discount == .freeTrial || discount == nil && isFree)
        isTrialPeriod = isTrial
        if isSubscription { isInIntroOfferPeriod = isIntroductory && !isTrial }
        if type == .promotional { promotionalOfferId = identifier }
        if type == .offerCode { offerCodeRefName = identifier }
    }

    /// Converts the row to a transaction in the App Store's current form.
    ///
    /// The result has no `signedDate`, since the App Store has not signed the row in this form. It has a `type` only if
    /// the row has an expiration date, the mark of a subscription.
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
    /// Converts the transaction to a row of a verifyReceipt answer. A row of an answer names neither app nor
    /// environment, so both are leftovers. ``DecodedPurchases/legacy()`` writes them into the answer.
    public func legacy() -> Conversion<LatestReceiptInfo> {
        let old = LatestReceiptInfo(self)
        return Conversion(value: old, leftovers: leftovers(of: self, notIn: old.modern(in: ConversionContext()).value))
    }
}

extension PendingRenewalInfo {
    /// Converts the row to renewal info in the App Store's current form.
    public func modern(in context: ConversionContext) -> Conversion<JWSRenewalInfoDecodedPayload> {
        var new = JWSRenewalInfoDecodedPayload()
        for mapping in FieldMapping.renewals { mapping.toModern(self, &new) }
        new.environment = context.environment
        return Conversion(value: new, leftovers: leftovers(of: self, notIn: Self(new)))
    }

    /// The members of renewal info, as converted by ``JWSRenewalInfoDecodedPayload/legacy()``.
    package init(_ new: JWSRenewalInfoDecodedPayload) {
        self.init()
        for mapping in FieldMapping.renewals { mapping.toLegacy(new, &self) }
    }
}

extension JWSRenewalInfoDecodedPayload {
    /// Converts to pending renewal info of a verifyReceipt answer. Pending renewal info names no environment, so the
    /// environment is a leftover. ``DecodedPurchases/legacy()`` writes the environment into the answer.
    public func legacy() -> Conversion<PendingRenewalInfo> {
        let old = PendingRenewalInfo(self)
        return Conversion(value: old, leftovers: leftovers(of: self, notIn: old.modern(in: ConversionContext()).value))
    }
}

extension Receipt {
    /// Converts to the app's purchase in the App Store's current form, without `in_app`.
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
    /// Converts to the receipt of a verifyReceipt answer, without `in_app`.
    public func legacy() -> Conversion<Receipt> {
        let old = Receipt(self)
        var back = Self()
        for mapping in FieldMapping.apps { mapping.toModern(old, &back) }
        return Conversion(value: old, leftovers: leftovers(of: self, notIn: back))
    }
}

// MARK: - Leftovers

/// The members of `original` that are missing or different in `returned`, the result of converting `original` to the
/// other format and back. Comparing all members finds every loss, whereas a handwritten list could miss one.
func leftovers<Value: Encodable>(of original: Value, notIn returned: Value) -> [Leftover] {
    // Neither call throws, because every number in a payload has a JSON form.
    guard let members = try? JSONValue(encoding: original).members, let back = try? JSONValue(encoding: returned) else {
        return []
    }
    let returned = Dictionary((back.members ?? []).map { ($0.name, $0.value) }) { _, last in last }
    let missing = members.filter { member in !isSame(member.value, returned[member.name]) }
    let names = Set(missing.map(\.name))
    // An instant has three members in the old format. If the member without a suffix is lost, the members with `_ms`
    // and `_pst` are not reported.
    return missing.filter { member in
        !["_ms", "_pst"].contains {
            member.name.hasSuffix($0) && names.contains(String(member.name.dropLast($0.count)))
        }
    }.map { Leftover(path: $0.name, value: $0.value) }
}

/// Whether two values are equal, or are the same UUID: the old format writes UUIDs in capitals.
private func isSame(_ value: JSONValue, _ other: JSONValue?) -> Bool {
    if value == other { return true }
    guard let text = value.string, let other = other?.string, text.utf8.count == 36 else { return false }
    return text.lowercased() == other.lowercased()
}

extension [Leftover] {
    /// The same leftovers, with `path` in front of their paths.
    func below(_ path: String) -> [Leftover] {
        map { Leftover(path: "\(path).\($0.path)", value: $0.value) }
    }
}
