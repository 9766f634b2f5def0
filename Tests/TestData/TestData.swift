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

/// A small random number generator with a seed, so that a failing case can be repeated (SplitMix64, by Steele, Lea and
/// Flood).
public struct SeededRandom: RandomNumberGenerator, Sendable {
    private var state: UInt64

    public init(seed: UInt64) {
        state = seed
    }

    public mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
        return mixed ^ (mixed >> 31)
    }
}
