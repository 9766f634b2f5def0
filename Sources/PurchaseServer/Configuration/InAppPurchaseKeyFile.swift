// SPDX-License-Identifier: Apache-2.0

package import AppStoreAPI
import Foundation

/// Where the In-App Purchase key of an app is: its file, and the names under which App Store Connect lists it.
public struct InAppPurchaseKeyFile: Hashable, Sendable {
    /// The path of the `.p8` file from App Store Connect.
    public var file: String
    /// The key's id: ten upper-case letters and digits.
    public var keyId: String
    /// The issuer id of the App Store Connect account: a UUID.
    public var issuerId: String

    /// A key that is in this file.
    public init(file: String, keyId: String, issuerId: String) {
        self.file = file
        self.keyId = keyId
        self.issuerId = issuerId
    }

    /// What to do if the file's name has another key's id; `nil` if it does not. App Store Connect names the file of a
    /// key by its id.
    package var nameWarning: String? {
        let name = file.split(separator: "/").last ?? ""
        guard let match = name.wholeMatch(of: /(?:AuthKey|SubscriptionKey)_([A-Z0-9]{10})\.p8/), match.1 != keyId else {
            return nil
        }
        return "\(file): By its name this is the key \(match.1), but keyId is \(keyId). One of them is wrong."
    }

    /// The longest file that is read, in bytes: many times a key's 260.
    private static let maxFileBytes = 16 << 10

    /// The permissions that other users of the machine must not have. The group may have them: Kubernetes gives a
    /// container's group access to its secrets.
    private static let ofOthers: mode_t = 0o007

    /// Reads the key. No error contains anything of the file.
    ///
    /// - Throws: ``KeyFileError`` if the file cannot be read, if other users of the machine have access to it, or if it
    ///   is not a `.p8` file.
    package func read() throws(KeyFileError) -> InAppPurchaseKey {
        let text = String(decoding: try contents(), as: UTF8.self)
        do {
            return try InAppPurchaseKey(id: keyId, issuer: issuerId, pem: text)
        } catch {
            throw failure(error.description)
        }
    }

    private func failure(_ message: String) -> KeyFileError { KeyFileError(file: file, message: message) }

    /// The permissions are those of the file that is opened, so that no other file can take its place in between.
    private func contents() throws(KeyFileError) -> [UInt8] {
        // Without O_NONBLOCK, a pipe would be waited for.
        let descriptor = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { throw failure(String(cString: strerror(errno))) }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw failure(String(cString: strerror(errno))) }
        guard status.st_mode & S_IFMT == S_IFREG else { throw failure("It is not a file.") }
        guard status.st_mode & Self.ofOthers == 0 else {
            let mode = String(status.st_mode & 0o777, radix: 8)
            throw failure(
                "Other users of this machine have access to it (mode 0\(mode)). Run chmod o= on it, or mount it 0440.")
        }
        var bytes = [UInt8](repeating: 0, count: Self.maxFileBytes + 1)
        let count = bytes.withUnsafeMutableBytes { Foundation.read(descriptor, $0.baseAddress, $0.count) }
        guard count >= 0 else { throw failure(String(cString: strerror(errno))) }
        guard count <= Self.maxFileBytes else { throw failure("It is too long for a key.") }
        return Array(bytes.prefix(count))
    }
}

/// Why a key could not be read from its file. It contains nothing of the file.
package struct KeyFileError: Error, CustomStringConvertible {
    /// The path of the file.
    package var file: String
    /// What is wrong: a sentence.
    package var message: String

    package var description: String { "\(file): \(message)" }
}
