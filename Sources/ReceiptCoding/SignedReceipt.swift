// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// The container of an app receipt, decoded but not verified: PKCS#7 `SignedData` (RFC 5652 section 5).
///
/// The signature covers only the payload. All containers of the App Store have the same shape:
///
/// - DER, with version 1 in `SignedData` and in `SignerInfo`;
/// - one digest algorithm, and NULL as the parameters of each algorithm;
/// - three certificates: leaf, intermediate and root;
/// - one signer, identified by issuer and serial number;
/// - no attributes and no revocation lists.
///
/// Xcode's containers differ: they are BER with indefinite lengths and a payload in chunks, and have only the leaf
/// certificate.
///
/// A container of another shape is refused if the difference affects the signer or the signed bytes. Otherwise the
/// container is accepted, and `canonical(certificates:)` drops the difference.
///
/// - *refused*: signed attributes, no signer or several, a signer identified by its key identifier, another content
///   type, a serial number that is negative or has needless leading zeros, more than `Limits.certificates`
///   certificates, a certificate longer than `Limits.certificate`;
/// - *dropped*: unsigned attributes, revocation lists, certificates outside the signer's chain, elements after the
///   known elements, bytes after the receipt, other versions, digest algorithms other than the signer's,
///   `sha256WithRSAEncryption` in place of `rsaEncryption`, other parameters of an algorithm, and other encodings of
///   lengths and strings.
public struct SignedReceipt: Sendable {
    /// The signed bytes: a SET of receipt attributes.
    public let payload: ArraySlice<UInt8>

    /// The certificates in the document, each as DER, in the document's order.
    public let certificates: [ArraySlice<UInt8>]

    /// The signer, the algorithms and the signature.
    public let signer: Signer

    /// The contents of the only `SignerInfo`.
    public struct Signer: Sendable {
        /// The issuer of the signer's certificate: a DER `Name`.
        public let issuer: ArraySlice<UInt8>
        /// The serial number of the signer's certificate: the contents of an INTEGER.
        public let serialNumber: ArraySlice<UInt8>
        /// The algorithm of the payload's digest.
        public let digestAlgorithm: OID
        /// The algorithm of the signature.
        public let signatureAlgorithm: OID
        /// The signature's bytes.
        public let signature: ArraySlice<UInt8>
    }
}

extension SignedReceipt {
    /// Decodes a receipt's container. Bytes after the container are ignored, as the App Store ignores them.
    ///
    /// - Throws: ``ReceiptDecodingError`` if the bytes are no receipt.
    public init(decoding bytes: some Sequence<UInt8>) throws(ReceiptDecodingError) {
        try self.init(Array(bytes)[...])
    }

    /// Decodes a container like `init(decoding:)`, but returns `nil` instead of an error.
    package init?(validating bytes: some Sequence<UInt8>) {
        do { try self.init(decoding: bytes) } catch { return nil }
    }

    private init(_ bytes: ArraySlice<UInt8>) throws(ReceiptDecodingError) {
        guard bytes.count <= Limits.receipt else {
            throw ReceiptDecodingError("\(bytes.count) bytes are more than a receipt may have (\(Limits.receipt))")
        }
        var outer = BERReader(bytes)
        var contentInfo = BERReader(in: try outer.next(BERTag.sequence, "PKCS#7 ContentInfo", in: bytes))
        try contentInfo.expect(.signedData, "content type", in: bytes)
        var explicit = BERReader(in: try contentInfo.next(BERTag.context0, "content", in: bytes))
        var signedData = BERReader(in: try explicit.next(BERTag.sequence, "SignedData", in: bytes))

        _ = try signedData.integer("SignedData version", in: bytes)
        _ = try signedData.next(BERTag.set, "set of digest algorithms", in: bytes)

        var encapsulated = BERReader(in: try signedData.next(BERTag.sequence, "encapsulated content", in: bytes))
        try encapsulated.expect(.data, "encapsulated content type", in: bytes)
        var content = BERReader(in: try encapsulated.next(BERTag.context0, "encapsulated content", in: bytes))
        payload = try content.octetString("payload", in: bytes)

        let certificates = try signedData.next(BERTag.context0, "certificates", in: bytes)
        self.certificates = try Self.certificates(bytes, in: certificates)

        // Revocation lists are dropped.
        if signedData.nextTag(in: bytes) == BERTag.context1 { _ = try signedData.next(in: bytes) }
        var signers = BERReader(in: try signedData.next(BERTag.set, "set of signers", in: bytes))
        signer = try Signer(bytes, in: try signers.next(BERTag.sequence, "SignerInfo", in: bytes))
        guard signers.isAtEnd else { throw ReceiptDecodingError("More than one signer") }
    }

