// SPDX-License-Identifier: Apache-2.0

/// Recognises texts sent in place of a document: ids of purchases, and Swift's descriptions of values.
enum Identifier {
    /// The longest id in bytes. Apple's ids have some 20 bytes.
    private static let longest = 64

    /// The most digits of an id of StoreKit Testing, which counts from 0. The App Store's ids have 15 digits or more.
    private static let xcodeDigits = 8

    /// The number of characters of an order id.
    private static let orderLength = 8...14

    static func fault(_ text: ArraySlice<UInt8>, _ characters: TextCharacters) -> InputFault? {
        if isGoogle(text, characters) { return .googlePurchaseToken }
        guard characters == .alphanumeric, text.count <= longest else { return nil }
        if text.allSatisfy(isDigit) { return text.count <= xcodeDigits ? .xcodeTransactionId : .transactionId }
        let isOrder = orderLength.contains(text.count) && text.contains(where: isDigit)
        return isOrder && text.allSatisfy { isDigit($0) || 0x41...0x5a ~= $0 } ? .orderId : nil
    }

    private static func isDigit(_ byte: UInt8) -> Bool { 0x30...0x39 ~= byte }

    /// Google Play's tokens consist of lower-case letters, a dot, and `AO-` followed by more characters.
    private static func isGoogle(_ text: ArraySlice<UInt8>, _ characters: TextCharacters) -> Bool {
        guard characters.contains(.dot), !characters.contains(.other) else { return false }
        let start = text.prefix(longest)
        guard let dot = start.firstIndex(of: UInt8(ascii: ".")), dot > start.startIndex else { return false }
        return start[..<dot].allSatisfy { 0x61...0x7a ~= $0 } && text[dot...].begins(with: ".AO-")
    }

    /// Whether the text is Swift's description of a verification result or of an optional.
    static func isDescription(_ text: ArraySlice<UInt8>) -> Bool {
        ["verified(", "unverified(", "Optional("].contains { text.starts(with: $0.utf8) }
    }
}
