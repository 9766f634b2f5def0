// SPDX-License-Identifier: Apache-2.0

/// An object identifier (ITU-T X.690 section 8.19).
public struct OID: Hashable, Sendable {
    /// The content bytes, without tag and length.
    let bytes: [UInt8]

    init(bytes: some Sequence<UInt8>) {
        self.bytes = Array(bytes)
    }

    /// PKCS#7 signed data, RFC 5652 section 5.1.
    public static let signedData = OID(bytes: [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x07, 0x02])
    /// PKCS#7 data, RFC 5652 section 4.
    public static let data = OID(bytes: [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x07, 0x01])
    /// SHA-1, RFC 3370 section 2.1.
    public static let sha1 = OID(bytes: [0x2b, 0x0e, 0x03, 0x02, 0x1a])
    /// SHA-256, RFC 5754 section 2.2.
    public static let sha256 = OID(bytes: [0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01])
    /// RSA with PKCS#1 v1.5 padding, RFC 3370 section 3.2.
    public static let rsaEncryption = OID(bytes: [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01])
    /// RSA with PKCS#1 v1.5 padding and SHA-256, RFC 5754 section 3.2. Written by Xcode 15 instead of `rsaEncryption`.
    public static let sha256WithRSAEncryption = OID(bytes: [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0b])
}

extension OID: CustomStringConvertible {
    /// The dotted form.
    public var description: String {
        // Identifiers in use have a dozen bytes at most, but an identifier in a hostile document may have millions of
        // bytes.
        guard bytes.count <= 32 else { return "an OID of \(bytes.count) bytes" }
        var arcs: [String] = []
        var arc: UInt64 = 0
        for byte in bytes {
            // Nine groups of seven bits fit into `arc`. No identifier in use has a longer arc. For a longer arc the
            // bytes are shown.
            guard arc >> 56 == 0 else { return "OID with bytes \(bytes)" }
            arc = arc << 7 | UInt64(byte & 0x7f)
            guard byte & 0x80 == 0 else { continue }
            if arcs.isEmpty {
                let first = min(arc / 40, 2)
                arcs = ["\(first)", "\(arc - first * 40)"]
            } else {
                arcs.append("\(arc)")
            }
            arc = 0
        }
        return arcs.joined(separator: ".")
    }
}
