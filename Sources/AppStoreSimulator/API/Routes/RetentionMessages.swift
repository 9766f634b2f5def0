// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// The retention messages of one environment: images, messages, defaults, the URL, and performance tests.
struct RetentionMessages: Sendable {
    struct Image: Hashable, Sendable {
        var size: ImageSize
        var approved: Timestamp
    }

    struct StoredMessage: Hashable, Sendable {
        /// The images that it shows.
        var images: [String]
        var approved: Timestamp
    }

    /// What a default message is for.
    struct DefaultKey: Hashable, Sendable {
        var product: String
        var locale: String
    }

    struct PerformanceTest: Hashable, Sendable {
        var target: String
        var end: Timestamp
    }

    /// By identifier, in lower case.
    var images: [String: Image] = [:]
    /// By identifier, in lower case.
    var messages: [String: StoredMessage] = [:]
    /// Identifiers of messages.
    var defaults: [DefaultKey: String] = [:]
    /// The URL to which the App Store sends its question.
    var realtimeURL: String?
    /// By request id.
    var tests: [String: PerformanceTest] = [:]

    /// Images and messages that an app can have of each: Apple's number.
    static let capacity = 2000

    /// When what is uploaded now is approved. The sandbox approves at once; production needs a day here.
    static func approval(at now: Timestamp, in environment: Environment) -> Timestamp {
        environment == .production ? now.adding(days: 1) : now
    }
}

extension Timestamp {
    /// The state of what is approved at this time. The simulator rejects nothing.
    func approval(at now: Timestamp) -> ApprovalState { self <= now ? .approved : .pending }
}

/// The parts of a PNG file that the App Store checks (ISO/IEC 15948 sections 5.2 and 11.2.2).
struct PNGHeader: Hashable, Sendable {
    var width: UInt32
    var height: UInt32
    /// Whether each pixel has a transparency of its own.
    var hasAlpha: Bool

    /// Reads the beginning of a file; `nil` if it is not one of a PNG.
    init?(_ file: [UInt8]) {
        let beginning: [UInt8] = [0x89, 0x50, 0x4e, 0x47, 13, 10, 26, 10, 0, 0, 0, 13] + Array("IHDR".utf8)
        guard file.count >= 33, file.starts(with: beginning) else { return nil }
        func number(_ start: Int) -> UInt32 { file[start..<start + 4].reduce(0) { $0 << 8 | UInt32($1) } }
        width = number(16)
        height = number(20)
        hasAlpha = file[25] & 4 != 0
    }
}
