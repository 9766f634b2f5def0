// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import InputForms
import ReceiptCoding

/// A document in the input of a command.
struct Item {
    /// The line number, if the input has one document per line.
    var line: Int?
    /// The number of the document in its list; `nil` if it is not in a list.
    var number: Int?
    /// The document, or the reason why it cannot be recognised.
    var document: Result<Document, InputError>

    /// A prefix such as `line 7, document 2: `; empty if the input is one document.
    var reference: String {
        let parts = [line.map { "line \($0)" }, number.map { "document \($0)" }].compactMap(\.self)
        return parts.isEmpty ? "" : parts.joined(separator: ", ") + ": "
    }

    fileprivate static func items(_ bytes: ArraySlice<UInt8>, line: Int? = nil) -> [Item] {
        let documents = Document.documents(in: bytes)
        return documents.enumerated().map {
            Item(line: line, number: documents.count > 1 ? $0.offset + 1 : nil, document: $0.element)
        }
    }
}

/// A part of an input. A task can process each batch independently of all others.
enum Batch: Sendable {
    /// The whole input as one document.
    case document([UInt8])
    /// Whole lines, a document each, and the number of the first line.
    case lines([UInt8], first: Int)
    /// An unreadable part, and its line.
    case unreadable(InputError, line: Int?)

    /// The documents. Blank lines are skipped.
    var items: [Item] {
        switch self {
        case .document(let bytes): Item.items(bytes[...])
        case .lines: lines.flatMap { Item.items($1, line: $0) }
        case .unreadable(let error, let line): [Item(line: line, document: .failure(error))]
        }
    }

    /// The lines of a list with their numbers, without blank lines.
    var lines: [(number: Int, text: ArraySlice<UInt8>)] {
        guard case .lines(let bytes, let first) = self else { return [] }
        return bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false).enumerated()
            .filter { !$1.trimmingWhiteSpace.isEmpty }.map { (first + $0, $1) }
    }
}

/// Reads an input in batches, so that a long list is never in memory as a whole.
///
/// The input is either one document or a list with a document per line. A single document may have many lines, such as
/// wrapped base64. If the first line is a whole document and more text follows, the input is a list. Otherwise the
/// reader reads up to `Input.sizeLimit` bytes. If the input ends within this limit, it is a list if it has several
/// lines and any of them is a whole document. JSON, a PEM file or binary data is always one document here. A longer
/// input must be a list, because it exceeds the size of any document.
struct BatchReader: Sequence, IteratorProtocol {
    private var file: InputFile?
    private var failure: InputError?
    /// The bytes read so far. Those from `start` on have not been returned yet.
    private var bytes: [UInt8] = []
    private var start = 0
    /// The number of the line that begins at `start`.
    private var line = 1
    private var isList: Bool

    /// The size of a batch in bytes, unless a single line is longer. Such a batch holds some 50 tokens, which take 2 ms
    /// to verify.
    private static let size = 1 << 18

    /// Opens a file, or standard input if `path` is `-` or `nil`.
    ///
    /// - Parameter isList: Whether the input is known to be a list.
    init(_ path: String?, isList: Bool = false) {
        self.isList = isList
        do {
            file = try InputFile(path)
        } catch {
            failure = error
        }
    }

    /// Whether input is available. ``next()`` may still have to wait for the rest of a line.
    var isReady: Bool { isList && bytes.count - start > Self.size || file?.isReady ?? true }

    /// The next batch; `nil` at the end. Waits for input.
    mutating func next() -> Batch? {
        if let error = failure {
            failure = nil
            return .unreadable(error, line: nil)
        }
        do {
            if !isList, file != nil, try !findList() { return takeDocument() }
            return try isList ? nextLines() : nil
        } catch {
            file = nil
            bytes = []
            start = 0
            return .unreadable(error, line: isList ? line : nil)
        }
    }

    private mutating func read() throws(InputError) -> Bool {
        guard try file?.read(into: &bytes) == true else {
            file = nil
            return false
        }
        return true
    }
}

