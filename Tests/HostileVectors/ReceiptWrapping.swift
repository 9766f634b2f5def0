// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation
import ReceiptCoding

/// A change to the container of a genuine receipt. It needs no key, because no signature covers the container. A
/// verifier that accepts the results must return the same document for all of them.
public struct ReceiptWrapping: Sendable {
    /// The part of a vector's id after `wrapped-`.
    public var name: String
    /// The change, a sentence.
    public var description: String
    private let change: @Sendable (inout Container) -> Void

    /// The receipt in its changed container.
    public func callAsFunction(_ receipt: [UInt8]) throws -> [UInt8] {
        var container = try Container(receipt)
        change(&container)
        return container.encoded
    }

    private init(_ name: String, _ description: String, _ change: @escaping @Sendable (inout Container) -> Void) {
        (self.name, self.description, self.change) = (name, description, change)
    }

    /// All changes.
    ///
    /// - Parameter unsignedBytes: The number of bytes in each added attribute, list or parameter.
    public static func all(unsignedBytes: Int) -> [ReceiptWrapping] {
        elements(unsignedBytes) + algorithms(unsignedBytes) + certificates + lengths
    }

    /// Elements that no signature covers.
    private static func elements(_ unsignedBytes: Int) -> [ReceiptWrapping] {
        let junk = Element.leaf(0x04, [UInt8](repeating: 0x55, count: unsignedBytes))
        return [
            ReceiptWrapping("unsigned-attributes", "Unsigned attributes.") {
                $0.signerInfo.children.append(.parent(0xa1, [.parent(0x30, [junk])]))
            },
            ReceiptWrapping("revocation-lists", "A revocation list that is junk.") {
                $0.signedData.children.insert(.parent(0xa1, [.parent(0x30, [junk])]), at: 4)
            },
            ReceiptWrapping("behind-signers", "An element after the signers.") {
                $0.signedData.children.append(junk)
            },
            ReceiptWrapping("behind-signature", "An element after the signature.") {
                $0.signerInfo.children.append(junk)
            },
            ReceiptWrapping("behind-serial-number", "An element after the signer's serial number.") {
                $0.signerInfo.children[1].children.append(junk)
            },
            ReceiptWrapping("behind-content", "An element after the content.") { $0.root.children.append(junk) },
            ReceiptWrapping("behind-payload", "An element after the payload.") {
                $0.signedData.children[2].children.append(junk)
            },
            ReceiptWrapping("other-versions", "Other versions than the App Store's.") {
                $0.signedData.children[0] = .leaf(0x02, [0x00, 0x03])
                $0.signerInfo.children[0] = .leaf(0x02, [0x7f])
            },
            ReceiptWrapping("trailing-bytes", "Bytes after the receipt.") { $0.trailing = [0xde, 0xad] },
        ]
    }

    private static func algorithms(_ unsignedBytes: Int) -> [ReceiptWrapping] {
        let sha256WithRSA: [UInt8] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0b]
        return [
            ReceiptWrapping("more-digests", "Digest algorithms that the signer does not use.") {
                $0.signedData.children[1].children += [
                    .parent(0x30, [.leaf(0x06, sha256WithRSA)]),
                    .leaf(0x04, [UInt8](repeating: 0, count: unsignedBytes)),
                ]
            },
            ReceiptWrapping("no-digests", "No digest algorithms beside the signer's own.") {
                $0.signedData.children[1].children = []
            },
            ReceiptWrapping("parameters-absent", "Algorithms without parameters.") {
                $0.signerInfo.children[2].children.removeLast()
                $0.signerInfo.children[3].children.removeLast()
            },
            ReceiptWrapping("parameters-junk", "Algorithms with meaningless parameters.") {
                $0.signerInfo.children[2].children[1] = .leaf(0x04, [UInt8](repeating: 0x55, count: unsignedBytes))
                $0.signerInfo.children[3].children[1] = .leaf(0x04, [UInt8](repeating: 0x55, count: unsignedBytes))
            },
        ]
    }

    private static let certificates = [
        ReceiptWrapping("certificates-without-root", "The certificates without the root.") {
            $0.certificates = Array($0.certificates.prefix(2))
        },
        ReceiptWrapping("certificates-reversed", "The certificates in another order.") { $0.certificates.reverse() },
        ReceiptWrapping("certificates-repeated", "Each certificate three times.") {
            $0.certificates = Array(repeatElement($0.certificates, count: 3).joined())
        },
        ReceiptWrapping("certificates-junk", "Entries that are not certificates, in front and behind.") {
            let junk = Element.leaf(0x30, [UInt8](repeating: 0, count: Limits.certificate - 4))
            $0.certificates = [junk, junk] + $0.certificates + [junk]
        },
    ]

    private static let lengths = [
        ReceiptWrapping("lengths-long", "Lengths with more bytes than needed.") { $0.form = .long },
        ReceiptWrapping("lengths-indefinite", "Indefinite lengths.") { $0.form = .indefinite },
        ReceiptWrapping("payload-in-chunks", "The payload in chunks, some of them empty.") {
            let payload = $0.signedData.children[2].children[1].children[0].content
            $0.signedData.children[2].children[1].children = [
                .parent(0x24, ([[]] + payload.chunks(of: 100)).map { .leaf(0x04, $0) })
            ]
        },
        ReceiptWrapping("signature-in-chunks", "The signature in chunks, some of them empty.") {
            let signature = $0.signerInfo.children[4].content
            $0.signerInfo.children[4] = .parent(
                0x24, ([[]] + signature.chunks(of: 100)).map { .leaf(0x04, $0) })
        },
    ]
}

