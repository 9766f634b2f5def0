// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import InputForms
import ReceiptCoding

/// A document in the input of a command, recognised by its content.
enum Document {
    /// An app receipt (PKCS#7).
    case receipt([UInt8])
    case transactionReceipt(TransactionReceipt, [UInt8])
    case jws([UInt8])
    /// JSON with members of interest besides any signed document inside, such as a decoded payload or a verifyReceipt
    /// answer. `signed` is the document inside, or the reason why there is none.
    indirect case json(JSONValue, signed: Result<Document, InputError>)
}

/// The reason why the input is no known document.
struct InputError: Error, CustomStringConvertible {
    var description: String
    /// The name of the recognised form; `nil` if the input cannot be read at all.
    var form: String?
}

extension InputError {
    init(_ fault: InputFault) {
        self.init(description: fault.sentence, form: fault.name.rawValue)
    }
}

extension Document {
    /// Recognises the documents in a text. Only a list has several elements, and each element is recognised or refused
    /// by itself.
    static func documents(in bytes: ArraySlice<UInt8>) -> [Result<Document, InputError>] {
        do {
            let form = try InputForm(recognizing: bytes)
            let found = form.documents.map { $0.flatMap { Document.decoded($0) }.mapError { InputError($0) } }
            if let answer = form.steps.first == .verifyReceiptAnswer ? json(bytes) : testAnswer(bytes, form) {
                return found.map { .success(.json(answer, signed: $0)) }
            }
            // No element of the list is a document, but `inspect` can show the list.
            if let first = found.first, !found.contains(where: \.isDocument), let json = json(bytes) {
                return [.success(.json(json, signed: first))]
            }
            return found
        } catch {
            let reason = InputError(error)
            return [json(bytes).map { .success(.json($0, signed: .failure(reason))) } ?? .failure(reason)]
        }
    }

    private static func decoded(_ document: InputDocument) -> Result<Document, InputFault> {
        switch document {
        case .receipt(let bytes): .success(.receipt(bytes))
        case .token(let text): .success(.jws(text))
        case .transactionReceipt(let bytes):
            // The receipt was decoded before, when its form was recognised, so this decoding succeeds.
            (try? TransactionReceipt(decoding: bytes)).map { .success(.transactionReceipt($0, bytes)) }
                ?? .failure(.unknown)
        }
    }

    /// The App Store Server API's answer about a test notification, as JSON, because it has more members than the
    /// notification.
    private static func testAnswer(_ bytes: ArraySlice<UInt8>, _ form: InputForm) -> JSONValue? {
        guard form.steps.first == .jsonMember, let json = json(bytes), json["sendAttempts"] != nil else { return nil }
        return json
    }

    /// The text as JSON, if it is an object or an array.
    private static func json(_ bytes: ArraySlice<UInt8>) -> JSONValue? {
        let mark: [UInt8] = [0xef, 0xbb, 0xbf]
        let text = (bytes.starts(with: mark) ? bytes.dropFirst(mark.count) : bytes).trimmingWhiteSpace
        guard text.first == UInt8(ascii: "{") || text.first == UInt8(ascii: "[") else { return nil }
        return JSONValue(readable: text)
    }
}

extension Result {
    fileprivate var isDocument: Bool {
        if case .success = self { true } else { false }
    }
}
