// SPDX-License-Identifier: Apache-2.0

import Listening

/// The reason why a server cannot listen on an address.
public struct ListeningError: Error, CustomStringConvertible {
    /// The setting to change: `port`, `hostname`, `healthPort`, `healthHostname` or `consolePort`.
    public let setting: String
    /// A sentence, beginning with the address.
    public let message: String

    /// The setting and the message.
    public var description: String { "\(setting): \(message)" }

    init(_ settings: (hostname: String, port: String), _ failure: ListeningFailure) {
        setting = failure.isAboutHostname ? settings.hostname : settings.port
        message = failure.message
    }
}
