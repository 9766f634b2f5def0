// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// The extension of all subscriptions of a product, which the App Store carries out some time after the request.
public struct MassExtension: Hashable, Sendable {
    /// The product.
    public var product: String
    /// 1 to 90.
    public var days: Int
    /// Production or sandbox.
    public var environment: Environment
    /// ISO 3166-1 alpha-3 codes; `nil` for all.
    public var countries: [String]?
    /// When it was carried out; `nil` before that.
    public internal(set) var completeDate: Timestamp?
    /// How many were extended; `nil` before that.
    public internal(set) var summary: NotificationSummary?

    /// How long the App Store takes. Apple says hours to days; the sandbox is not to be waited for.
    private static let minutes: Int64 = 120
    private static let sandboxMinutes: Int64 = 1

    /// When it is carried out that was asked for at this time.
    func due(from now: Timestamp) -> Timestamp {
        now.adding(minutes: environment == .production ? Self.minutes : Self.sandboxMinutes)
    }
}
