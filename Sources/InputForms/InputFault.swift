// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// The reason why an input contains no verifiable document: the name of the input's form, and a sentence.
package struct InputFault: Error, Hashable, Sendable {
    /// The forms that are recognised but not accepted. Logs and answers contain the name.
    package enum Name: String, CaseIterable, Sendable {
        /// An empty input, `null`, or an empty object or list.
        case nothing
        /// The beginning of a receipt.
        case receiptCut
        /// A document followed by more text.
        case severalDocuments
        /// A receipt without its first character.
        case firstCharacterLost
        /// A receipt's bytes decoded as text.
        case receiptAsText
        /// The beginning of a token.
        case tokenCut
        /// The header and the payload of a token.
        case tokenWithoutSignature
        /// The payload of a token.
        case unsignedPayload
        /// Swift's description of a value.
        case swiftDescription
        case transactionId
        case orderId
        case xcodeTransactionId
        case googlePurchaseToken
        /// Text that begins like JSON.
        case brokenJSON
        case jsonWithoutDocument
        /// gzip that is damaged or expands too far.
        case brokenGzip
        /// A document in more wrappings, such as JSON in base64 in gzip, than `Limits.wrappings`.
        case tooManyWrappings
        case unknown
    }

    /// The name of the form.
    package let name: Name
    /// A sentence that says what was found and what to send instead. It does not quote the input.
    package let sentence: String

    private init(_ name: Name, _ sentence: String) {
        self.name = name
        self.sentence = sentence
    }
}

extension InputFault {
    static let nothing = InputFault(.nothing, "Nothing was sent: the document is empty or null.")

    /// - Parameter length: The length stated by the receipt's head, or `nil` for an indefinite length.
    static func receiptCut(_ count: Int, of length: Int?) -> InputFault {
        let present =
            length.map { "\(count) of its \($0) bytes are there" } ?? "\(count) bytes are there, and no end"
        return InputFault(.receiptCut, "The receipt is cut off: \(present). Is the column or field too short?")
    }

    static let severalDocuments = InputFault(
        .severalDocuments, "More follows after the document: send several documents as a list.")

    static let firstCharacterLost = InputFault(
        .firstCharacterLost,
        "The receipt's first character was lost: base64 of a receipt begins with M. Send all of it.")

    static let receiptAsText = InputFault(
        .receiptAsText,
        "The receipt's bytes were read as text on the way, and are damaged: send base64.")

    /// The parts of a token, in their order.
    enum TokenPart: String {
        case header, payload
    }

    static func tokenCut(in part: TokenPart) -> InputFault {
        InputFault(
            .tokenCut,
            "The token is cut off in its \(part), and has no signature: ES256 has 64 bytes. "
                + "Is the column or field too short?")
    }

    /// - Parameter count: The number of the signature's bytes in the token.
    static func signatureCut(_ count: Int) -> InputFault {
        InputFault(
            .tokenCut,
            "The token's signature is cut off: the signature has \(count) bytes, ES256 has 64 bytes. "
                + "Is the column or field too short?")
    }

    static let tokenWithoutSignature = InputFault(
        .tokenWithoutSignature,
        "The token has a header and a payload and no signature: ES256 has 64 bytes, the part after the "
            + "second dot. Send all three parts.")

    static let unsignedPayload = InputFault(
        .unsignedPayload,
        "The input is a decoded payload without a signature: send jwsRepresentation with its three parts.")

    static let swiftDescription = InputFault(
        .swiftDescription, "The input is Swift's description of a value: send its jwsRepresentation.")

    static let transactionId = InputFault(
        .transactionId, "The input is a transaction id and no document. \(appStoreKnows)")

    static let orderId = InputFault(.orderId, "The input is an order id and no document. \(appStoreKnows)")

    private static let appStoreKnows =
        "The App Store Server API knows the id: ask with quittance app-store, or bring the purchase in with a backfill."

    static let xcodeTransactionId = InputFault(
        .xcodeTransactionId,
        "This is a transaction id of StoreKit Testing in Xcode, which no server knows: send jwsRepresentation.")

    static let googlePurchaseToken = InputFault(
        .googlePurchaseToken,
        "The input is a purchase token of Google Play. Only the App Store's documents are read here.")

    static func brokenJSON(_ error: JSONError) -> InputFault {
        InputFault(.brokenJSON, "The text begins like JSON but is not: \(error).")
    }

    static let jsonWithoutDocument = InputFault(
        .jsonWithoutDocument,
        "No member of this JSON is one in which documents are sent: send the value of jwsRepresentation, or an app "
            + "receipt in base64, by itself.")

    static let brokenGzip = InputFault(
        .brokenGzip,
        "The input is gzip, and is damaged or expands too far: send the document uncompressed.")

    static let tooManyWrappings = InputFault(
        .tooManyWrappings,
        "The document is in more than \(Limits.wrappings) wrappings: send the document as the device gives it.")

    /// A text of no known form.
    package static let unknown = InputFault(
        .unknown, "The input is neither a signed transaction (three parts with dots) nor an app receipt in base64.")

    /// - Parameter count: The number of bytes in the base64.
    static func notReceipt(_ count: Int) -> InputFault {
        InputFault(
            .unknown,
            "If this is base64, it has \(count) \(count == 1 ? "byte" : "bytes"), and they are no receipt. A signed "
                + "transaction has three parts with dots.")
    }
}
