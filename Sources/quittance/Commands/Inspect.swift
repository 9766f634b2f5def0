// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import ArgumentParser
import ReceiptCoding

/// `quittance inspect`: shows the content of a document.
struct Inspect: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Show the content of a document without verifying it.",
        discussion: """
            Reads an app receipt (binary or base64), an old transaction receipt, any compact JWS, JSON that contains \
            them, or JSON without a signature, such as a verifyReceipt response. Base64 and JSON that were changed on \
            the way are read as quittance verify reads them. A file may contain many documents, one per line or as a \
            list in JSON; each answer then names its line and its number in the list.

            Exit status: 0 shown; 2 unreadable input or wrong usage.
            """)

    @Argument(help: "The file with the document; omit it or pass - for standard input.")
    var file: String?

    @Flag(help: "Print only a JSON object per document.")
    var json = false

    func run() throws {
        var failed = false
        for item in Input.documents(file) {
            do {
                let finding = try Finding(item.document.get())
                try Terminal.print(
                    json ? finding.json(of: item) : item.reference + "Not verified: ".styled(.dim) + finding.text)
            } catch let exit as ExitCode {
                throw exit
            } catch {
                failed = true
                Terminal.report("\(item.reference)\("\(error)".printable)")
                if json { try Terminal.print(Self.json(error, of: item)) }
            }
        }
        if failed { throw ExitCode(2) }
    }

    private static func json(_ error: any Error, of item: Item) -> String {
        var writer = JSONWriter()
        writer.object { json in
            json.reference(to: item)
            json.unreadable(error as? InputError ?? InputError(description: "\(error)"))
        }
        return String(decoding: writer.bytes, as: UTF8.self)
    }
}

/// A decoded document.
private enum Finding {
    case receipt(SignedReceipt, AppReceipt)
    case transactionReceipt(TransactionReceipt)
    case token(JWS.Header, JSONValue)
    case json(JSONValue)

    init(_ document: Document) throws {
        switch document {
        case .receipt(let bytes):
            let container = try SignedReceipt(decoding: bytes)
            self = .receipt(container, try AppReceipt(decoding: container.payload))
        case .transactionReceipt(let receipt, _):
            self = .transactionReceipt(receipt)
        case .jws(let bytes):
            let jws = try JWS(bytes)
            let header = try jws.header()
            do {
                self = .token(header, try JSONValue(parsing: jws.payload))
            } catch {
                throw InputError(description: "The token's payload is not JSON: \(error).")
            }
        case .json(let json, _):
            self = .json(json)
        }
    }

    var text: String {
        switch self {
        case .receipt(let container, let receipt):
            Report.receipt(receipt, in: container)
        case .transactionReceipt(let receipt): Report.transactionReceipt(receipt)
        case .token(let header, let payload):
            Report.payload(payload, JSONDocument(recognizing: payload)) + Report.header(header)
        case .json(let json): Report.payload(json, JSONDocument(recognizing: json))
        }
    }

    func json(of item: Item) -> String {
        var writer = JSONWriter()
        writer.object { json in
            json.reference(to: item)
            switch self {
            case .receipt(let container, let receipt): json.finding(container, receipt)
            case .transactionReceipt(let receipt): json.finding(receipt)
            case .token(let header, let payload):
                json.member("kind", JSONDocument(recognizing: payload)?.kind ?? "unknown")
                json.name("header")
                json.object { json in
                    json.member("alg", header.alg)
                    json.member("kid", header.kid)
                    json.name("x5c")
                    json.array(header.x5c) { $0.string($1) }
                }
                json.name("payload")
                json.value(payload)
            case .json(let value):
                json.member("kind", JSONDocument(recognizing: value)?.kind ?? "unknown")
                json.name("payload")
                json.value(value)
            }
        }
        return String(decoding: writer.bytes, as: UTF8.self)
    }
}

extension JSONWriter {
    fileprivate mutating func finding(_ container: SignedReceipt, _ receipt: AppReceipt) {
        member("kind", SignedKind.receipt.rawValue)
        member("digestAlgorithm", "\(container.signer.digestAlgorithm)")
        member("certificates", number: Int64(container.certificates.count))
        name("payload")
        literal(Receipt(receipt, requestDate: nil).json)
        name("otherAttributes")
        array(receipt.otherAttributes) { json, attribute in
            json.object { json in
                json.member("type", number: attribute.type)
                json.member("version", number: attribute.version)
                json.member("value", Base64.encode(attribute.value))
            }
        }
    }

    fileprivate mutating func finding(_ receipt: TransactionReceipt) {
        member("kind", "transactionReceipt")
        member("environment", receipt.environment)
        name("payload")
        object { json in
            for (name, value) in receipt.purchase.sorted(by: { $0.key < $1.key }) {
                json.name(name.split(separator: "-").joined(separator: "_"))
                json.string(value)
            }
        }
    }
}
