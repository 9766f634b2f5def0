// SPDX-License-Identifier: Apache-2.0

package import AppStoreAPI

/// The file with the In-App Purchase key of an app, and the ids of the key in App Store Connect.
public struct InAppPurchaseKeyFile: Hashable, Sendable {
    /// The path of the `.p8` file from App Store Connect.
    public var file: String
    /// The key's id: ten upper-case letters and digits.
    public var keyId: String
    /// The issuer id of the App Store Connect account: a UUID.
    public var issuerId: String

    /// Creates a reference to a key in a file.
    public init(file: String, keyId: String, issuerId: String) {
        self.file = file
        self.keyId = keyId
        self.issuerId = issuerId
    }

    /// A warning if the file's name contains the id of a different key; otherwise `nil`. App Store Connect names the
    /// file of a key by the key's id.
    package var nameWarning: String? {
        let name = file.split(separator: "/").last ?? ""
        guard let match = name.wholeMatch(of: /(?:AuthKey|SubscriptionKey)_([A-Z0-9]{10})\.p8/), match.1 != keyId else {
            return nil
        }
        return "\(file): By its name this is the key \(match.1), but keyId is \(keyId). One of them is wrong."
    }

    /// The maximum size of the file in bytes: a key has about 260.
    private static let maxFileBytes = 16 << 10

    /// Reads the key. No error contains any content of the file.
    ///
    /// - Throws: ``KeyFileError`` if the file is unreadable or not a `.p8` file, or if other users of the machine have
    ///   access to the file.
    package func read() throws(KeyFileError) -> InAppPurchaseKey {
        let file = SecretFile(path: file, maxBytes: Self.maxFileBytes, content: "a key")
        let text = String(decoding: try file.read(), as: UTF8.self)
        do {
            return try InAppPurchaseKey(id: keyId, issuer: issuerId, pem: text)
        } catch {
            throw file.failure(error.description)
        }
    }
}
