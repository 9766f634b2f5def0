// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// The row numbers of the blobs added last. A blob is a document, or a part that several documents share, such as a
/// header. A notification contains signed transactions and renewal info (tokens), which have the same header and are
/// stored before the notification. With this cache, these blobs need not be hashed, looked up and decoded again when
/// the notification is stored.
struct BlobCache: Sendable {
    private static let limit = 8

    private var blobs: [(bytes: ArraySlice<UInt8>, number: Int64)] = []

    func number(of bytes: ArraySlice<UInt8>) -> Int64? {
        // The most recently added blobs are the likeliest hits.
        blobs.last { $0.bytes.isSame(as: bytes) }?.number
    }

    /// - Parameter bytes: Must not be a slice of a larger array, because the whole array would stay in memory.
    mutating func add(_ bytes: ArraySlice<UInt8>, _ number: Int64) {
        if blobs.count == Self.limit { blobs.removeFirst() }
        blobs.append((bytes, number))
    }
}
