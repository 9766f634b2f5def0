// SPDX-License-Identifier: Apache-2.0

// Endpoints for groups of customers and for the seats of multi-seat subscriptions (App Store Server API 1.22 and 1.23),
// so far in the sandbox only. Apple documents no rates for seats.

public import AppStoreModel

extension Endpoint where Answer == CustomerGroupsResponse {
    /// Get Customer Groups: a customer's groups.
    public static func customerGroups(_ anyTransactionId: String) -> Self {
        let row = EndpointRow(
            name: "Get Customer Groups", request: .init("GET", "/groups/v1/currentGroups/*", [anyTransactionId]),
            rate: 50, environments: [.sandbox])
        return Self(row, requiring: "groups")
    }
}

extension Endpoint where Answer == GroupMembersResponse {
    /// Get Group Members: a page of a group's members.
    ///
    /// - Parameter limit: The maximum number of members per page: 1 to 100. If `nil`, Apple chooses.
    public static func groupMembers(_ groupId: String, limit: Int? = nil) -> Self {
        var request = APIRequest("GET", "/groups/v1/group/*", [groupId])
        if let limit { request.add("limit", ["\(limit)"]) }
        let row = EndpointRow(name: "Get Group Members", request: request, rate: 50, environments: [.sandbox])
        return Self(row, requiring: "hasMore", "members")
    }
}

extension Endpoint where Answer == SeatClaimResponse {
    /// Claim a seat of a subscription. Reuse the body's request identifier only to repeat the request.
    public static func claimSeat(_ body: SeatClaimRequest, of transactionId: String) -> Self {
        let row = EndpointRow(
            name: "Claim Seat", request: .init("POST", "/groups/v1/transactions/*/seats", [transactionId]), rate: 1,
            environments: [.sandbox])
        return Self(row.with(body), requiring: "seatClaimId")
    }
}

extension Endpoint where Answer == SeatsResponse {
    /// The seats of a subscription.
    public static func seats(of transactionId: String) -> Self {
        let row = EndpointRow(
            name: "List Seats", request: .init("GET", "/groups/v1/transactions/*/seats", [transactionId]), rate: 1,
            environments: [.sandbox])
        return Self(row, requiring: "assignedSeatClaimIds")
    }
}

extension Endpoint where Answer == Void {
    /// Gives a seat back.
    public static func unclaimSeat(_ seatClaimId: String, of transactionId: String) -> Self {
        let request = APIRequest("DELETE", "/groups/v1/transactions/*/seats/*", [transactionId, seatClaimId])
        return Self(EndpointRow(name: "Unclaim Seat", request: request, rate: 1, environments: [.sandbox]))
    }

    /// Gives a seat to a member.
    public static func associateSeat(
        _ seatClaimId: String, of transactionId: String, with body: SeatAssociationRequest
    ) -> Self {
        let row = EndpointRow(
            name: "Associate Seat",
            request: .init("POST", "/groups/v1/transactions/*/seats/*/associate", [transactionId, seatClaimId]),
            rate: 1, environments: [.sandbox], repetition: .ifUnanswered)
        return Self(row.with(body))
    }
}
