// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import InputForms
import PurchaseLedger
import ReceiptCoding

// Names the customer of a history by a transaction id, an order id or a receipt.

/// A question for the history of an App Store customer, with the progress of the reading.
public struct HistoryQuestion: Codable, Hashable, Sendable {
    /// An order id to look up first; `nil` if the question has no order id.
    public internal(set) var order: String?
    /// The ids to ask about in turn: transaction ids, original transaction ids or app transaction ids. An id that an
    /// earlier answer contained is removed.
    public internal(set) var transactions: [String]
    /// Apple's `revision`, from which the history of the first id continues; `nil` for the beginning of the history.
    var revision: String?
    /// Whether the history of the first id was begun anew, because the App Store refused a revision. This happens once
    /// at most, because the refusals might never end.
    var hasBegunAnew = false
    /// Whether the App Store has already answered about the first id, so that a refusal contradicts this answer. `nil`
    /// means no: jobs that an earlier version stored lack this member.
    var isAnswered: Bool?
    /// Whether the last page has promised another, which then is not empty; `nil` means no.
    var hasMore: Bool?
    /// Whether an id has led to a purchase, perhaps in an earlier attempt; `nil` means no.
    var hasFound: Bool?
    /// Whether the pages read so far have a subscription.
    var hasSubscription = false
}

/// The error for a question that names no customer: a sentence.
public struct HistoryQuestionError: Error, Hashable, Sendable, CustomStringConvertible {
    /// A sentence about the cause.
    public let description: String

    /// - Parameter text: The text in place of an id.
    init(_ description: String, _ text: [UInt8] = []) {
        self.description = [description, Self.form(of: text)].compactMap(\.self).joined(separator: " ")
    }

    /// A sentence about a text in the form in which programs write tables; `nil` for any other text.
    package static func form(of text: [UInt8]) -> String? {
        let isShort = 1...HistoryQuestion.maxIdBytes ~= text.count
        // Of the two bytes of a digit, one is zero.
        let alternates = text.count > 1 && zip(text, text.dropFirst()).allSatisfy { ($0 == 0) != ($1 == 0) }
        let forms = [
            ("is in UTF-16", alternates || text.starts(with: [0xff, 0xfe]) || text.starts(with: [0xfe, 0xff])),
            ("has NUL (U+0000)", text.contains(0)),
            ("has commas", text.contains(UInt8(ascii: ","))), ("has semicolons", text.contains(UInt8(ascii: ";"))),
            ("has tabs", text.contains(UInt8(ascii: "\t"))), ("has several lines", text.contains(UInt8(ascii: "\n"))),
            ("has quotes", text.first == UInt8(ascii: "\"") || text.first == UInt8(ascii: "'")),
            ("has blanks", text.contains(UInt8(ascii: " ")) && text.contains(where: \.isDigit)),
            ("looks like a header", isShort && text.allSatisfy { "_- ".utf8.contains($0) || ($0 & ~0x20).isCapital }),
        ]
        return forms.first(where: \.1).map { "It \($0.0): write one id a line, in UTF-8, and nothing else." }
    }
}

extension HistoryQuestion {
    /// The maximum length of an id in bytes. Apple's ids have some 20 bytes. This library does not interpret them.
    static let maxIdBytes = 64

    /// The maximum number of ids from a receipt. All transactions in a receipt belong to the same customer, or to a few
    /// customers if the device changed hands. The answer about an id has the customer's other transactions too, so a
    /// few ids are enough.
    static let idsOfReceipt = 20

    /// The question without its first id.
    var withoutFirst: HistoryQuestion {
        var question = self
        question.transactions.removeFirst()
        return question
    }

    /// Creates a question about a transaction id.
    ///
    /// - Throws: ``HistoryQuestionError`` if the text is not a number of 1 to 64 digits.
    public init(transactionId: String) throws(HistoryQuestionError) {
        guard TextForm.transactionID.allows(transactionId) else {
            throw HistoryQuestionError(
                "The text is no transaction id: a transaction id has only digits.")
        }
        self.init(transactions: [transactionId])
    }

