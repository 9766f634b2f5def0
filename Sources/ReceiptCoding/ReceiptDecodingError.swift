// SPDX-License-Identifier: Apache-2.0

/// The reason why bytes are not a valid receipt.
public struct ReceiptDecodingError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The fault, in most cases with the expected value and the value found.
    public var message: String
    /// The number of bytes before the fault in the decoded bytes; `nil` if unknown.
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
