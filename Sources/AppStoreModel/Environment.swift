// SPDX-License-Identifier: Apache-2.0

/// Where a purchase was made: Apple's `environment`.
///
/// The caller of a verifier names the environments that it accepts. A document's own claim is only compared with those.
public enum Environment: String, CaseIterable, Sendable {
    /// Real purchases in the App Store.
    case production = "Production"
    /// The App Store's test environment, used by TestFlight and App Review too.
    case sandbox = "Sandbox"
    /// StoreKit Testing in Xcode: signed on the developer's own machine, not by Apple.
    case xcode = "Xcode"
    /// Local test data, in Apple's server libraries. Not signed by Apple.
    case localTesting = "LocalTesting"
}
