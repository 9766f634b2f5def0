// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// The row numbers of the blobs added last: documents, or parts that documents share. A notification and its inner
/// tokens have the same header, and the tokens are stored before the notification. The cache avoids hashing, looking up
/// and decoding these blobs a second time.
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
