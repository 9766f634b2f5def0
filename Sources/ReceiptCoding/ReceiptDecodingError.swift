// SPDX-License-Identifier: Apache-2.0

/// Why bytes are no valid receipt.
public struct ReceiptDecodingError: Error, Hashable, Sendable, CustomStringConvertible {
    /// What was expected and what was found.
    public var message: String
    /// Where the fault is: how many bytes precede it in the bytes that were being decoded; `nil` if unknown.
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
