// SPDX-License-Identifier: Apache-2.0

// Encodes `SignedReceipt`. A decoded container of the App Store is encoded to the same bytes.

extension SignedReceipt {
    /// Writes the canonical container of this payload, signer and signature: DER, exactly as written by the App Store.
    ///
    /// The server calls this method for each receipt. For speed, it therefore writes the container into one buffer,
    /// from the end to the beginning.
    ///
    /// - Parameter certificates: The certificates to include, each as DER, in the order leaf, intermediate, root.
    package func canonical(certificates: [[UInt8]]) -> [UInt8] {
        let contents = [payload.count, signer.issuer.count, signer.serialNumber.count, signer.signature.count]
        var writer = DERWriter(
            capacity: certificates.reduce(contents.reduce(Self.headers, +)) { $0 + $1.count })
        writer.element(BERTag.sequence) { contentInfo in
            contentInfo.element(BERTag.context0) { explicit in
                explicit.element(BERTag.sequence) { signedData in
                    signedData.element(BERTag.set) { signers in write(signer, to: &signers) }
                    signedData.element(BERTag.context0) { set in
                        for certificate in certificates.reversed() { set.write(certificate) }
                    }
                    signedData.element(BERTag.sequence) { encapsulated in
                        encapsulated.element(BERTag.context0) { content in
                            content.element(BERTag.octetString) { $0.write(payload) }
                        }
                        encapsulated.element(BERTag.objectIdentifier) { $0.write(OID.data.bytes) }
                    }
                    signedData.element(BERTag.set) { $0.algorithm(signer.digestAlgorithm) }
                    signedData.version()
                }
            }
            contentInfo.element(BERTag.objectIdentifier) { $0.write(OID.signedData.bytes) }
        }
        return writer.bytes
    }

    /// The number of bytes of all headers, versions and object identifiers of a canonical container, with some to
    /// spare.
    private static let headers = 192

    /// Writes a `SignerInfo` (RFC 5652 section 5.3).
    private func write(_ signer: Signer, to signers: inout DERWriter) {
        signers.element(BERTag.sequence) { info in
            info.element(BERTag.octetString) { $0.write(signer.signature) }
            info.algorithm(.rsaEncryption)
            info.algorithm(signer.digestAlgorithm)
            info.element(BERTag.sequence) { name in
                name.element(BERTag.integer) { $0.write(signer.serialNumber) }
                name.write(signer.issuer)
            }
            info.version()
        }
    }

    /// Writes `ContentInfo` with `SignedData` (RFC 5652 sections 3 and 5.1).
    ///
    /// - Parameters:
    ///   - digest: The signer's digest algorithm.
    ///   - content: The DER of the signed OCTET STRING, in pieces.
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
    ///   - signedAttributes: The DER of the signed attributes. Receipts have no signed attributes.
    ///   - signatureAlgorithm: `rsaEncryption` from the App Store, whatever the digest is.
    package static func signerInfo(
        signer: [UInt8], digest: OID, signedAttributes: [UInt8] = [], signatureAlgorithm: OID = .rsaEncryption,
        signature: [UInt8]
    ) -> [UInt8] {
        DEREncoding.sequence(
            DEREncoding.integer(1), signer, algorithm(digest), signedAttributes, algorithm(signatureAlgorithm),
            DEREncoding.octetString(signature))
    }

    /// An `AlgorithmIdentifier` with NULL parameters, as written by the App Store.
    private static func algorithm(_ identifier: OID) -> [UInt8] {
        DEREncoding.sequence(DEREncoding.objectIdentifier(identifier), [0x05, 0x00])
    }
}

extension DERWriter {
    /// Writes the version number 1, for both `SignedData` and `SignerInfo`.
    fileprivate mutating func version() {
        element(BERTag.integer) { $0.write(CollectionOfOne(1)) }
    }

    /// Writes an `AlgorithmIdentifier` with NULL parameters, as written by the App Store.
    fileprivate mutating func algorithm(_ identifier: OID) {
        element(BERTag.sequence) { algorithm in
            algorithm.element(BERTag.null) { _ in }
            algorithm.element(BERTag.objectIdentifier) { $0.write(identifier.bytes) }
        }
    }
}
