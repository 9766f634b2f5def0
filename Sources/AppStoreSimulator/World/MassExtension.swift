// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// The extension of all subscriptions of a product. The App Store extends the subscriptions some time after the
/// request.
public struct MassExtension: Hashable, Sendable {
    /// The id of the product.
    public var product: String
    /// The number of days: 1 to 90.
    public var days: Int
    /// Production or sandbox.
    public var environment: Environment
    /// ISO 3166-1 alpha-3 codes; `nil` for all countries.
    public var countries: [String]?
    /// The time at which the extension was complete; `nil` before.
    public internal(set) var completeDate: Timestamp?
    /// The counts of extended and failed subscriptions; `nil` before the extension is complete.
    public internal(set) var summary: NotificationSummary?

    /// The delay between request and extension in production, in minutes. Apple says that an extension takes hours to
    /// days. In the sandbox the delay is a minute, so that tests need not wait.
    private static let minutes: Int64 = 120
    private static let sandboxMinutes: Int64 = 1

    /// The due time of an extension that is requested now.
    func due(from now: Timestamp) -> Timestamp {
        now.adding(minutes: environment == .production ? Self.minutes : Self.sandboxMinutes)
    }
}
