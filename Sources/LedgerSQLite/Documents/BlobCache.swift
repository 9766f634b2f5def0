// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// The row numbers of the blobs that were used last. A notification and the tokens in it have the same header, and the
/// tokens are stored before the notification. The cache avoids hashing, looking up and decoding these blobs a second
/// time.
struct BlobCache: Sendable {
    private static let limit = 8

    private var blobs: [(bytes: ArraySlice<UInt8>, number: Int64)] = []

    func number(of bytes: ArraySlice<UInt8>) -> Int64? {
        // The blobs that were added last are the likeliest.
        blobs.last { $0.bytes.isSame(as: bytes) }?.number
    }

    /// - Parameter bytes: Not a slice of something larger, which would stay in memory.
    mutating func add(_ bytes: ArraySlice<UInt8>, _ number: Int64) {
        if blobs.count == Self.limit { blobs.removeFirst() }
        blobs.append((bytes, number))
    }
}
