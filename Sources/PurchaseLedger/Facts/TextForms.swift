// SPDX-License-Identifier: Apache-2.0

// The forms of all texts that clients, backends, operators and configurations choose. Routes, commands and the
// configuration refuse a text in any other form, and `docs/api.md` has a table of the forms.

package import AppStoreModel

extension TextForm {
    /// Longer than any usual identifier.
    package static let customerID = TextForm("The id of a customer", 1...256)
    /// Several times as long as usual. With a wrong bundle id, for example with a space at its end, the server would
    /// refuse all documents of the app.
    package static let bundleID = TextForm("A bundle id", 1...255, .characters, .letters("-."))
    /// The name of an entitlement, a product, an offer and so on. Longer than any usual name.
    package static let catalogueName = TextForm("A name in the configuration", 1...256)
    /// Longer than any usual id, such as a UUID. The id stands in paths.
    package static let grantID = TextForm("The id of a grant", 1...64, .characters, .letters("-._"))
    /// Some sentences. Each read of the customer loads the reasons of its grants.
    package static let why = TextForm("The reason for a grant", 1...500, .bytes, .lines)
    /// A few sentences. Each event of a correction has its reason.
    package static let reason = TextForm("The reason for a change", 1...500, .characters, .lines)
    /// As long as a line in a list of keys or grants.
    package static let author = TextForm("The name of a key, a person or a program", 1...100)
    /// The length is that of the SDKs that use such attributes.
    package static let attributeName = TextForm("The name of an attribute", 1...40, .characters, .letters("$_-"))
    /// The length is that of the SDKs that use such attributes.
    package static let attributeValue = TextForm("The value of an attribute", 0...500, .characters, .lines)
    /// The characters of URLs (RFC 3986 section 2). Receivers rarely accept longer addresses.
    package static let webhookURL = TextForm(
        "The URL of an endpoint", 1...2048, .characters, .letters("!#$%&'()*+,-./:;=?@[]_~"))
    /// Longer than any usual id. UUIDs and the ids of proxies have such characters.
    package static let requestID = TextForm("The id of a request", 1...128, .characters, .letters("-._"))
    /// Several times as long as Apple's ids.
    package static let transactionID = TextForm("A transaction id", 1...64, .characters, .only("0123456789", "digits"))
    /// An original transaction id; `app:` and the id of a purchase of the app itself; in Xcode `@` and a second follow.
    package static let purchaseID = TextForm("The id of a purchase", 1...64, .characters, .letters(":@"))
    /// Several times as long as Apple's ids, such as MV5G8XK2PQ.
    package static let orderID = TextForm(
        "An order id", 1...64, .characters,
        .only("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", "capital letters and digits"))
    package static let uuid = TextForm(
        "A UUID", 36...36, .characters, .only("0123456789ABCDEFabcdef-", "hexadecimal digits and hyphens"))
    /// Apple's limit.
    package static let extensionID = TextForm("The id of an extension", 1...128, .characters)
    /// Longer than Apple's, a UUID and a time. The id stands in paths.
    package static let testNotificationID = TextForm(
        "The id of a test notification", 1...128, .characters, .letters("-_"))
    /// Longer than keys in PEM, and than paths of files.
    package static let setting = TextForm("Any other text in the configuration", 0...4096, .bytes, .lines)
    /// Longer than all kinds of events together.
    package static let other = TextForm("Any other parameter or member", 0...2048)

    /// The forms in the order of the table.
    package static let all: [TextForm] = [
        customerID, bundleID, catalogueName, grantID, why, reason, author, attributeName, attributeValue, webhookURL,
        requestID, transactionID, purchaseID, orderID, uuid, extensionID, testNotificationID, setting,
        other,
    ]
}
