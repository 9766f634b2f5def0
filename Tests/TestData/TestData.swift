// SPDX-License-Identifier: Apache-2.0

public import Foundation

/// Genuine and official documents in `../shared/data`, outside the project. The project has no copies. If the documents
/// are missing, the tests that read them are skipped and give the reason.
public enum TestData {
    public static let folder = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        .appendingPathComponent("../shared/data").standardizedFileURL

    public static let isThere = FileManager.default.fileExists(atPath: folder.appendingPathComponent("README.md").path)

    /// The reason that a skipped test gives.
    public static let whyNot: String = "needs the test data in ../shared/data"

    /// A file's bytes.
    public static func bytes(_ path: String) throws -> [UInt8] {
        Array(try Data(contentsOf: folder.appendingPathComponent(path)))
    }

    /// A receipt's bytes, whether its file is binary or base64.
    public static func receipt(_ path: String) throws -> [UInt8] {
        let bytes = try bytes(path)
        guard path.hasSuffix(".b64") else { return bytes }
        guard let decoded = Data(base64Encoded: Data(bytes)) else { throw CocoaError(.fileReadCorruptFile) }
        return Array(decoded)
    }
}
