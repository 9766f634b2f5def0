// SPDX-License-Identifier: Apache-2.0

// Encodes `SignedReceipt`. A decoded container of the App Store is encoded to the same bytes.

extension SignedReceipt {
    /// Writes the canonical container of this payload, signer and signature: DER, exactly as the App Store writes it.
    ///
    /// - Parameter certificates: The certificates to include, each as DER, in the order leaf, intermediate, root.
    package func canonical(certificates: [[UInt8]]) -> [UInt8] {
        let signerInfo = Self.signerInfo(
            signer: DEREncoding.sequence(
                Array(signer.issuer), DEREncoding.element(BERTag.integer, Array(signer.serialNumber))),
            digest: signer.digestAlgorithm, signature: Array(signer.signature))
        return Self.container(
            digest: signer.digestAlgorithm, content: DEREncoding.element(BERTag.octetString, of: [payload]),
            certificates: certificates, signerInfos: signerInfo)
    }

    /// Writes `ContentInfo` with `SignedData` (RFC 5652 sections 3 and 5.1).
    ///
    /// - Parameters:
    ///   - digest: The digest that the signer names.
    ///   - content: The DER of the OCTET STRING that was signed, in pieces.
    ///   - certificates: Each as DER.
    ///   - signerInfos: ``signerInfo(signer:digest:signedAttributes:signatureAlgorithm:signature:)`` of each signer.
    package static func container(
        digest: OID, content: [ArraySlice<UInt8>], certificates: [[UInt8]], signerInfos: [UInt8]
    ) -> [UInt8] {
        let explicit = DEREncoding.element(BERTag.context0, of: content)
        let data = [DEREncoding.objectIdentifier(.data)[...]] + explicit
        let encapsulated = DEREncoding.element(BERTag.sequence, of: data)
        let front = [DEREncoding.integer(1)[...], DEREncoding.set(algorithm(digest))[...]]
        let set = DEREncoding.element(BERTag.context0, of: certificates.map { $0[...] })
        let signedData = DEREncoding.element(
            BERTag.sequence, of: front + encapsulated + set + [DEREncoding.set(signerInfos)[...]])
        let all = DEREncoding.element(BERTag.context0, of: signedData)
        return DEREncoding.concatenation(
            DEREncoding.element(BERTag.sequence, of: [DEREncoding.objectIdentifier(.signedData)[...]] + all))
    }

    /// Writes a `SignerInfo` (RFC 5652 section 5.3).
    ///
    /// - Parameters:
    ///   - signer: The DER of the signer's issuer and serial number.
    ///   - signedAttributes: The DER of the signed attributes. Receipts have none.
    ///   - signatureAlgorithm: `rsaEncryption` from the App Store, whatever the digest is.
    package static func signerInfo(
        signer: [UInt8], digest: OID, signedAttributes: [UInt8] = [], signatureAlgorithm: OID = .rsaEncryption,
        signature: [UInt8]
    ) -> [UInt8] {
        DEREncoding.sequence(
            DEREncoding.integer(1), signer, algorithm(digest), signedAttributes, algorithm(signatureAlgorithm),
            DEREncoding.octetString(signature))
    }

    /// An `AlgorithmIdentifier` whose parameters are NULL, as the App Store writes them.
    private static func algorithm(_ identifier: OID) -> [UInt8] {
        DEREncoding.sequence(DEREncoding.objectIdentifier(identifier), [0x05, 0x00])
    }
}