    /// Creates a question about an order id. Only production knows order ids.
    ///
    /// - Throws: ``HistoryQuestionError`` if the text has other characters than capital letters and digits, has no
    ///   letter, or is longer than 64 bytes.
    public init(orderId: String) throws(HistoryQuestionError) {
        guard Self.isOrderId(orderId) else {
            throw HistoryQuestionError(
                "The text is no order id: an order id has capital letters and digits, such as MV5G8XK2PQ.")
        }
        self.init(order: orderId, transactions: [])
    }

    /// Creates a question about the transactions in a document: an app receipt, an old transaction receipt, or a signed
    /// transaction, in any readable form. The document is not verified, because the App Store itself is asked.
    ///
    /// - Throws: ``HistoryQuestionError`` if the bytes are no such document, or the document has no transaction.
    public init(document: some Collection<UInt8>) throws(HistoryQuestionError) {
        let found = try Self.ids(in: Array(document))
        var ids: [String] = []
        for id in found where ids.count < Self.idsOfReceipt && !ids.contains(id) {
            if TextForm.transactionID.allows(id) { ids.append(id) }
        }
        guard !ids.isEmpty else { throw HistoryQuestionError("The document has no transaction.") }
        self.init(transactions: ids)
    }

    /// Recognises a transaction id, an order id or a document by its characters. White space around the text is
    /// ignored. A byte order mark before the text is ignored too, because some programs begin a file with it.
    ///
    /// - Throws: ``HistoryQuestionError`` if the text has no such form.
    public init(recognizing text: some BidirectionalCollection<UInt8>) throws(HistoryQuestionError) {
        let mark: [UInt8] = [0xef, 0xbb, 0xbf]
        let all = Array(text)[...]
        let text = Array((all.starts(with: mark) ? all.dropFirst(mark.count) : all).trimmingWhiteSpace)
        guard text.count > Self.maxIdBytes else {
            let id = String(decoding: text, as: UTF8.self)
            let isOrder = Self.isOrderId(id)
            guard isOrder || TextForm.transactionID.allows(id) else {
                throw HistoryQuestionError(
                    "The text is neither a transaction id, nor an order id, nor a receipt in base64.", text)
            }
            self.init(order: isOrder ? id : nil, transactions: isOrder ? [] : [id])
            return
        }
        try self.init(document: text)
    }
}

extension HistoryQuestion {
    /// Whether a text has the form of an order id.
    package static func isOrderId(_ text: String) -> Bool {
        text.utf8.contains(where: \.isCapital) && TextForm.orderID.allows(text)
    }

    private static func ids(in bytes: [UInt8]) throws(HistoryQuestionError) -> [String] {
        let form: InputForm
        do {
            form = try InputForm(recognizing: bytes[...])
        } catch {
            throw HistoryQuestionError(
                "The text names no customer. \(error.sentence)", error.name == .unknown ? bytes : [])
        }
        var ids: [String] = []
        for document in form.documents {
            // An unreadable document of a list is skipped, because the rest of the list names the customer too.
            if case .success(let document) = document { ids += try Self.ids(of: document) }
        }
        return ids
    }

    private static func ids(of document: InputDocument) throws(HistoryQuestionError) -> [String] {
        switch document {
        case .token(let token): return try idsOfToken(token)
        case .transactionReceipt(let bytes):
            // The form was recognised by decoding the receipt, so the receipt can be decoded.
            let purchase = (try? TransactionReceipt(decoding: bytes))?.purchase ?? [:]
            return ["original-transaction-id", "transaction-id"].compactMap { purchase[$0] }
        case .receipt(let bytes):
            do {
                let purchases = try AppReceipt(decoding: SignedReceipt(decoding: bytes).payload).inAppPurchases
                return purchases.compactMap { $0.originalTransactionId ?? $0.transactionId }
            } catch {
                throw HistoryQuestionError("The receipt cannot be read: \(error)")
            }
        }
    }

    private static func idsOfToken(_ text: [UInt8]) throws(HistoryQuestionError) -> [String] {
        // The reason why a text is no token would not help the caller.
        guard let token = try? JWS(text), let payload = JSONValue(readable: token.payload) else {
            throw HistoryQuestionError("The text is neither a receipt nor a signed transaction.")
        }
        return [payload["originalTransactionId"]?.string, payload["transactionId"]?.string].compactMap(\.self)
    }
}

extension UInt8 {
    fileprivate var isDigit: Bool { 0x30...0x39 ~= self }
    fileprivate var isCapital: Bool { 0x41...0x5a ~= self }
}