/// The container of a receipt as a tree that can be changed.
private struct Container {
    var root: Element
    var form = Element.LengthForm.minimal
    var trailing: [UInt8] = []

    init(_ receipt: [UInt8]) throws {
        // Every change starts from the canonical form.
        let receipt = try SignedReceipt(decoding: receipt)
        let canonical = receipt.canonical(certificates: receipt.certificates.map { Array($0) })
        guard let root = Element.parse(canonical[...], depth: 0).first else {
            throw VectorError(description: "The receipt has no elements")
        }
        self.root = root
    }

    var signedData: Element {
        get { root.children[1].children[0] }
        set { root.children[1].children[0] = newValue }
    }

    var certificates: [Element] {
        get { signedData.children[3].children }
        set { signedData.children[3].children = newValue }
    }

    var signerInfo: Element {
        get { signedData.children[signedData.children.count - 1].children[0] }
        set { signedData.children[signedData.children.count - 1].children[0] = newValue }
    }

    var encoded: [UInt8] { root.encoded(form) + trailing }
}

/// An element of BER.
private struct Element: Sendable {
    enum LengthForm {
        case minimal
        case long
        case indefinite
    }

    var tag: UInt8
    var content: [UInt8] = []
    var children: [Element] = []
    /// The whole element if it must stay unchanged: a certificate, or a part of an algorithm or a name.
    var whole: [UInt8]?

    static func leaf(_ tag: UInt8, _ content: [UInt8]) -> Element { Element(tag: tag, content: content) }

    static func parent(_ tag: UInt8, _ children: [Element]) -> Element { Element(tag: tag, children: children) }

    /// The elements of a canonical container, one after the other.
    static func parse(_ bytes: ArraySlice<UInt8>, depth: Int, isOpaque: Bool = false) -> [Element] {
        var rest = bytes
        var elements: [Element] = []
        while let tag = rest.first {
            let first = Int(rest[rest.startIndex + 1])
            let octets = first < 0x80 ? 0 : first & 0x7f
            let start = rest.startIndex + 2 + octets
            let length = rest[(rest.startIndex + 2)..<start].reduce(first < 0x80 ? first : 0) { $0 << 8 | Int($1) }
            let content = rest[start..<start + length]
            var element = Element(tag: tag)
            if isOpaque {
                element.whole = Array(rest[..<content.endIndex])
            } else if tag & 0x20 != 0 {
                // Certificates are in [0] at the third level, names and algorithms at the sixth.
                let areOpaque = depth == 3 && tag == 0xa0 || depth >= 5
                element.children = parse(content, depth: depth + 1, isOpaque: areOpaque)
            } else {
                element.content = Array(content)
            }
            elements.append(element)
            rest = rest[content.endIndex...]
        }
        return elements
    }

    func encoded(_ form: LengthForm) -> [UInt8] {
        if let whole { return whole }
        let content = tag & 0x20 == 0 ? content : DEREncoding.concatenation(children.map { $0.encoded(form) })
        switch form {
        case .minimal: return DEREncoding.element(tag, content)
        case .long: return [tag, 0x84] + (0..<4).reversed().map { UInt8(content.count >> ($0 * 8) & 0xff) } + content
        case .indefinite: return tag & 0x20 == 0 ? DEREncoding.element(tag, content) : [tag, 0x80] + content + [0, 0]
        }
    }
}
