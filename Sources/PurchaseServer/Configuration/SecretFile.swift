// SPDX-License-Identifier: Apache-2.0

import Foundation

/// A file with a secret, which other users of the machine must not be able to read.
struct SecretFile {
    /// The path of the file.
    var path: String
    /// The maximum size of the file in bytes. A longer file is probably the wrong one.
    var maxBytes: Int
    /// The name of the content, for errors.
    var content: String

    /// The permissions of users who are neither the owner nor in the group. The file must not grant any of them. The
    /// group may have permissions, because Kubernetes gives a container's group access to its secrets.
    private static let ofOthers: mode_t = 0o007

    /// The content of the file. The permissions are checked on the open descriptor, so that no other file can take the
    /// file's place between the check and the reading (TOCTOU).
    ///
    /// - Throws: ``KeyFileError``, which contains nothing of the file.
    func read() throws(KeyFileError) -> [UInt8] {
        // Without O_NONBLOCK, `open` would block if the file is a named pipe.
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
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
        var bytes = [UInt8](repeating: 0, count: maxBytes + 1)
        let count = bytes.withUnsafeMutableBytes { Foundation.read(descriptor, $0.baseAddress, $0.count) }
        guard count >= 0 else { throw failure(String(cString: strerror(errno))) }
        guard count <= maxBytes else { throw failure("The file is too long for \(content).") }
        return Array(bytes.prefix(count))
    }

    func failure(_ message: String) -> KeyFileError { KeyFileError(file: path, message: message) }
}

/// The reason why the file of a key or a secret could not be read. The error contains no content of the file.
package struct KeyFileError: Error, CustomStringConvertible {
    /// The path of the file.
    package var file: String
    /// The fault, as a sentence.
    package var message: String

    package var description: String { "\(file): \(message)" }
}
