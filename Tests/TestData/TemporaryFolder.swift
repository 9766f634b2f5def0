// SPDX-License-Identifier: Apache-2.0

package import Foundation

/// A folder of a test, which is removed together with the object.
package final class TemporaryFolder: Sendable {
    package let url: URL

    package init() throws {
        url = FileManager.default.temporaryDirectory.appendingPathComponent("quittance-test-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(at: url) }

    /// Lets `body` use a new folder.
    package static func with(_ body: (URL) async throws -> Void) async throws {
        let folder = try TemporaryFolder()
        // Its last use is not the end of its use.
        defer { withExtendedLifetime(folder) {} }
        try await body(folder.url)
    }

    package func path(_ name: String = "ledger.sqlite") -> String { url.appendingPathComponent(name).path }

    /// Writes a file, replacing an existing one, and returns its URL.
    package func write(_ text: String, to name: String) throws -> URL {
        let file = url.appendingPathComponent(name)
        try Data(text.utf8).write(to: file, options: .atomic)
        return file
    }

    /// The bytes of each file, by the file's name.
    package func contents() throws -> [String: Data] {
        let names = try FileManager.default.contentsOfDirectory(atPath: url.path)
        let files = try names.map { ($0, try Data(contentsOf: url.appendingPathComponent($0))) }
        return Dictionary(uniqueKeysWithValues: files)
    }
}