extension Input {
    /// Reads the documents of a file in order, or of standard input if `path` is `-` or `nil`.
    static func documents(_ path: String?) -> some Sequence<Item> {
        BatchReader(path).lazy.flatMap(\.items)
    }
}

// MARK: - One document or many

extension BatchReader {
    /// Reads until the reader knows whether the input is a list.
    private mutating func findList() throws(InputError) -> Bool {
        var isFirstLineKnown = false
        while try read() {
            if !isFirstLineKnown, let line = firstLine {
                isFirstLineKnown = true
                isList = line.isComplete
            }
            if bytes.count > Input.sizeLimit { isList = true }
            if isList { return true }
        }
        isList = Self.isList(bytes)
        return isList
    }

    /// The first line that is not blank; `nil` until more text follows the line.
    private var firstLine: ArraySlice<UInt8>? {
        guard let begin = bytes.firstIndex(where: { !$0.isWhiteSpace }),
            let end = bytes.indexOfFirst(UInt8(ascii: "\n"), from: begin),
            bytes[end...].contains(where: { !$0.isWhiteSpace })
        else { return nil }
        return bytes[begin..<end]
    }

    private static func isList(_ bytes: [UInt8]) -> Bool {
        guard !bytes[...].isBinary, JSONValue(readable: bytes) == nil else { return false }
        // The lines of a PEM file are one document.
        guard !bytes[...].trimmingWhiteSpace.starts(with: "-----BEGIN ".utf8) else { return false }
        let lines = bytes.split(separator: UInt8(ascii: "\n")).filter { !$0.trimmingWhiteSpace.isEmpty }
        return lines.count > 1 && lines.contains(where: \.isComplete)
    }

    private mutating func takeDocument() -> Batch {
        defer { bytes = [] }
        return .document(bytes)
    }
}

extension ArraySlice<UInt8> {
    /// Whether these bytes are a whole document, or a list of documents.
    fileprivate var isComplete: Bool {
        Document.documents(in: self).contains { document in
            switch document {
            // Base64 that cannot be decoded as a receipt is a part of one, such as a line of a wrapped receipt.
            case .success(.receipt(let receipt)): (try? SignedReceipt(decoding: receipt)) != nil
            case .success: true
            case .failure: false
            }
        }
    }
}

// MARK: - Lines

extension BatchReader {
    private mutating func nextLines() throws(InputError) -> Batch? {
        while true {
            if let end = endOfLines { return takeLines(to: end) }
            bytes.removeSubrange(..<start)
            start = 0
            guard bytes.count <= Input.sizeLimit else { return try skipLine() }
            guard file != nil, try read() else { return bytes.isEmpty ? nil : takeLines(to: bytes.count) }
        }
    }

    /// The end of the last line within a batch, or of the first line if this line is longer than a batch; `nil` if the
    /// line has no end yet.
    private var endOfLines: Int? {
        let newline = UInt8(ascii: "\n")
        let last = bytes[start...].prefix(Self.size).lastIndex(of: newline)
        return (last ?? bytes.indexOfFirst(newline, from: start)).map { $0 + 1 }
    }

    private mutating func takeLines(to end: Int) -> Batch {
        let batch = Batch.lines(Array(bytes[start..<end]), first: line)
        line += bytes[start..<end].countOfLineEnds
        start = end
        return batch
    }

    /// Skips a line that is too long for any document.
    private mutating func skipLine() throws(InputError) -> Batch {
        while bytes.indexOfFirst(UInt8(ascii: "\n")) == nil {
            bytes = []
            guard file != nil, try read() else { break }
        }
        start = bytes.indexOfFirst(UInt8(ascii: "\n")).map { $0 + 1 } ?? bytes.count
        defer { line += 1 }
        return .unreadable(
            InputError(description: "The line is longer than \(Input.sizeLimit >> 20) MiB, more than any document."),
            line: line)
    }
}

extension ArraySlice<UInt8> {
    fileprivate var countOfLineEnds: Int {
        var count = 0
        var rest = self
        while let index = rest.indexOfFirst(UInt8(ascii: "\n")) {
            count += 1
            rest = rest[(index + 1)...]
        }
        return count
    }
}