    private static func certificates(
        _ bytes: ArraySlice<UInt8>, in element: BERElement
    ) throws(ReceiptDecodingError) -> [ArraySlice<UInt8>] {
        var certificates = BERReader(in: element)
        var found: [ArraySlice<UInt8>] = []
        // The App Store's receipts have three certificates.
        found.reserveCapacity(3)
        while !certificates.isAtEnd {
            guard found.count < Limits.certificates else {
                throw ReceiptDecodingError("More than \(Limits.certificates) certificates")
            }
            let certificate = try certificates.next(BERTag.sequence, "certificate", in: bytes)
            let der = bytes[certificate.start..<certificate.end]
            guard der.count <= Limits.certificate else {
                throw ReceiptDecodingError("A certificate of \(der.count) bytes, more than \(Limits.certificate)")
            }
            found.append(der)
        }
        return found
    }
}

extension SignedReceipt.Signer {
    fileprivate init(_ bytes: ArraySlice<UInt8>, in element: BERElement) throws(ReceiptDecodingError) {
        var info = BERReader(in: element)
        _ = try info.integer("SignerInfo version", in: bytes)
        var identifier = BERReader(in: try info.next(BERTag.sequence, "issuer and serial number", in: bytes))
        let name = try identifier.next(BERTag.sequence, "issuer", in: bytes)
        issuer = bytes[name.start..<name.end]
        serialNumber = bytes[try identifier.next(BERTag.integer, "serial number", in: bytes).content]
        // Serial numbers are positive (RFC 5280 section 4.1.2.2), and a number has only one valid encoding (X.690
        // section 8.3.2). A leading zero is valid only if the number would be negative without the zero.
        let isNegative = serialNumber.first.map { $0 >= 0x80 } ?? true
        let isPadded = serialNumber.first == 0 && serialNumber.dropFirst().first.map { $0 < 0x80 } ?? false
        guard !isNegative, !isPadded else {
            throw ReceiptDecodingError("A serial number that is negative or has needless leading zeros")
        }
        digestAlgorithm = try info.algorithm("digest algorithm", in: bytes)
        // With signed attributes, the signature would cover the attributes instead of the payload. No App Store receipt
        // has signed attributes.
        guard info.nextTag(in: bytes) != BERTag.context0 else {
            throw ReceiptDecodingError("Signed attributes in a receipt")
        }
        signatureAlgorithm = try info.algorithm("signature algorithm", in: bytes)
        signature = try info.octetString("signature", in: bytes)
    }
}

extension BERReader {
    fileprivate mutating func expect(
        _ expected: OID, _ name: StaticString, in bytes: ArraySlice<UInt8>
    ) throws(ReceiptDecodingError) {
        let found = OID(bytes: bytes[try next(BERTag.objectIdentifier, name, in: bytes).content])
        guard found == expected else {
            throw ReceiptDecodingError("Expected \(expected) as \(name), found \(found)")
        }
    }

    /// Reads an AlgorithmIdentifier and ignores its parameters. They carry no information: the algorithms that
    /// verification accepts take only NULL or no parameters.
    fileprivate mutating func algorithm(
        _ name: StaticString, in bytes: ArraySlice<UInt8>
    ) throws(ReceiptDecodingError) -> OID {
        var algorithm = BERReader(in: try next(BERTag.sequence, name, in: bytes))
        return OID(bytes: bytes[try algorithm.next(BERTag.objectIdentifier, name, in: bytes).content])
    }
}
