// SPDX-License-Identifier: Apache-2.0

import Foundation
import HostileVectors

/// Writes all vectors to the folder in the first argument: `make vectors`.
@main
struct MakeVectors {
    static func main() throws {
        guard let folder = CommandLine.arguments.dropFirst().first else {
            FileHandle.standardError.write(Data("usage: make-vectors FOLDER\n".utf8))
            exit(2)
        }
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        for (name, file) in try HostileVectors.make().sorted(by: { $0.key < $1.key }) {
            let url = URL(fileURLWithPath: folder).appendingPathComponent("\(name).json")
            try encoder.encode(file).write(to: url)
            print("\(url.path): \(file.vectors.count) vectors")
        }
    }
}
