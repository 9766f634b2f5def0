// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// The numbers of the blobs that were used last. The tokens in a notification are stored before it, and all three have
/// one header: none of that is hashed, looked up and decoded a second time.
struct BlobCache: Sendable {
    private static let limit = 8

    private var blobs: [(bytes: ArraySlice<UInt8>, number: Int64)] = []

    func number(of bytes: ArraySlice<UInt8>) -> Int64? {
        // The last are the likeliest.
        blobs.last { $0.bytes.isSame(as: bytes) }?.number
    }

    /// - Parameter bytes: Not a slice of something larger, which would stay in memory.
    mutating func add(_ bytes: ArraySlice<UInt8>, _ number: Int64) {
        if blobs.count == Self.limit { blobs.removeFirst() }
        blobs.append((bytes, number))
    }
}
