// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation

/// The folders of the documents that seeds are made of.
enum Folder {
    static let fuzz = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

    /// The hostile suite.
    static let vectors = fuzz.appendingPathComponent("../Tests/Vectors").standardizedFileURL

    /// Genuine documents, if they are available. The repository has no copies of them.
    static let genuine = fuzz.appendingPathComponent("../../shared/data").standardizedFileURL

    /// The files of a folder, in the order of their names; none if there is no such folder.
    static func files(_ folder: URL) -> [(name: String, bytes: [UInt8])] {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: folder.path)) ?? []
        return names.sorted().compactMap { name in
            (try? Data(contentsOf: folder.appendingPathComponent(name))).map { (name, Array($0)) }
        }
    }

    /// The genuine documents of a subfolder, decoded if they are base64.
    static func genuine(_ subfolder: String) -> [(name: String, bytes: [UInt8])] {
        files(genuine.appendingPathComponent(subfolder)).map { name, bytes in
            guard name.hasSuffix(".b64") else { return (name, bytes) }
            return (name, Data(base64Encoded: Data(bytes), options: .ignoreUnknownCharacters).map(Array.init) ?? bytes)
        }
    }
}

/// The files of `Fuzz/Seeds`.
public enum SeedFile {
    /// The files of a target, in the order of their names.
    public static func files(of target: String) -> [(name: String, bytes: [UInt8])] {
        Folder.files(Folder.fuzz.appendingPathComponent("Seeds/\(target)"))
    }
}

/// A file of `Tests/Vectors`, with the members that are needed here.
struct VectorFile: Decodable {
    var trust: [String: Trust]
    var vectors: [Vector]

    struct Trust: Decodable {
        var roots: [Data]
        var intermediates: [Data]
    }

    struct Vector: Decodable {
        var id: String
        var kind: String
        var input: String
    }

    static let all = Folder.files(Folder.vectors).compactMap { name, bytes in
        requireNoError("\(name) is a file of vectors") {
            name.hasSuffix(".json") ? try JSONDecoder().decode(VectorFile.self, from: Data(bytes)) : nil
        }
    }

    /// The documents of a kind, tokens as text and receipts as bytes.
    static func documents(_ kinds: Set<String>) -> [(name: String, bytes: [UInt8])] {
        all.flatMap(\.vectors).filter { kinds.contains($0.kind) }.map { vector in
            let name = vector.id.replacing("::", with: "-").replacing(" ", with: "-")
            return (name, Data(base64Encoded: vector.input).map(Array.init) ?? Array(vector.input.utf8))
        }
    }
}
