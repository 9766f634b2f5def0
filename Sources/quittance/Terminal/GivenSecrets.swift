// SPDX-License-Identifier: Apache-2.0

import Foundation
import PurchaseServer

/// The arguments of this process, and the values of its variables `QUITTANCE_…`, that may have a password, such as an
/// address after a mistyped option.
///
/// Many messages repeat arguments, for example those of the command line's parser or about a missing file, and messages
/// end up in logs.
enum GivenSecrets {
    /// All such texts, the longest first, because a text may contain a shorter text.
    static let all: [String] = {
        let variables = ProcessInfo.processInfo.environment.filter { $0.key.hasPrefix("QUITTANCE_") }.values
        let values = CommandLine.arguments.flatMap { argument in
            // The whole argument, and the value after an equals sign.
            [argument] + argument.split(separator: "=", maxSplits: 1).dropFirst().map(String.init)
        }
        let texts = (values + variables).flatMap { [$0, $0.trimmingCharacters(in: .whitespacesAndNewlines)] }
        return Set(texts.filter { $0.mayHavePassword && !isOption($0) }).sorted { $0.count > $1.count }
    }()

    /// Whether a text is the name of an option without a value.
    private static func isOption(_ text: String) -> Bool { text.hasPrefix("-") && !text.contains("=") }

    /// The text with an ellipsis in the place of each secret.
    static func remove(from text: [UInt8]) -> [UInt8] {
        Array(all.reduce(String(decoding: text, as: UTF8.self)) { $0.replacing($1, with: "…") }.utf8)
    }
}
