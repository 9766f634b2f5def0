// SPDX-License-Identifier: Apache-2.0

package import PurchaseLedger

/// The name by which a stored document refers to a blob: a part of the document that is stored in a separate row,
/// because other documents may contain it too.
package protocol BlobName: Hashable {
    /// Reads a name written by ``append(to:)``.
    ///
    /// - Throws: `LedgerStorageError` if the bytes contain no name.
    init(from reader: inout BlobReader) throws

    /// Appends the name in a form whose end can be recognised.
    func append(to bytes: inout [UInt8])
}

/// The number of a row. It must not be negative.
extension Int64: BlobName {
    package init(from reader: inout BlobReader) throws {
        self.init(try reader.count())
    }

    package func append(to bytes: inout [UInt8]) { bytes.append(count: Int(self)) }
}

extension [UInt8] {
    /// Appends a count in groups of seven bits, the lowest group first.
    package mutating func append(count: Int) {
        var rest = UInt(bitPattern: count)
        while rest > 0x7f {
            append(UInt8(rest & 0x7f) | 0x80)
            rest >>= 7
        }
        append(UInt8(rest))
    }
}

/// Reads the parts of a document's stored content.
package struct BlobReader {
    package private(set) var bytes: ArraySlice<UInt8>

    package static let damaged = LedgerStorageError(.damaged, "A document in the ledger cannot be restored")

    init(_ bytes: ArraySlice<UInt8>) {
        self.bytes = bytes
    }

    package mutating func count() throws -> Int {
        var value: UInt = 0
        for shift in stride(from: UInt(0), to: 63, by: 7) {
            guard let byte = bytes.popFirst() else { break }
            value |= UInt(byte & 0x7f) << shift
            if byte < 0x80 { return Int(value) }
        }
        throw Self.damaged
    }

    package mutating func bytes(_ count: Int) throws -> ArraySlice<UInt8> {
        guard count <= bytes.count else { throw Self.damaged }
        defer { bytes = bytes.dropFirst(count) }
        return bytes.prefix(count)
    }

    mutating func blobs<Name: BlobName>() throws -> [(gap: Int, name: Name)] {
        var blobs: [(gap: Int, name: Name)] = []
        let count = try count()
        // Each blob takes at least two bytes.
        guard count <= bytes.count / 2 else { throw Self.damaged }
        for _ in 0..<count { blobs.append((try self.count(), try Name(from: &self))) }
        return blobs
    }
}
