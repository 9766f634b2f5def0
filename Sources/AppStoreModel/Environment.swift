// SPDX-License-Identifier: Apache-2.0

/// The system in which a purchase was made: Apple's `environment`.
///
/// The caller of a verifier names the accepted environments. A document's own claim is only compared with the caller's
/// list.
public enum Environment: String, CaseIterable, Sendable {
    /// Real purchases in the App Store.
    case production = "Production"
    /// The App Store's test environment, also used by TestFlight and App Review.
    case sandbox = "Sandbox"
    /// StoreKit Testing in Xcode: signed on the developer's own machine, not by Apple.
    case xcode = "Xcode"
    /// Local test data of Apple's server libraries, not signed by Apple.
    case localTesting = "LocalTesting"
}
