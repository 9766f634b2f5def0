// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import DeflateCoding

/// Looks for documents in an input, and undoes the wrappings (such as JSON, gzip or a second base64 around a document)
/// from the outermost to the innermost.
///
/// The cost is linear, because each step reads its text a fixed number of times. Only gzip expands a text by more than
/// a factor of two: up to `Limits.inflation` times the input.
struct InputRecognition {
    private(set) var steps: [InputStep] = []
    /// The number of wrappings undone. Each level of recursion undoes a wrapping, so the limit on wrappings also limits
    /// the recursion.
    private var undone = 0
    /// The number of bytes that may still be decompressed.
    private var inflatable: Int

    /// - Parameter count: The number of bytes of the input. It bounds how much gzip inside the input may decompress to.
    init(_ count: Int) {
        inflatable = min(count * Limits.inflation, Limits.inflated)
    }

    /// The documents in a text or in binary data.
    mutating func documents(in bytes: ArraySlice<UInt8>) throws(InputFault) -> [Result<InputDocument, InputFault>] {
        var rest = bytes
        while true {
            let text = rest.trimmingWhiteSpace
            let characters = TextCharacters(text)
            if let document = try document(rest, text, characters) { return [.success(document)] }
            if let json = try json(text) { return try documents(in: json) }
            rest = try unwrapped(rest, text, characters)
        }
    }

    /// The document that makes up the whole text, as bytes or in base64 with any alphabet, padding and white space.
    /// `nil` if the text is not a document.
    private mutating func document(
        _ bytes: ArraySlice<UInt8>, _ text: ArraySlice<UInt8>, _ characters: TextCharacters
    ) throws(InputFault) -> InputDocument? {
        guard !text.isEmpty, !Self.nothings.contains(where: { text.elementsEqual($0.utf8) }) else { throw .nothing }
        // Binary data is not trimmed, because the last byte of a receipt may look like white space.
        let whole = text.first == UInt8(ascii: "{") ? text : bytes
        if characters.contains(.other), let document = try ReceiptText.document(whole) { return document }
        if let fault = Identifier.fault(text, characters) { throw fault }
        guard let (document, spelling) = try spelled(text, characters) else { return nil }
        if text.count < bytes.count, !spelling.contains(.whiteSpace) { steps.append(.whiteSpace) }
        steps += spelling
        return document
    }

    private func spelled(
        _ text: ArraySlice<UInt8>, _ characters: TextCharacters
    ) throws(InputFault) -> (InputDocument, [InputStep])? {
        if let token = try TokenText.document(text, characters) { return token }
        return try ReceiptText.document(inBase64: text, characters)
    }

    /// The spellings of "no value" in different languages.
    private static let nothings = ["null", "nil", "(null)", "undefined"]

    /// Removes the outermost wrapping of the input.
    private mutating func unwrapped(
        _ bytes: ArraySlice<UInt8>, _ text: ArraySlice<UInt8>, _ characters: TextCharacters
    ) throws(InputFault) -> ArraySlice<UInt8> {
        if bytes.isGzip { return try inflated(bytes) }
        if bytes.isUTF16 { return try undo(.utf16, Self.fromUTF16(bytes)) }
        if bytes.starts(with: Self.mark) { return try undo(.byteOrderMark, Array(bytes.dropFirst(Self.mark.count))) }
        for wrapping in Wrapping.all {
            if let inner = wrapping.undo(text) { return try undo(wrapping.step, inner) }
        }
        let decoded = characters.isDisjoint(with: [.dot, .other]) ? text.looseBase64 : nil
        if let decoded, Self.isText(decoded) || decoded[...].isGzip { return try undo(.base64, decoded) }
        throw Self.fault(text, decoded)
    }

    private mutating func undo(_ step: InputStep, _ inner: [UInt8]) throws(InputFault) -> ArraySlice<UInt8> {
        try undo(step)
        return inner[...]
    }

