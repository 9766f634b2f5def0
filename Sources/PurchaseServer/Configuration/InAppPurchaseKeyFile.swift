// SPDX-License-Identifier: Apache-2.0

package import AppStoreAPI
import Foundation

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

    /// The permissions of users who are neither the owner nor in the group. The file must not grant any of them. The
    /// group may have permissions, because Kubernetes gives a container's group access to its secrets.
    private static let ofOthers: mode_t = 0o007

    /// Reads the key. No error contains any content of the file.
    ///
    /// - Throws: ``KeyFileError`` if the file is unreadable or not a `.p8` file, or if other users of the machine have
    ///   access to the file.
    package func read() throws(KeyFileError) -> InAppPurchaseKey {
        let text = String(decoding: try contents(), as: UTF8.self)
        do {
            return try InAppPurchaseKey(id: keyId, issuer: issuerId, pem: text)
        } catch {
            throw failure(error.description)
        }
    }

    private func failure(_ message: String) -> KeyFileError { KeyFileError(file: file, message: message) }

    /// The content of the file. The permissions are checked on the open descriptor, so that no other file can take the
    /// file's place between the check and the reading (TOCTOU).
    private func contents() throws(KeyFileError) -> [UInt8] {
        // Without O_NONBLOCK, `open` would block if the file is a named pipe.
        let descriptor = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { throw failure(String(cString: strerror(errno))) }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw failure(String(cString: strerror(errno))) }
        guard status.st_mode & S_IFMT == S_IFREG else { throw failure("The path is not a file.") }
        guard status.st_mode & Self.ofOthers == 0 else {
            let mode = String(status.st_mode & 0o777, radix: 8)
            throw failure(
                "Other users of this machine have access to it (mode 0\(mode)). Run chmod o= on the file, or "
                    + "mount the file 0440.")
        }
        var bytes = [UInt8](repeating: 0, count: Self.maxFileBytes + 1)
        let count = bytes.withUnsafeMutableBytes { Foundation.read(descriptor, $0.baseAddress, $0.count) }
        guard count >= 0 else { throw failure(String(cString: strerror(errno))) }
        guard count <= Self.maxFileBytes else { throw failure("The file is too long for a key.") }
        return Array(bytes.prefix(count))
    }
}

/// The reason why a key could not be read. The error contains no content of the file.
package struct KeyFileError: Error, CustomStringConvertible {
    /// The path of the file.
    package var file: String
    /// The fault, as a sentence.
    package var message: String

    package var description: String { "\(file): \(message)" }
}
