// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import FuzzSupport
import PurchaseLedger

@testable import LedgerPostgres

/// Fuzzes the stored form of a chain. It comes from a database that others may have written or damaged.
///
/// A chain that can be read is written to bytes that are read as the same chain.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzStoredChain(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    fuzz(start, count) { bytes in
        let record = try ChainCoding.decode(bytes, key)
        let again = requireNoError("a chain that was read can be written and read") {
            try ChainCoding.decode(try ChainCoding.encode(record), key)
        }
        require(again == record, "a chain is written as it was read")
    }
}

private let key = ChainKey("2000000001", in: LedgerScope(bundleId: "com.example", environment: .sandbox))
