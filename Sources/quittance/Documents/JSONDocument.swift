// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// A JSON object that was recognised as one of Apple's payloads, requests or responses, with the members known to this
/// version.
struct JSONDocument {
    /// The kind in JSON output.
    let kind: String
    /// The kind in output for people.
    let title: String
    /// The document without its unknown members.
    let known: JSONValue
}

extension JSONDocument {
    /// Recognises a document; `nil` if its kind is unknown.
    ///
    /// A signed payload is recognised by members that only its kind has. Any other document is of the kind that knows
    /// most of its members, provided that the kind knows more than half of them.
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

    private static func known(_ kind: SignedKind, _ json: JSONValue) throws -> JSONValue {
        let type = signed.first { $0.signedKind == kind }
        return try type.map { try known(json, $0) } ?? json
    }

    private static let signed: [any (SignedPayload & Codable).Type] = [
        JWSTransactionDecodedPayload.self, JWSRenewalInfoDecodedPayload.self, AppTransaction.self,
        ResponseBodyV2DecodedPayload.self, DecodedRealtimeRequestBody.self,
    ]

    private static func known<Payload: Codable & SendableMetatype>(
        _ json: JSONValue, _ type: Payload.Type
    ) throws -> JSONValue {
        try JSONValue(encoding: json.decode(type), omittingUnknown: true)
    }

    /// A kind of document without a signature.
    private struct Candidate: Sendable {
        let kind: String
        let title: String
        /// Whether a document can be of this kind, if its members alone do not decide.
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
            // If the type cannot decode a document, the document is of a different kind.
            known = { try? JSONDocument.known($0, Payload.self) }
        }
    }

    /// The candidates in order of preference. If two kinds know equally many members of a document, the first kind is
    /// chosen.
    private static let candidates: [Candidate] =
        [
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
        ] + named.map { Candidate($0) }

    /// The kinds with Apple's own names.
    private static let named: [any (Codable & SendableMetatype).Type] = [
        APIErrorResponse.self, TransactionInfoResponse.self, StatusResponse.self,
        SubscriptionGroupIdentifierItem.self, AdvancedCommerceSubscriptionResponse.self, LastTransactionsItem.self,
        AppTransactionInfoResponse.self, UpdateAppAccountTokenRequest.self, OrderLookupResponse.self,
        RefundHistoryResponse.self, HistoryResponse.self, ExtendRenewalDateRequest.self,
        ExtendRenewalDateResponse.self, MassExtendRenewalDateRequest.self, MassExtendRenewalDateResponse.self,
        MassExtendRenewalDateStatusResponse.self, NotificationHistoryRequest.self, NotificationHistoryResponse.self,
        SendTestNotificationResponse.self, CheckTestNotificationResponse.self, CustomerGroupsResponse.self,
        GroupMembersResponse.self, SeatClaimRequest.self, SeatClaimResponse.self, SeatsResponse.self,
        SeatAssociationRequest.self, ConsumptionRequest.self, ConsumptionRequestV1.self, RealtimeResponseBody.self,
        UploadMessageRequestBody.self, GetImageListResponse.self, GetMessageListResponse.self,
        DefaultConfiguration.self, RealtimeURL.self, PerformanceTestRequest.self, PerformanceTestResponse.self,
        PerformanceTestResultResponse.self, NotificationData.self, NotificationSummary.self,
        ExternalPurchaseToken.self, NotificationAppData.self, AdvancedCommerceDescriptors.self,
        AdvancedCommerceOffer.self, AdvancedCommerceRequestInfo.self, AdvancedCommerceSubscriptionCancelRequest.self,
        AdvancedCommerceSubscriptionChangeMetadataRequest.self,
        AdvancedCommerceSubscriptionChangeMetadataDescriptors.self,
        AdvancedCommerceSubscriptionChangeMetadataItem.self, AdvancedCommerceSubscriptionPriceChangeRequest.self,
        AdvancedCommerceSubscriptionPriceChangeItem.self, AdvancedCommerceSubscriptionMigrateRequest.self,
        AdvancedCommerceSubscriptionMigrateItem.self, AdvancedCommerceSubscriptionRevokeRequest.self,
        AdvancedCommerceRequestRefundRequest.self, AdvancedCommerceRequestRefundItem.self,
        AdvancedCommerceRequestRefundResponse.self, AdvancedCommerceOneTimeChargeCreateRequest.self,
        AdvancedCommerceOneTimeChargeItem.self, AdvancedCommerceSubscriptionCreateRequest.self,
        AdvancedCommerceSubscriptionCreateItem.self, AdvancedCommerceSubscriptionModifyInAppRequest.self,
        AdvancedCommerceSubscriptionModifyAddItem.self, AdvancedCommerceSubscriptionModifyChangeItem.self,
        AdvancedCommerceSubscriptionItemReference.self, AdvancedCommerceSubscriptionModifyPeriodChange.self,
        AdvancedCommerceSubscriptionReactivateInAppRequest.self,
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
