// SPDX-License-Identifier: Apache-2.0

package import AppStoreAPI
import AppStoreTrust
import Synchronization

/// Signs for the configured apps, with their In-App Purchase keys.
public final class AppSigning: Sendable {
    /// Returns a new UUID in lower case at each call.
    let nonce: @Sendable () -> String
    private let keys: Mutex<[String: InAppPurchaseKey]>

    /// - Parameters:
    ///   - keys: The keys by the bundle ids of their apps.
    ///   - nonce: Returns a UUID in lower case that it never returned before.
    package init(keys: [String: InAppPurchaseKey] = [:], nonce: @escaping @Sendable () -> String) {
        self.keys = Mutex(keys)
        self.nonce = nonce
    }

    /// The key of an app; `nil` if the app has no key. Do not keep the result: ``replaceKeys(_:)`` may replace the key.
    package func key(of bundleId: String) -> InAppPurchaseKey? { keys.withLock { $0[bundleId] } }

    /// The keys of all apps, by bundle id.
    package var allKeys: [String: InAppPurchaseKey] { keys.withLock { $0 } }

    /// The signer for an app; `nil` if the app has no key.
    package func signer(for bundleId: String) -> StoreKitSigner? {
        key(of: bundleId).map { StoreKitSigner(key: $0, bundleId: bundleId) }
    }

    /// Replaces the keys of all apps.
    package func replaceKeys(_ new: [String: InAppPurchaseKey]) { keys.withLock { $0 = new } }

    /// Reads the key files of apps. The result has the keys by bundle id, without the apps that have no key.
    ///
    /// - Throws: ``KeyFileError`` for the first unreadable key.
    package static func keys(of apps: [AppConfiguration]) throws(KeyFileError) -> [String: InAppPurchaseKey] {
        var keys: [String: InAppPurchaseKey] = [:]
        for app in apps { keys[app.identity.bundleId] = try app.inAppPurchaseKey?.read() }
        return keys
    }
}
