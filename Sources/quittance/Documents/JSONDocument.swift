// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// The kind of a JSON object among Apple's payloads, requests and responses, with the members that this version knows.
struct JSONDocument {
    /// The kind in JSON output.
    let kind: String
    /// The kind in output for people.
    let title: String
    /// The document without the members that this version does not know.
    let known: JSONValue

    /// Recognises a document; `nil` if it is of no known kind.
    ///
    /// A signed payload is recognised by members that only its kind has. Any other document is of the kind that knows
    /// most of its members, if that is more than half.
    init?(recognizing json: JSONValue) {
        if let kind = SignedKind(recognizing: json) {
            do {
                self.init(kind: kind.rawValue, title: kind.title, known: try Self.known(kind, json))
            } catch {
                let reason = (error as? DecodingError)?.sentence ?? "\(error)"
                self.init(
                    kind: kind.rawValue, title: "\(kind.title) that cannot be read: \(reason.printable)", known: json)
            }
            return
        }
        var best: (count: Int, candidate: Candidate, known: JSONValue)?
        for candidate in Self.candidates where candidate.applies(json) {
            guard let known = candidate.known(json) else { continue }
            let count = json.members?.count { known[$0.name] != nil } ?? 0
            if count > best?.count ?? 0 { best = (count, candidate, known) }
        }
        guard let best, best.count * 2 > json.members?.count ?? 0 else { return nil }
        self.init(kind: best.candidate.kind, title: best.candidate.title, known: best.known)
    }

    private init(kind: String, title: String, known: JSONValue) {
        self.kind = kind
        self.title = title
        self.known = known
    }

    private static func known(_ kind: SignedKind, _ json: JSONValue) throws -> JSONValue {
        switch kind {
        case .transaction: try known(json, JWSTransactionDecodedPayload.self)
        case .renewalInfo: try known(json, JWSRenewalInfoDecodedPayload.self)
        case .appTransaction: try known(json, AppTransaction.self)
        case .notification: try known(json, ResponseBodyV2DecodedPayload.self)
        case .retentionRequest: try known(json, DecodedRealtimeRequestBody.self)
        case .receipt: json
        }
    }

    private static func known<Payload: Codable & SendableMetatype>(
        _ json: JSONValue, _ type: Payload.Type
    ) throws -> JSONValue {
        try JSONValue(encoding: json.decode(type), omittingUnknown: true)
    }

    /// A kind of document without a signature.
    private struct Candidate: Sendable {
        let kind: String
        let title: String
        /// Whether a document can be of this kind, if its members do not say it.
        let applies: @Sendable (JSONValue) -> Bool
        let known: @Sendable (JSONValue) -> JSONValue?

        /// - Parameter title: The kind in output for people; Apple's own name by default.
        init<Payload: Codable & SendableMetatype>(
            _ type: Payload.Type, _ title: String? = nil,
            if applies: @escaping @Sendable (JSONValue) -> Bool = { _ in true }
        ) {
            kind = "\(type)"
            self.title = title ?? "\(type)"
            self.applies = applies
            known = { try? JSONDocument.known($0, Payload.self) }
        }
    }

