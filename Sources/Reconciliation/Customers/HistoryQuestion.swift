// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import InputForms
import ReceiptCoding

// Which customer's history is meant: by a transaction id, an order id or a receipt.

/// Names a customer of the App Store whose history is to be read, and says how far it was read.
public struct HistoryQuestion: Codable, Hashable, Sendable {
    /// An order id whose transactions are looked up first; `nil` if there is none.
    public internal(set) var order: String?
    /// The ids to ask about in turn, unless an earlier answer had them: transaction ids, original transaction ids or
    /// app transaction ids.
    public internal(set) var transactions: [String]
    /// Where the history of the first id goes on: Apple's `revision`.
    var revision: String?
    /// Whether the App Store refused a place in the history of the first id, so that it is read from its beginning:
    /// once, or that might never end. `nil` for no.
    var hasBegunAnew: Bool?
    /// Whether the part that was read has a subscription.
    var hasSubscription = false
}

/// Why a text names no customer: a sentence.
public struct HistoryQuestionError: Error, Hashable, Sendable, CustomStringConvertible {
    /// What was expected and what was found.
    public let description: String

    init(_ description: String) {
        self.description = description
    }
}

extension HistoryQuestion {
    /// The longest id in bytes. Apple's ids have some 20, and are texts to us.
    static let maxIdBytes = 64

    /// The most ids that are taken from one receipt. All transactions in a receipt are of one customer, or of few if
    /// the device changed hands, and the answer about one id has the others of its customer.
    static let idsOfReceipt = 20

    /// The question about the ids after the first.
    var withoutFirst: HistoryQuestion {
        var question = self
        question.transactions.removeFirst()
        return question
    }

    /// Asks about an id of a transaction.
    ///
    /// - Throws: ``HistoryQuestionError`` if it is not a number.
    public init(transactionId: String) throws(HistoryQuestionError) {
        guard Self.isTransactionId(transactionId) else {
            throw HistoryQuestionError("This is no transaction id, which has only digits.")
        }
        self.init(transactions: [transactionId])
    }

    /// Asks about an order. Only production knows orders.
    ///
    /// - Throws: ``HistoryQuestionError`` if it has other characters than capital letters and digits.
    public init(orderId: String) throws(HistoryQuestionError) {
        guard Self.isOrderId(orderId) else {
            throw HistoryQuestionError("This is no order id, which has capital letters and digits, such as MV5G8XK2PQ.")
        }
        self.init(order: orderId, transactions: [])
    }

    /// Asks about the transactions in a document: an app receipt, an old transaction receipt, or a signed transaction,
    /// in any form that can be read. The document is not verified, since the App Store itself is asked.
    ///
    /// - Throws: ``HistoryQuestionError`` if it is no such document, or has no transaction.
    public init(document: some Collection<UInt8>) throws(HistoryQuestionError) {
        let found = try Self.ids(in: Array(document))
        var ids: [String] = []
        for id in found where ids.count < Self.idsOfReceipt && !ids.contains(id) {
            if Self.isTransactionId(id) { ids.append(id) }
        }
        guard !ids.isEmpty else { throw HistoryQuestionError("The document has no transaction.") }
        self.init(transactions: ids)
    }

    /// Recognises a transaction id, an order id or a document by its characters. White space around it does not count,
    /// nor a byte order mark before it, with which some programs begin a file.
    ///
    /// - Throws: ``HistoryQuestionError`` if it is none of them.
    public init(recognizing text: some BidirectionalCollection<UInt8>) throws(HistoryQuestionError) {
        let mark: [UInt8] = [0xef, 0xbb, 0xbf]
        let all = Array(text)[...]
        let text = Array((all.starts(with: mark) ? all.dropFirst(mark.count) : all).trimmingWhiteSpace)
        guard text.count > Self.maxIdBytes else {
            let id = String(decoding: text, as: UTF8.self)
            let isOrder = Self.isOrderId(id)
            guard isOrder || Self.isTransactionId(id) else {
                throw HistoryQuestionError(
                    "This is neither a transaction id, nor an order id, nor a receipt in base64.")
            }
            self.init(order: isOrder ? id : nil, transactions: isOrder ? [] : [id])
            return
        }
        try self.init(document: text)
    }
}

extension HistoryQuestion {
    /// Whether a text has the form of a transaction id.
    private static func isTransactionId(_ text: String) -> Bool {
        text.utf8.allSatisfy(\.isDigit) && 1...maxIdBytes ~= text.utf8.count
    }

    /// Whether a text has the form of an order id.
    package static func isOrderId(_ text: String) -> Bool {
        text.utf8.contains(where: \.isCapital) && text.utf8.allSatisfy { $0.isDigit || $0.isCapital }
            && text.utf8.count <= maxIdBytes
    }

    private static func ids(in bytes: [UInt8]) throws(HistoryQuestionError) -> [String] {
        let form: InputForm
        do {
            form = try InputForm(recognizing: bytes[...])
        } catch {
            throw HistoryQuestionError("This names no customer. \(error.sentence)")
        }
        var ids: [String] = []
        for document in form.documents {
            // The rest of a list names the customer too.
            if case .success(let document) = document { ids += try Self.ids(of: document) }
        }
        return ids
    }

    private static func ids(of document: InputDocument) throws(HistoryQuestionError) -> [String] {
        switch document {
        case .token(let token): return try idsOfToken(token)
        case .transactionReceipt(let bytes):
            // It was recognised by decoding it.
            let purchase = (try? TransactionReceipt(decoding: bytes))?.purchase ?? [:]
            return ["original-transaction-id", "transaction-id"].compactMap { purchase[$0] }
        case .receipt(let bytes):
            do {
                let purchases = try AppReceipt(decoding: SignedReceipt(decoding: bytes).payload).inAppPurchases
                return purchases.compactMap { $0.originalTransactionId ?? $0.transactionId }
            } catch {
                throw HistoryQuestionError("This is no receipt that can be read: \(error)")
            }
        }
    }

    private static func idsOfToken(_ text: [UInt8]) throws(HistoryQuestionError) -> [String] {
        // Why it is none says nothing more.
        guard let token = try? JWS(text), let payload = JSONValue(readable: token.payload) else {
            throw HistoryQuestionError("This is neither a receipt nor a signed transaction.")
        }
        return [payload["originalTransactionId"]?.string, payload["transactionId"]?.string].compactMap(\.self)
    }
}

extension UInt8 {
    fileprivate var isDigit: Bool { 0x30...0x39 ~= self }
    fileprivate var isCapital: Bool { 0x41...0x5a ~= self }
}
