// SPDX-License-Identifier: Apache-2.0

/// Why bytes are no valid receipt.
public struct ReceiptDecodingError: Error, Hashable, Sendable, CustomStringConvertible {
    /// What was expected and what was found.
    public var message: String
    /// The number of bytes before the fault in the value that was read, if known.
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
