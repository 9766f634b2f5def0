// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// The state of the endpoints of retention messages in an environment: images, messages, default messages, the URL, and
/// performance tests. By a retention message, an app wants to keep a customer who is about to cancel.
struct RetentionMessages: Sendable {
    struct Image: Hashable, Sendable {
        var size: ImageSize
        var approved: Timestamp
    }

    struct StoredMessage: Hashable, Sendable {
        /// The identifiers of the message's images.
        var images: [String]
        var approved: Timestamp
    }

    /// The product and locale of a default message.
    struct DefaultKey: Hashable, Sendable {
        var product: String
        var locale: String
    }

    struct PerformanceTest: Hashable, Sendable {
        var target: String
        var end: Timestamp
    }

    /// The images, by identifier in lower case.
    var images: [String: Image] = [:]
    /// The messages, by identifier in lower case.
    var messages: [String: StoredMessage] = [:]
    /// The identifiers of the default messages, by product and locale.
    var defaults: [DefaultKey: String] = [:]
    /// The URL that the App Store asks for the message to show.
    var realtimeURL: String?
    /// The performance tests, by request id.
    var tests: [String: PerformanceTest] = [:]

    /// The most images, and the most messages, of an app: Apple's number.
    static let capacity = 2000

    /// The approval time of an image or message that is uploaded now. The sandbox approves immediately. This store's
    /// production approves after a day.
    static func approval(at now: Timestamp, in environment: Environment) -> Timestamp {
        environment == .production ? now.adding(days: 1) : now
    }
}

extension Timestamp {
    /// The approval state of an image or message with this approval time. The simulator rejects nothing.
    func approval(at now: Timestamp) -> ApprovalState { self <= now ? .approved : .pending }
}

/// The parts of a PNG file that the App Store checks (ISO/IEC 15948 sections 5.2 and 11.2.2).
struct PNGHeader: Hashable, Sendable {
    var width: UInt32
    var height: UInt32
    /// Whether the image has an alpha channel.
    var hasAlpha: Bool

    /// Reads the beginning of a file; `nil` if the file is not a PNG.
    init?(_ file: [UInt8]) {
        let beginning: [UInt8] = [0x89, 0x50, 0x4e, 0x47, 13, 10, 26, 10, 0, 0, 0, 13] + Array("IHDR".utf8)
        guard file.count >= 33, file.starts(with: beginning) else { return nil }
        func number(_ start: Int) -> UInt32 { file[start..<start + 4].reduce(0) { $0 << 8 | UInt32($1) } }
        width = number(16)
        height = number(20)
        hasAlpha = file[25] & 4 != 0
    }
}
