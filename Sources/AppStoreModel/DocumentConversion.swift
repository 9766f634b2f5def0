// SPDX-License-Identifier: Apache-2.0

/// Everything that a verifyReceipt answer says, in the payloads of today.
public struct DecodedPurchases: Codable, Hashable, Sendable {
    public var appTransaction: AppTransaction?
    public var transactions: [JWSTransactionDecodedPayload]
    public var renewalInfo: [JWSRenewalInfoDecodedPayload]

    public init(
        appTransaction: AppTransaction? = nil, transactions: [JWSTransactionDecodedPayload] = [],
        renewalInfo: [JWSRenewalInfoDecodedPayload] = []
    ) {
        self.appTransaction = appTransaction
        self.transactions = transactions
        self.renewalInfo = renewalInfo
    }
}

extension VerifyReceiptResponse {
    /// The answer in the payloads of today.
    ///
    /// A purchase that stands both in `latest_receipt_info` and in `in_app` becomes one transaction, by the former: it is
    /// the fresher one.
    public func modern() -> Conversion<DecodedPurchases> {
        let environment = environment ?? receipt?.receiptType?.known.map { Open($0.environment) }
        let context = ConversionContext(bundleId: receipt?.bundleId, environment: environment)
        var result = Conversion(value: DecodedPurchases(), leftovers: [])
        if let app = receipt?.modern() {
            result.value.appTransaction = app.value
            result.leftovers += app.leftovers(below: "receipt")
        }
        result.add(latestReceiptInfo ?? [], "latest_receipt_info", context)
        result.add(receipt?.inApp ?? [], "receipt.in_app", context)
        for (index, pending) in (pendingRenewalInfo ?? []).enumerated() {
            let renewal = pending.modern(in: context)
            result.value.renewalInfo.append(renewal.value)
            result.leftovers += renewal.leftovers(below: "pending_renewal_info[\(index)]")
        }
        var rest = self
        (rest.receipt, rest.latestReceiptInfo, rest.pendingRenewalInfo) = (nil, nil, nil)
        var returned = VerifyReceiptResponse()
        (returned.status, returned.environment) = (Open(.valid), self.environment)
        result.leftovers += AppStoreModel.leftovers(of: rest, notIn: returned)
        return result
    }
}

extension Conversion<DecodedPurchases> {
    fileprivate mutating func add(_ rows: [LatestReceiptInfo], _ path: String, _ context: ConversionContext) {
        let known = Dictionary(value.transactions.map { ($0.transactionId, $0) }) { first, _ in first }
        for (index, row) in rows.enumerated() {
            let below = "\(path)[\(index)]"
            if row.transactionId != nil, let fresher = known[row.transactionId] {
                let rest = AppStoreModel.leftovers(of: row, notIn: LatestReceiptInfo(fresher))
                leftovers += Conversion<Void>(value: (), leftovers: rest).leftovers(below: below)
            } else {
                let transaction = row.modern(in: context)
                value.transactions.append(transaction.value)
                leftovers += transaction.leftovers(below: below)
            }
        }
    }
}

extension DecodedPurchases {
    /// The payloads as one verifyReceipt answer.
    ///
    /// `latest_receipt_info` and `pending_renewal_info` are there when there is a subscription, `receipt.in_app` always, with
    /// the members that the App Store gives it.
    public func legacy() -> Conversion<VerifyReceiptResponse> {
        var result = Conversion(value: VerifyReceiptResponse(status: .valid), leftovers: [])
        var rows: [LatestReceiptInfo] = []
        for (index, transaction) in transactions.enumerated() {
            let row = transaction.legacy()
            rows.append(row.value)
            result.leftovers += row.leftovers(below: "transactions[\(index)]")
        }
        for (index, renewal) in renewalInfo.enumerated() {
            let pending = renewal.legacy()
            result.value.pendingRenewalInfo = (result.value.pendingRenewalInfo ?? []) + [pending.value]
            result.leftovers += pending.leftovers(below: "renewalInfo[\(index)]")
        }
        let app = appTransaction?.legacy()
        result.leftovers += app?.leftovers(below: "appTransaction") ?? []
        result.value.receipt = app?.value ?? Receipt()
        if app == nil { result.value.receipt?.bundleId = transactions.first?.bundleId }
        result.value.receipt?.inApp = rows.map(\.inApp)
        if rows.contains(where: { $0.expiresDate != nil }) { result.value.latestReceiptInfo = rows }
        result.value.environment = (transactions.first?.environment ?? appTransaction?.receiptType)
        return result
    }
}

extension LatestReceiptInfo {
    /// The row as it stands in `in_app`.
    fileprivate var inApp: LatestReceiptInfo {
        var row = self
        row.isUpgraded = nil
        row.offerCodeRefName = nil
        row.subscriptionGroupIdentifier = nil
        row.appAccountToken = nil
        return row
    }
}

