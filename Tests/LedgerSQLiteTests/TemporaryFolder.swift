// SPDX-License-Identifier: Apache-2.0

import Foundation
import Synchronization

/// A folder that is removed together with the value that holds it.
final class TemporaryFolder: Sendable {
    private let folder: URL

    init() throws {
        folder = FileManager.default.temporaryDirectory.appendingPathComponent("ledger-\(UUID())")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    }

    deinit {
        try? FileManager.default.removeItem(at: folder)
    }

    func path(_ name: String = "ledger.sqlite") -> String { folder.appendingPathComponent(name).path }
}

/// Distinct file names.
final class Names: Sendable {
    private let count = Mutex(0)

    func next() -> String {
        count.withLock {
            $0 += 1
            return "\($0).sqlite"
        }
    }
}
