// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// The container of an app receipt, taken apart and not trusted: PKCS#7 `SignedData` (RFC 5652 section 5) with exactly
/// what App Store receipts have.
///
/// Definite and indefinite lengths are read, and the signed bytes are kept as they are: the signature covers the payload
/// octets directly, since receipts have no signed attributes.
public struct SignedReceipt: Sendable {
    /// How many bytes it has; the App Store ignores what is behind them.
    public let length: Int

    /// The bytes that were signed: a SET of receipt attributes.
    public let payload: ArraySlice<UInt8>

    /// The certificates that the document brings along, each as DER, in their order.
    public let certificates: [ArraySlice<UInt8>]

    /// Who signed and how.
    public let signer: Signer

    /// The one `SignerInfo`.
    public struct Signer: Sendable {
        /// The issuer of the signer's certificate: a DER `Name`.
        public let issuer: ArraySlice<UInt8>
        /// The serial number of the signer's certificate: the octets of an INTEGER.
        public let serialNumber: ArraySlice<UInt8>
        /// The digest of the payload that was signed.
        public let digestAlgorithm: OID
        /// The algorithm of the signature.
        public let signatureAlgorithm: OID
        public let signature: ArraySlice<UInt8>
    }
}

extension SignedReceipt {
    /// Takes a receipt's container apart. Bytes after it are ignored, as the App Store ignores them.
    ///
    /// - Throws: ``ReceiptDecodingError`` where these are not the bytes of a receipt.
    public init(decoding bytes: some Sequence<UInt8>) throws(ReceiptDecodingError) {
        try self.init(Array(bytes)[...])
    }

    private init(_ bytes: ArraySlice<UInt8>) throws(ReceiptDecodingError) {
        guard bytes.count <= Limits.receipt else {
            throw ReceiptDecodingError("\(bytes.count) bytes are more than a receipt may have (\(Limits.receipt))")
        }
        var outer = BERReader(bytes)
        let whole = try outer.next(BERTag.sequence, "PKCS#7 ContentInfo")
        length = whole.end - bytes.startIndex
        var contentInfo = BERReader(bytes, in: whole)
        try contentInfo.expect(.signedData, "content type")
        var explicit = BERReader(bytes, in: try contentInfo.next(BERTag.context0, "content"))
        var signedData = BERReader(bytes, in: try explicit.next(BERTag.sequence, "SignedData"))

        _ = try signedData.integer("SignedData version")
        _ = try signedData.next(BERTag.set, "set of digest algorithms")

        var encapsulated = BERReader(bytes, in: try signedData.next(BERTag.sequence, "encapsulated content"))
        try encapsulated.expect(.data, "encapsulated content type")
        var content = BERReader(bytes, in: try encapsulated.next(BERTag.context0, "encapsulated content"))
        payload = try content.octetString("payload")

        var certificates = BERReader(bytes, in: try signedData.next(BERTag.context0, "certificates"))
        var found: [ArraySlice<UInt8>] = []
        while !certificates.isAtEnd {
            guard found.count < Limits.certificates else {
                throw ReceiptDecodingError("More than \(Limits.certificates) certificates")
            }
            let certificate = try certificates.next(BERTag.sequence, "certificate")
            found.append(bytes[certificate.start..<certificate.end])
        }
        self.certificates = found

        if signedData.nextTag == BERTag.context1 { _ = try signedData.next() }  // Revocation lists: nobody needs them.
        var signers = BERReader(bytes, in: try signedData.next(BERTag.set, "set of signers"))
        signer = try Signer(bytes, in: try signers.next(BERTag.sequence, "SignerInfo"))
        guard signers.isAtEnd else { throw ReceiptDecodingError("More than one signer") }
    }
}

extension SignedReceipt.Signer {
    fileprivate init(_ bytes: ArraySlice<UInt8>, in element: BERElement) throws(ReceiptDecodingError) {
        var info = BERReader(bytes, in: element)
        _ = try info.integer("SignerInfo version")
        var identifier = BERReader(bytes, in: try info.next(BERTag.sequence, "issuer and serial number"))
        let name = try identifier.next(BERTag.sequence, "issuer")
        issuer = bytes[name.start..<name.end]
        serialNumber = bytes[try identifier.next(BERTag.integer, "serial number").content]
        // One number has one form (X.690 section 8.3.2), or one signer would have many.
        guard serialNumber.first != 0 || serialNumber.dropFirst().first.map({ $0 >= 0x80 }) ?? true else {
            throw ReceiptDecodingError("A serial number with zeros in front")
        }
        digestAlgorithm = try info.algorithm("digest algorithm")
        // With signed attributes the signature would cover those instead of the payload. No App Store receipt has them.
        guard info.nextTag != BERTag.context0 else { throw ReceiptDecodingError("Signed attributes in a receipt") }
        signatureAlgorithm = try info.algorithm("signature algorithm")
        signature = try info.octetString("signature")
    }
}

extension BERReader {
    fileprivate mutating func expect(_ expected: OID, _ name: StaticString) throws(ReceiptDecodingError) {
        let found = OID(octets: bytes[try next(BERTag.objectIdentifier, name).content])
        guard found == expected else {
            throw ReceiptDecodingError("Expected \(expected) as \(name), found \(found)")
        }
    }

    /// Reads an AlgorithmIdentifier. Its parameters are NULL or absent for all that is accepted, and say nothing.
    fileprivate mutating func algorithm(_ name: StaticString) throws(ReceiptDecodingError) -> OID {
        var algorithm = BERReader(bytes, in: try next(BERTag.sequence, name))
        return OID(octets: bytes[try algorithm.next(BERTag.objectIdentifier, name).content])
    }
}