    private mutating func undo(_ step: InputStep) throws(InputFault) {
        guard undone < Limits.wrappings else { throw .tooManyWrappings }
        undone += 1
        steps.append(step)
    }

    private static func fault(_ text: ArraySlice<UInt8>, _ decoded: [UInt8]?) -> InputFault {
        if Identifier.isDescription(text) { return .swiftDescription }
        if ReceiptText.isReadAsText(text) { return .receiptAsText }
        if ReceiptText.isWithoutFirstCharacter(text) { return .firstCharacterLost }
        return decoded.map { .notReceipt($0.count) } ?? .unknown
    }
}

// MARK: - JSON

extension InputRecognition {
    /// The text parsed as JSON. `nil` if the text does not begin like an object or an array, or if its quotes are
    /// escaped.
    private func json(_ text: ArraySlice<UInt8>) throws(InputFault) -> JSONValue? {
        guard text.first == UInt8(ascii: "{") || text.first == UInt8(ascii: "[") else { return nil }
        do {
            return try JSONValue(parsing: text)
        } catch {
            if text.dropFirst().trimmingWhiteSpace.begins(with: "\\\"") { return nil }
            throw TokenText.isHeader(text) ? .tokenCut(in: .header) : .brokenJSON(error)
        }
    }

    private mutating func documents(in json: JSONValue) throws(InputFault) -> [Result<InputDocument, InputFault>] {
        switch WrappedJSON(json) {
        case .nothing: throw .nothing
        case .header: throw .tokenCut(in: .header)
        case .payload: throw .unsignedPayload
        case .other: throw .jsonWithoutDocument
        case .token(let text):
            try undo(.jsonToken)
            return try documents(in: Array(text.utf8)[...])
        case .member(let step, let value):
            try undo(step)
            return try documents(inMember: value)
        case .list(let step, let elements):
            try undo(step)
            return documents(inList: elements)
        }
    }

    private mutating func documents(
        inMember value: JSONValue
    ) throws(InputFault) -> [Result<InputDocument, InputFault>] {
        guard let text = value.string else { return try documents(in: value) }
        return try documents(in: Array(text.utf8)[...])
    }

    private mutating func documents(inList elements: [JSONValue]) -> [Result<InputDocument, InputFault>] {
        var found: [Result<InputDocument, InputFault>] = []
        for element in elements {
            var part = self
            do {
                found += try part.documents(inMember: element)
            } catch {
                found.append(.failure(error))
            }
            inflatable = part.inflatable
        }
        return found
    }
}

// MARK: - Encodings of text

extension InputRecognition {
    private static let mark: [UInt8] = [0xef, 0xbb, 0xbf]

    private mutating func inflated(_ bytes: ArraySlice<UInt8>) throws(InputFault) -> ArraySlice<UInt8> {
        guard let inner = Deflate.gunzip(bytes, atMost: inflatable) else { throw .brokenGzip }
        inflatable -= inner.count
        return try undo(.gzip, inner)
    }

    /// The text in UTF-8. If the number of bytes is odd, the last byte is dropped.
    private static func fromUTF16(_ bytes: ArraySlice<UInt8>) -> [UInt8] {
        let isLittle = bytes.first == 0xff
        var units: [UInt16] = []
        var rest = bytes.dropFirst(2)
        while let first = rest.popFirst(), let second = rest.popFirst() {
            units.append(isLittle ? UInt16(second) << 8 | UInt16(first) : UInt16(first) << 8 | UInt16(second))
        }
        return Array(String(decoding: units, as: UTF16.self).utf8)
    }

    /// Whether bytes are text: UTF-8 without control characters.
    private static func isText(_ bytes: [UInt8]) -> Bool {
        bytes.allSatisfy { $0 >= 0x20 && $0 != 0x7f || $0.isWhiteSpace }
            && String(validating: bytes, as: UTF8.self) != nil
    }
}
