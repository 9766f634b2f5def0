// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation

// The settings that a developer makes in App Store Connect, and here by a command: the URLs for notifications, the
// format of notifications, and the shared secret.

extension SimulatedStore {
    /// The longest shared secret, in bytes. Apple's own secrets have 32 bytes.
    private static let maxSecretLength = 256

    private static let members: [(url: String, version: String, environment: Environment)] = [
        ("notify", "notifyVersion", .production), ("sandboxNotify", "sandboxNotifyVersion", .sandbox),
    ]

    /// Whether a text is an HTTP or HTTPS URL with a host and a valid port.
    public static func isNotificationURL(_ text: String) -> Bool {
        guard let url = URL(string: text), let host = url.host(), !host.isEmpty else { return false }
        return ["http", "https"].contains(url.scheme?.lowercased()) && (1...65_535).contains(url.port ?? 443)
    }

    /// The settings as a JSON object.
    var settings: JSONValue {
        let notifications = Self.members.flatMap { member in
            [
                JSONValue.Member(member.url, notificationURLs[member.environment].map { .string($0) } ?? .null),
                JSONValue.Member(
                    member.version, .number("\(notificationVersions[member.environment, default: .two].rawValue)")),
            ]
        }
        return .object(notifications + [.init("sharedSecret", sharedSecret.map { .string($0) } ?? .null)])
    }

    /// Applies the settings of a command. If a member is invalid, all settings stay as before.
    mutating func set(_ arguments: ControlArguments) throws(ControlError) {
        var changed = self
        for member in Self.members where arguments.has(member.url) {
            changed.notificationURLs[member.environment] = try Self.url(member.url, arguments)
        }
        for member in Self.members where arguments.has(member.version) {
            let number = try arguments.integer(member.version, in: 1...2) ?? 2
            changed.notificationVersions[member.environment] = NotificationVersion(rawValue: Int(number))
        }
        if arguments.has("sharedSecret") { changed.sharedSecret = try Self.secret(arguments) }
        self = changed
    }

    private static func url(_ name: String, _ arguments: ControlArguments) throws(ControlError) -> String? {
        guard let url = try arguments.text(name) else { return nil }
        guard isNotificationURL(url) else {
            throw arguments.invalid(name, "a URL such as http://127.0.0.1:8080/notifications/v2")
        }
        return url
    }

    private static func secret(_ arguments: ControlArguments) throws(ControlError) -> String? {
        let secret = try arguments.text("sharedSecret")
        guard secret?.utf8.count ?? 0 <= maxSecretLength else {
            throw ControlError(.invalid, "sharedSecret: Longer than \(maxSecretLength) bytes.")
        }
        return secret
    }
}
