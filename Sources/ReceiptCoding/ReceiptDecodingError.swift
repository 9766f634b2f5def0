// SPDX-License-Identifier: Apache-2.0

/// Why bytes are no receipt.
public struct ReceiptDecodingError: Error, Hashable, Sendable, CustomStringConvertible {
    /// What was expected and what was found.
    public var message: String
    /// Where: bytes from the start of the value that was read, where that helps.
    public var offset: Int?

    init(_ message: String, offset: Int? = nil) {
        self.message = message
        self.offset = offset
    }

    public var description: String {
        guard let offset else { return message }
        return "\(message) (at byte \(offset))"
    }
}
