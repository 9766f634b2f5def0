// SPDX-License-Identifier: Apache-2.0

/// The purchases of a document as payloads in the App Store's current form.
public struct DecodedPurchases: Codable, Hashable, Sendable {
    /// The purchase of the app.
    public var appTransaction: AppTransaction?
    /// The transactions, in the document's order.
    public var transactions: [JWSTransactionDecodedPayload]
    /// The renewal info of each subscription.
    public var renewalInfo: [JWSRenewalInfoDecodedPayload]
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    /// A document with the given payloads.
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
    /// Converts the answer to payloads in the App Store's current form.
    ///
    /// A purchase in both `latest_receipt_info` and `in_app` becomes one transaction. The transaction comes from
    /// `latest_receipt_info`, because its element about the purchase is newer.
    public func modern() -> Conversion<DecodedPurchases> {
        let known = environment ?? receipt?.receiptType?.known.map { Open($0.environment) }
        let context = ConversionContext(bundleId: receipt?.bundleId, environment: known)
        var result = Conversion(value: DecodedPurchases(), leftovers: [])
        if let app = receipt?.modern() {
            result.value.appTransaction = app.value
            result.leftovers += app.leftovers.below("receipt")
        }
        result.add(latestReceiptInfo ?? [], "latest_receipt_info", context)
        if let rows = receipt?.inApp, !rows.isEmpty {
            result.add(rows, "receipt.in_app", context)
            // The new format does not state which purchases were in the receipt itself.
            let ids = rows.compactMap(\.transactionId).map(JSONValue.string)
            if latestReceiptInfo != nil {
                result.leftovers.append(Leftover(path: "receipt.in_app", value: .array(ids)))
            }
        }
        result.add(pendingRenewalInfo ?? [], "pending_renewal_info", context)
        var rest = self
        rest.receipt = nil
        rest.latestReceiptInfo = nil
        rest.pendingRenewalInfo = nil
        var returned = VerifyReceiptResponse(status: .valid)
        if result.value.names(environment) { returned.environment = environment }
        result.leftovers += AppStoreModel.leftovers(of: rest, notIn: returned)
        return result
    }
}

extension DecodedPurchases {
    /// Whether a payload names `environment`.
    fileprivate func names(_ environment: Open<Environment>?) -> Bool {
        let all = transactions.map(\.environment) + renewalInfo.map(\.environment) + [appTransaction?.receiptType]
        return all.contains(environment)
    }
}

extension Conversion<DecodedPurchases> {
    fileprivate mutating func add(_ rows: [LatestReceiptInfo], _ path: String, _ context: ConversionContext) {
        let known = Dictionary(value.transactions.map { ($0.transactionId, $0) }) { first, _ in first }
        for (index, row) in rows.enumerated() {
            if row.transactionId != nil, let fresher = known[row.transactionId] {
                let rest = AppStoreModel.leftovers(of: row, notIn: LatestReceiptInfo(fresher))
                leftovers += rest.below("\(path)[\(index)]")
            } else {
                let transaction = row.modern(in: context)
                value.transactions.append(transaction.value)
                leftovers += transaction.leftovers.below("\(path)[\(index)]")
            }
        }
    }

    fileprivate mutating func add(_ pending: [PendingRenewalInfo], _ path: String, _ context: ConversionContext) {
        for (index, info) in pending.enumerated() {
            let renewal = info.modern(in: context)
            value.renewalInfo.append(renewal.value)
            leftovers += renewal.leftovers.below("\(path)[\(index)]")
        }
    }
}

extension DecodedPurchases {
    /// Converts the payloads to a verifyReceipt answer.
    ///
    /// If there is a subscription, all transactions are in `latest_receipt_info`. `in_app` is then left out, because
    /// the payloads do not say which purchases a receipt contained. Otherwise all transactions are in `in_app`,
    /// because the App Store sends no `latest_receipt_info` without a subscription. The transactions in `in_app` have
    /// only the members that the App Store writes there.
    public func legacy() -> Conversion<VerifyReceiptResponse> {
        var response = VerifyReceiptResponse(status: .valid)
        response.receipt = appTransaction.map(Receipt.init) ?? Receipt()
        if appTransaction == nil { response.receipt?.bundleId = transactions.first?.bundleId }
        response.environment =
            transactions.first?.environment ?? renewalInfo.first?.environment ?? appTransaction?.receiptType
        let rows = transactions.map(LatestReceiptInfo.init)
        if rows.contains(where: { $0.expiresDate != nil }) || !renewalInfo.isEmpty {
            response.latestReceiptInfo = rows
        } else {
            response.receipt?.inApp = rows.map(\.inApp)
        }
        if !renewalInfo.isEmpty { response.pendingRenewalInfo = renewalInfo.map(PendingRenewalInfo.init) }
        return Conversion(value: response, leftovers: leftovers(after: response))
    }