    /// If two kinds know equally many members of a document, the first in this list counts.
    private static let candidates: [Candidate] = [
        Candidate(
            VerifyTransactionReceiptResponse.self, "verifyReceipt answer in the iOS 6 style",
            if: VerifyTransactionReceiptResponse.isTransactionReceiptStyle),
        Candidate(VerifyReceiptResponse.self, "verifyReceipt answer"),
        Candidate(ResponseBodyV1.self, "version 1 server notification"),
        Candidate(UnifiedReceipt.self, "unified receipt of a version 1 notification"),
        Candidate(Receipt.self, "receipt of a verifyReceipt answer"),
        Candidate(LatestReceiptInfo.self, "purchase of a verifyReceipt answer"),
        Candidate(PendingRenewalInfo.self, "renewal of a verifyReceipt answer"),
        Candidate(TransactionReceiptInfo.self, "purchase in the iOS 6 style"),
        Candidate(VerifyReceiptRequest.self, "verifyReceipt request"),
        Candidate(DecodedPurchases.self, "converted purchases"),
        Candidate(APIErrorResponse.self),
        Candidate(TransactionInfoResponse.self),
        Candidate(StatusResponse.self),
        Candidate(SubscriptionGroupIdentifierItem.self),
        Candidate(AdvancedCommerceSubscriptionResponse.self),
        Candidate(LastTransactionsItem.self),
        Candidate(AppTransactionInfoResponse.self),
        Candidate(UpdateAppAccountTokenRequest.self),
        Candidate(OrderLookupResponse.self),
        Candidate(RefundHistoryResponse.self),
        Candidate(HistoryResponse.self),
        Candidate(ExtendRenewalDateRequest.self),
        Candidate(ExtendRenewalDateResponse.self),
        Candidate(MassExtendRenewalDateRequest.self),
        Candidate(MassExtendRenewalDateResponse.self),
        Candidate(MassExtendRenewalDateStatusResponse.self),
        Candidate(NotificationHistoryRequest.self),
        Candidate(NotificationHistoryResponse.self),
        Candidate(SendTestNotificationResponse.self),
        Candidate(CheckTestNotificationResponse.self),
        Candidate(CustomerGroupsResponse.self),
        Candidate(GroupMembersResponse.self),
        Candidate(SeatClaimRequest.self),
        Candidate(SeatClaimResponse.self),
        Candidate(SeatsResponse.self),
        Candidate(SeatAssociationRequest.self),
        Candidate(ConsumptionRequest.self),
        Candidate(ConsumptionRequestV1.self),
        Candidate(RealtimeResponseBody.self),
        Candidate(UploadMessageRequestBody.self),
        Candidate(GetImageListResponse.self),
        Candidate(GetMessageListResponse.self),
        Candidate(DefaultConfiguration.self),
        Candidate(RealtimeURL.self),
        Candidate(PerformanceTestRequest.self),
        Candidate(PerformanceTestResponse.self),
        Candidate(PerformanceTestResultResponse.self),
        Candidate(NotificationData.self),
        Candidate(NotificationSummary.self),
        Candidate(ExternalPurchaseToken.self),
        Candidate(NotificationAppData.self),
        Candidate(AdvancedCommerceDescriptors.self),
        Candidate(AdvancedCommerceOffer.self),
        Candidate(AdvancedCommerceRequestInfo.self),
        Candidate(AdvancedCommerceSubscriptionCancelRequest.self),
        Candidate(AdvancedCommerceSubscriptionChangeMetadataRequest.self),
        Candidate(AdvancedCommerceSubscriptionChangeMetadataDescriptors.self),
        Candidate(AdvancedCommerceSubscriptionChangeMetadataItem.self),
        Candidate(AdvancedCommerceSubscriptionPriceChangeRequest.self),
        Candidate(AdvancedCommerceSubscriptionPriceChangeItem.self),
        Candidate(AdvancedCommerceSubscriptionMigrateRequest.self),
        Candidate(AdvancedCommerceSubscriptionMigrateItem.self),
        Candidate(AdvancedCommerceSubscriptionRevokeRequest.self),
        Candidate(AdvancedCommerceRequestRefundRequest.self),
        Candidate(AdvancedCommerceRequestRefundItem.self),
        Candidate(AdvancedCommerceRequestRefundResponse.self),
        Candidate(AdvancedCommerceOneTimeChargeCreateRequest.self),
        Candidate(AdvancedCommerceOneTimeChargeItem.self),
        Candidate(AdvancedCommerceSubscriptionCreateRequest.self),
        Candidate(AdvancedCommerceSubscriptionCreateItem.self),
        Candidate(AdvancedCommerceSubscriptionModifyInAppRequest.self),
        Candidate(AdvancedCommerceSubscriptionModifyAddItem.self),
        Candidate(AdvancedCommerceSubscriptionModifyChangeItem.self),
        Candidate(AdvancedCommerceSubscriptionItemReference.self),
        Candidate(AdvancedCommerceSubscriptionModifyPeriodChange.self),
        Candidate(AdvancedCommerceSubscriptionReactivateInAppRequest.self),
    ]
}

extension SignedKind {
    var title: String {
        switch self {
        case .receipt: "app receipt"
        case .transaction: "transaction"
        case .renewalInfo: "renewal info"
        case .appTransaction: "app transaction"
        case .notification: "server notification"
        case .retentionRequest: "retention messaging request"
        }
    }
}
