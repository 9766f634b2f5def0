// SPDX-License-Identifier: Apache-2.0

/// The stored form of a document. The first byte says which form it is; a value never gets another meaning.
enum DocumentContent {
    /// The document itself follows.
    private static let plain: UInt8 = 0

    static func encode(_ document: [UInt8]) -> [UInt8] { [plain] + document }

    /// - Returns: `nil` for a form that this version does not know.
    static func decode(_ content: [UInt8]) -> [UInt8]? {
        content.first == plain ? Array(content.dropFirst()) : nil
    }
}
