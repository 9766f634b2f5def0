// SPDX-License-Identifier: Apache-2.0

public import Foundation
public import Testing

/// Genuine and official documents in `../shared/data`, outside the project. The project has no copies. If the documents
/// are missing, the tests that read them are skipped and give the reason.
public enum TestData {
    public static let folder = Project.root.appendingPathComponent("../shared/data").standardizedFileURL

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

/// The files of this project.
public enum Project {
    public static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    /// The text of a file, such as `docs/api.md`.
    public static func text(_ path: String) throws -> String {
        try String(contentsOf: root.appendingPathComponent(path), encoding: .utf8)
    }

    /// The code in a language on a page, block by block.
    public static func code(_ language: String, in page: String) throws -> [String] {
        try text(page).components(separatedBy: "```\(language)\n").dropFirst()
            .map { $0.components(separatedBy: "\n```")[0] + "\n" }
    }
}

/// The seeds of random tests. The environment variable `QUITTANCE_SEED` takes the place of them all, so that a failure
/// can be repeated; with `QUITTANCE_SOAK` there are many more.
public enum Seeds {
    private static let environment = ProcessInfo.processInfo.environment

    /// Whether there is time for many more random tests than in an ordinary run.
    public static let isSoak = environment["QUITTANCE_SOAK"] != nil

    /// Whether the compiler has optimised this build. Some random tests are short without: they would take minutes.
    #if DEBUG
    public static let isOptimised = false
    #else
    public static let isOptimised = true
    #endif

    /// The first seeds. Without optimisation a third of them, because the suite in release runs them all.
    ///
    /// - Parameter soak: How many with `QUITTANCE_SOAK`, if not as many as without.
    public static func first(_ count: UInt64, soak: UInt64? = nil) -> [UInt64] {
        if let seed = environment["QUITTANCE_SEED"].flatMap({ UInt64($0) }) { return [seed] }
        if isSoak { return Array(0..<(soak ?? count)) }
        return Array(0..<(isOptimised ? count : max(1, count / 3)))
    }

    /// Seeds in blocks, for tests that are too short to be reported one by one.
    public static func blocks(_ count: UInt64, of size: Int, soak: UInt64? = nil) -> [[UInt64]] {
        let all = first(count, soak: soak)
        return stride(from: 0, to: all.count, by: size).map { Array(all[$0..<min($0 + size, all.count)]) }
    }
}

extension Trait where Self == ConditionTrait {
    /// Leaves a test to the suite in release: without optimisation it takes seconds, and all of its kind take minutes.
    public static var takesLong: Self {
        .enabled(if: Seeds.isOptimised, "takes long without optimisation: make test-release runs it")
    }
}
