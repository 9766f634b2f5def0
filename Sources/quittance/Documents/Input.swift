// SPDX-License-Identifier: Apache-2.0

import Foundation

/// Reads a file or standard input.
enum Input {
    /// The maximum size in bytes of one document, or of a file that is read whole. The largest documents are
    /// verifyReceipt answers, with some 10 MB.
    static let sizeLimit = 32 << 20

    /// Reads all of a file, a pipe or standard input.
    static func read(_ path: String?) throws(InputError) -> [UInt8] {
        let file = try InputFile(path)
        var bytes: [UInt8] = []
        while try file.read(into: &bytes) {
            guard bytes.count <= sizeLimit else {
                throw InputError(description: "\(file.name) is larger than \(sizeLimit >> 20) MiB.")
            }
        }
        return bytes
    }
}

/// An open file, pipe or terminal that is read to its end.
struct InputFile {
    /// The file's path or `standard input`, for errors.
    let name: String
    private let descriptor: Int32

    /// The maximum number of bytes that one call of ``read(into:)`` adds.
    private static let chunk = 1 << 18

    /// Opens a file, or standard input if `path` is `-` or `nil`.
    init(_ path: String?) throws(InputError) {
        let isStandardInput = path == nil || path == "-"
        name = isStandardInput ? "standard input" : path ?? ""
        descriptor = isStandardInput ? STDIN_FILENO : open(name, O_RDONLY)
        guard descriptor >= 0 else { throw error }
    }

    private var error: InputError {
        InputError(description: "Cannot read \(name): \(String(cString: strerror(errno))).")
    }

    /// Appends the available bytes, and waits if none are available yet.
    ///
    /// - Returns: `false` at the end of the file, which is then closed.
    func read(into bytes: inout [UInt8]) throws(InputError) -> Bool {
        var count = 0
        let chunk = [UInt8](unsafeUninitializedCapacity: Self.chunk) { buffer, initialized in
            repeat {
                count = Foundation.read(descriptor, buffer.baseAddress, Self.chunk)
            } while count < 0 && errno == EINTR
            initialized = max(0, count)
        }
        guard count >= 0 else { throw error }
        bytes += chunk
        if count == 0 { close(descriptor) }
        return count > 0
    }

    /// Whether ``read(into:)`` would return at once.
    var isReady: Bool {
        var request = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        return poll(&request, 1, 0) != 0
    }
}