    /// The members that are lost if `response` is converted back.
    private func leftovers(after response: VerifyReceiptResponse) -> [Leftover] {
        let context = ConversionContext(bundleId: response.receipt?.bundleId, environment: response.environment)
        let rows = response.latestReceiptInfo ?? response.receipt?.inApp ?? []
        var found: [Leftover] = []
        if let appTransaction, let back = response.receipt?.modern().value {
            found += AppStoreModel.leftovers(of: appTransaction, notIn: back).below("appTransaction")
        }
        for (index, (transaction, row)) in zip(transactions, rows).enumerated() {
            found += AppStoreModel.leftovers(of: transaction, notIn: row.modern(in: context).value)
                .below("transactions[\(index)]")
        }
        for (index, (renewal, pending)) in zip(renewalInfo, response.pendingRenewalInfo ?? []).enumerated() {
            found += AppStoreModel.leftovers(of: renewal, notIn: pending.modern(in: context).value)
                .below("renewalInfo[\(index)]")
        }
        return found + unknownMembers.members.map { Leftover(path: $0.name, value: $0.value) }
    }
}

extension LatestReceiptInfo {
    /// The transaction with only the members that the App Store writes in `in_app`.
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
    /// Converts to a transaction in the App Store's current form.
    ///
    /// - Parameter environment: The environment of the answer that contains this purchase.
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
    /// Converts the answer to payloads in the App Store's current form.
    public func modern() -> Conversion<DecodedPurchases> {
        var result = Conversion(value: DecodedPurchases(), leftovers: [])
        result.add(latestReceiptInfo, "latest_receipt_info", environment)
        result.add(latestExpiredReceiptInfo, "latest_expired_receipt_info", environment)
        result.add(receipt, "receipt", environment)
        let newest = latestReceiptInfo ?? latestExpiredReceiptInfo ?? receipt
        if cancellationReason != nil, !result.value.transactions.isEmpty {
            result.value.transactions[0].revocationReason = cancellationReason
        }
        var pending = PendingRenewalInfo()
        pending.autoRenewStatus = autoRenewStatus
        pending.autoRenewProductId = autoRenewProductId
        pending.expirationIntent = expirationIntent
        pending.isInBillingRetryPeriod = isInBillingRetryPeriod
        if pending != PendingRenewalInfo() {
            pending.productId = newest?.productId
            pending.originalTransactionId = newest?.originalTransactionId
            result.value.renewalInfo = [pending.modern(in: .init(environment: environment)).value]
        }
        var rest = VerifyTransactionReceiptResponse()
        rest.latestReceipt = latestReceipt
        rest.unknownMembers = unknownMembers
        if result.value.transactions.isEmpty { rest.cancellationReason = cancellationReason }
        if !result.value.names(environment) { rest.environment = environment }
        if status != .valid { rest.status = status }
        result.leftovers += AppStoreModel.leftovers(of: rest, notIn: VerifyTransactionReceiptResponse())
        return result
    }
}

extension Conversion<DecodedPurchases> {
    fileprivate mutating func add(_ info: TransactionReceiptInfo?, _ path: String, _ environment: Open<Environment>?) {
        guard let transaction = info?.modern(environment: environment) else { return }
        leftovers += transaction.leftovers.below(path)
        // If the receipt in the request is the newest receipt, the answer contains the purchase twice.
        guard !value.transactions.contains(transaction.value) else { return }
        value.transactions.append(transaction.value)
    }
}

extension ResponseBodyV1 {
    /// Converts the notification's purchases to payloads in the App Store's current form.
    public func modern() -> Conversion<DecodedPurchases> {
        let environment = modernEnvironment.map { Open($0) } ?? unifiedReceipt?.environment
        let context = ConversionContext(bundleId: bid, environment: environment)
        var result = Conversion(value: DecodedPurchases(), leftovers: [])
        result.add(unifiedReceipt?.latestReceiptInfo ?? [], "unified_receipt.latest_receipt_info", context)
        result.add(unifiedReceipt?.pendingRenewalInfo ?? [], "unified_receipt.pending_renewal_info", context)
        result.add(latestReceiptInfo, "latest_receipt_info", environment)
        result.add(latestExpiredReceiptInfo, "latest_expired_receipt_info", environment)

        var rest = self
        // Old notifications have the renewal only at the top level. Notifications with a unified receipt also have it
        // inside the receipt.
        if result.value.renewalInfo.isEmpty, autoRenewStatus != nil || autoRenewProductId != nil {
            var renewal = JWSRenewalInfoDecodedPayload()
            renewal.autoRenewStatus = autoRenewStatus.map { Open($0 ? .on : .off) }
            renewal.autoRenewProductId = autoRenewProductId
            renewal.expirationIntent = expirationIntent
            renewal.originalTransactionId = originalTransactionId
            renewal.environment = environment
            result.value.renewalInfo = [renewal]
            rest.autoRenewStatus = nil
            rest.autoRenewProductId = nil
            rest.expirationIntent = nil
            rest.originalTransactionId = nil
        }
        if result.value.transactions.contains(where: { $0.bundleId == bid }) { rest.bid = nil }
        if modernEnvironment != nil, result.value.names(environment) { rest.environment = nil }
        rest.latestReceiptInfo = nil
        rest.latestExpiredReceiptInfo = nil
        let unified = rest.unifiedReceipt
        rest.unifiedReceipt = nil
        result.leftovers += AppStoreModel.leftovers(of: rest, notIn: ResponseBodyV1())
        if var unified {
            unified.latestReceiptInfo = nil
            unified.pendingRenewalInfo = nil
            if result.value.names(unified.environment) { unified.environment = nil }
            if unified.status == .valid { unified.status = nil }
            result.leftovers += AppStoreModel.leftovers(of: unified, notIn: UnifiedReceipt()).below("unified_receipt")
        }
        return result
    }
}