// MARK: - The iOS 6 style

extension TransactionReceiptInfo {
    /// The purchase as the App Store signs it today, as far as a transaction receipt knows of it.
    ///
    /// - Parameter environment: As the answer around it says; the receipt's own word is not signed.
    public func modern(environment: Open<Environment>?) -> Conversion<JWSTransactionDecodedPayload> {
        var unified = LatestReceiptInfo()
        for mapping in FieldMapping.transactionReceipts { mapping.toModern(self, &unified) }
        let transaction = unified.modern(in: .init(bundleId: bid, environment: environment)).value
        var back = TransactionReceiptInfo()
        for mapping in FieldMapping.transactionReceipts { mapping.toLegacy(LatestReceiptInfo(transaction), &back) }
        back.bid = transaction.bundleId
        return Conversion(value: transaction, leftovers: leftovers(of: self, notIn: back))
    }
}

extension FieldMapping where Legacy == TransactionReceiptInfo, Modern == LatestReceiptInfo {
    /// The flat `receipt` of the iOS 6 style ⇄ `latest_receipt_info`.
    static var transactionReceipts: [Self] {
        [
            .same(\.productId, \.productId),
            .same(\.quantity, \.quantity),
            .same(\.transactionId, \.transactionId),
            .same(\.originalTransactionId, \.originalTransactionId),
            .same(\.purchaseDate, \.purchaseDate),
            .same(\.originalPurchaseDate, \.originalPurchaseDate),
            .same(\.expiresDate, \.expiresDate),
            .same(\.cancellationDate, \.cancellationDate),
            .same(\.webOrderLineItemId, \.webOrderLineItemId),
            .same(\.isTrialPeriod, \.isTrialPeriod),
            .same(\.isInIntroOfferPeriod, \.isInIntroOfferPeriod),
            .same(\.subscriptionGroupIdentifier, \.subscriptionGroupIdentifier),
            .same(\.inAppOwnershipType, \.inAppOwnershipType),
        ]
    }
}

extension VerifyTransactionReceiptResponse {
    /// The answer in the payloads of today.
    public func modern() -> Conversion<DecodedPurchases> {
        let environment = environment
        var result = Conversion(value: DecodedPurchases(), leftovers: [])
        for (path, info) in [
            ("latest_receipt_info", latestReceiptInfo), ("latest_expired_receipt_info", latestExpiredReceiptInfo),
            ("receipt", receipt),
        ] {
            guard let transaction = info?.modern(environment: environment) else { continue }
            result.leftovers += transaction.leftovers(below: path)
            // If the receipt that was sent is the newest one, it stands there twice.
            guard !result.value.transactions.contains(transaction.value) else { continue }
            result.value.transactions.append(transaction.value)
        }
        var pending = PendingRenewalInfo()
        pending.autoRenewStatus = autoRenewStatus
        pending.autoRenewProductId = autoRenewProductId
        pending.expirationIntent = expirationIntent
        pending.isInBillingRetryPeriod = isInBillingRetryPeriod
        let newest = latestReceiptInfo ?? latestExpiredReceiptInfo ?? receipt
        if pending != PendingRenewalInfo() {
            pending.productId = newest?.productId
            pending.originalTransactionId = newest?.originalTransactionId
            result.value.renewalInfo = [
                pending.modern(in: .init(bundleId: newest?.bid, environment: environment)).value
            ]
        }
        var rest = VerifyTransactionReceiptResponse()
        (rest.latestReceipt, rest.cancellationReason, rest.unknownMembers) = (
            latestReceipt, cancellationReason, unknownMembers
        )
        if status != .valid { rest.status = status }
        result.leftovers += AppStoreModel.leftovers(of: rest, notIn: VerifyTransactionReceiptResponse())
        return result
    }
}

extension ResponseBodyV1 {
    /// The purchases of the notification in the payloads of today.
    public func modern() -> Conversion<DecodedPurchases> {
        var response = VerifyReceiptResponse(status: .valid, environment: modernEnvironment)
        response.latestReceiptInfo = unifiedReceipt?.latestReceiptInfo
        response.pendingRenewalInfo = unifiedReceipt?.pendingRenewalInfo
        // The app is named outside of the purchases.
        var app = Receipt()
        app.bundleId = bid
        response.receipt = app
        var result = response.modern()
        result.value.appTransaction = nil
        var rest = self
        rest.bid = nil
        rest.environment = nil
        rest.unifiedReceipt?.latestReceiptInfo = nil
        rest.unifiedReceipt?.pendingRenewalInfo = nil
        rest.unifiedReceipt?.environment = nil
        result.leftovers += AppStoreModel.leftovers(of: rest, notIn: ResponseBodyV1())
        return result
    }
}
