// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel

// What an event says about a notification of which no other event tells.

extension EventContent {
    /// The content of an event about a notification of which no other event tells: a notification without a
    /// transaction, of an unknown type, or about a failed extension.
    ///
    /// - Returns: `nil` if the document is no such notification.
    init?(_ document: Evidence, at now: Timestamp) {
        guard let notification = document.notification else { return nil }
        let type = NotificationTypeV2(rawValue: notification.type)
        guard type == nil || type == .renewalExtension || document.statements.allSatisfy(\.isAppPurchase) else {
            return nil
        }
        let statement = document.statements.first { !$0.isAppPurchase }
        self.init(
            effectiveAt: min(document.signedDate ?? now, now), transactionId: statement?.transactionId,
            productId: statement?.productId,
            detail: [notification.type, notification.subtype].compactMap(\.self).joined(separator: "/"))
        evidence = "\(document.provenance)"
        self.notification = NotificationMembers.members(of: document)
    }
}

extension Evidence {
    /// The decoded members of a signed token, without tokens and accounts; `nil` for a receipt.
    package var members: JSONValue? { NotificationMembers.all(of: self) }
}

/// The members of a notification that its event has.
enum NotificationMembers {
    /// The most bytes of the members as JSON. With a transaction and its renewal Apple's have less than 3 KB. The most
    /// events of a page then have 4 MB. Of longer members, the event has none, and names the document.
    static let maxBytes = 8 << 10

    /// The most levels of the members, of which Apple's have 3. Readers of events accept fewer levels than a document
    /// may have. Deeper values are left out.
    static let maxDepth = 16

    /// The members of the payload that are in no other member of the event.
    private static let envelope: Set = ["notificationType", "subtype", "notificationUUID", "version", "signedDate"]

    /// The decoded members that no other member of the event has; `nil` if they are too long.
    static func members(of document: Evidence) -> JSONValue? {
        guard let members = all(of: document)?.members else { return nil }
        let own = JSONValue.object(members.filter { !envelope.contains($0.name) })
        return own.members?.isEmpty == false && own.compactText.utf8.count <= maxBytes ? own : nil
    }

    /// The decoded members of a token. Instead of a token inside of it, such as `signedTransactionInfo`, there are the
    /// members of its payload, as `transactionInfo`. An event names no customer in its content, so account tokens are
    /// left out.
    static func all(of document: Evidence) -> JSONValue? {
        guard let payload = document.jws.flatMap(decoded) else { return nil }
        let parts = Dictionary(
            document.parts.compactMap { part in
                part.jws.flatMap(decoded).map { (String(decoding: part.document, as: UTF8.self), $0) }
            }
        ) { first, _ in first }
        return readable(payload, parts, depth: 0)
    }

    private static func decoded(_ token: JWS) -> JSONValue? { JSONValue(readable: token.payload) }

    /// - Parameter parts: The payloads of the verified tokens inside the notification, by their texts.
    private static func readable(_ value: JSONValue, _ parts: [String: JSONValue], depth: Int) -> JSONValue? {
        guard depth < maxDepth else { return nil }
        switch value {
        case .null, .bool, .number, .string: return value
        case .array(let elements): return .array(elements.compactMap { readable($0, parts, depth: depth + 1) })
        case .object(let members):
            return .object(
                members.compactMap { member in
                    var member = member
                    guard member.name != "appAccountToken" else { return nil }
                    if member.name.hasPrefix("signed"), let token = member.value.string {
                        guard let part = parts[token] else { return nil }
                        member.name = member.name.dropFirst(6).prefix(1).lowercased() + member.name.dropFirst(7)
                        member.value = part
                    }
                    return readable(member.value, parts, depth: depth + 1).map { JSONValue.Member(member.name, $0) }
                })
        }
    }
}
