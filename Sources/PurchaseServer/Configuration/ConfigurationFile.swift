// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
public import AppStoreTrust
public import PurchaseLedger

/// The file with a server's configuration, taken apart: settings as text, and apps.
///
/// ```json
/// {
///     "port": 8080,
///     "apps": [{
///         "bundleId": "com.example.notes", "appAppleId": 1234567890, "sharedSecret": "…", "staleLeewaySeconds": 3600,
///         "products": {
///             "com.example.notes.pro": {"entitlements": ["pro"], "level": 1},
///             "com.example.notes.season": {"entitlements": ["season"], "durationDays": 90}
///         }
///     }]
/// }
/// ```
struct ConfigurationFile {
    /// By name. Several values have commas between them.
    private(set) var settings: [String: String] = [:]
    private(set) var apps: [AppConfiguration] = []
    private let root: Member

    /// - Throws: ``ConfigurationError``, which names the member that is wrong and its line.
    init(parsing text: [UInt8], settings known: [String]) throws(ConfigurationError) {
        let json: JSONValue
        do {
            json = try JSONValue(parsing: text)
        } catch {
            throw ConfigurationError(text, offset: error.offset, "This is no JSON: \(error.message).")
        }
        root = Member(text: text, path: [], value: json)
        try root.requireNames(Set(known + ["apps"]))
        for name in known { settings[name] = try root.setting(name) }
        for app in try root.array("apps") {
            let app = try AppConfiguration(app, others: apps)
            apps.append(app)
        }
    }

    /// What is wrong with a setting, and where it stands.
    func error(_ name: String, _ message: String) -> ConfigurationError { root.member(name).error(message) }
}

/// What a server knows about one app.
public struct AppConfiguration: Sendable {
    public var identity: AppIdentity
    public var catalogue = Catalogue()
    /// What requests to verifyReceipt about subscriptions must send as `password`; `nil` where they need not.
    public var sharedSecret: String?
    /// The purchases, by their original transaction ids, whose receipts verifyReceipt answers with 21010.
    public var refusedPurchases: Set<String> = []
    /// What client keys need besides themselves; `nil` if they need nothing more.
    public var customerProof: CustomerProof?

    public init(_ identity: AppIdentity) {
        self.identity = identity
    }

    /// The longest bundle id that is accepted, in bytes: several times what is usual.
    private static let longestBundleId = 255

    /// What a bundle id may be, for people.
    package static let bundleIdRule = """
        A bundle id has 1 to \(longestBundleId) letters (A to Z, a to z), digits, hyphens and periods, such as com.example.notes.
        """

    /// Whether an app can have this bundle id. With any other, such as one with a space at its end, each of the app's documents
    /// would be refused.
    package static func canBeBundleId(_ text: String) -> Bool {
        (1...longestBundleId).contains(text.utf8.count)
            && text.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "-"), UInt8(ascii: "."):
                    true
                default: false
                }
            }
    }
}

extension AppConfiguration {
    fileprivate init(_ app: Member, others: [AppConfiguration]) throws(ConfigurationError) {
        try app.requireNames([
            "bundleId", "appAppleId", "sharedSecret", "staleLeewaySeconds", "products", "refusedPurchases",
            "customerProof",
        ])
        guard let bundleId = try app.string("bundleId") else { throw app.error("bundleId is missing.") }
        guard Self.canBeBundleId(bundleId) else {
            throw app.member("bundleId", .string(bundleId)).error(Self.bundleIdRule)
        }
        guard !others.contains(where: { $0.identity.bundleId == bundleId }) else {
            throw app.error("bundleId \(bundleId) is there twice.")
        }
        self.init(AppIdentity(bundleId: bundleId, appAppleId: try app.number("appAppleId", in: 1...Int64.max)))
        if let seconds = try app.number("staleLeewaySeconds", in: 0...30 * 86_400) {
            catalogue.staleLeeway = .seconds(seconds)
        }
        for product in try app.members("products") {
            catalogue.products[product.name] = try Catalogue.Product(product)
        }
        sharedSecret = try app.string("sharedSecret")
        refusedPurchases = try app.names("refusedPurchases", "An original transaction id is a text.")
        customerProof = try app.object("customerProof").map(CustomerProof.init)
    }
}

extension CustomerProof {
    /// Errors say what is wrong with a secret and never what it is.
    fileprivate init(_ proof: Member) throws(ConfigurationError) {
        try proof.requireNames(["secret", "publicKey"])
        switch (try proof.string("secret"), try proof.string("publicKey")) {
        case (let secret?, nil):
            guard let made = CustomerProof(secret: secret) else {
                throw proof.member("secret").error(
                    "At least \(CustomerProof.shortestSecret) bytes were expected: openssl rand -hex 32 makes some.")
            }
            self = made
        case (nil, let key?):
            guard let made = CustomerProof(publicKey: key) else {
                throw proof.member("publicKey").error("An Ed25519 public key as PEM or its base64 was expected.")
            }
            self = made
        default: throw proof.error("Either secret or publicKey was expected.")
        }
    }
}

/// What is wrong with a configuration, and where.
public struct ConfigurationError: Error, CustomStringConvertible {
    /// In the file, counted from 1; `nil` where it is not there.
    public var line: Int?
    /// Begins with the name of what is wrong.
    public var message: String

    public var description: String { (line.map { "line \($0): " } ?? "") + message }

    init(_ message: String) {
        self.message = message
    }

    fileprivate init(_ text: [UInt8], offset: Int, _ message: String) {
        line = 1 + text.prefix(offset).count { $0 == UInt8(ascii: "\n") }
        self.message = message
    }
}

extension Catalogue.Product {
    fileprivate init(_ product: Member) throws(ConfigurationError) {
        try product.requireNames(["entitlements", "level", "durationDays"])
        let names = try product.names("entitlements", "An entitlement is a name.")
        let days = try product.number("durationDays", in: 1...36_500)
        self.init(
            entitlements: names, level: try product.number("level", in: 1...10_000).map(Int.init),
            duration: days.map { .seconds($0 * 86_400) })
    }
}

/// A value in the file with the way to it.
private struct Member {
    let text: [UInt8]
    let path: [Step]
    let value: JSONValue

    enum Step {
        case member(String)
        case element(Int)
    }

    var name: String {
        guard case .member(let name) = path.last else { return "" }
        return name
    }

    func member(_ name: String, _ value: JSONValue = .null) -> Member {
        Member(text: text, path: path + [.member(name)], value: value)
    }

    /// A setting as text, whatever it is written as; several with commas between them.
    func setting(_ name: String) throws(ConfigurationError) -> String? {
        guard let found = value[name] else { return nil }
        let member = member(name, found)
        guard let values = found.array else { return try member.single() }
        var texts: [String] = []
        for value in values { texts.append(try self.member(name, value).single()) }
        return texts.joined(separator: ",")
    }

    private func single() throws(ConfigurationError) -> String {
        switch value {
        case .string(let text): return text
        case .number(let literal): return literal
        case .bool(let bool): return bool ? "true" : "false"
        case .null, .array, .object: throw error("A text, a number, true or false was expected.")
        }
    }

    func names(_ name: String, _ message: String) throws(ConfigurationError) -> Set<String> {
        var names: Set<String> = []
        for element in try array(name) {
            guard let text = element.value.string, !text.isEmpty else { throw element.error(message) }
            names.insert(text)
        }
        return names
    }

    /// What is wrong, at the line where the last name of the way to it stands, as near as can be found.
    func error(_ message: String) -> ConfigurationError {
        let offset = path.reduce(0) { offset, step in
            switch step {
            case .member(let name): text[offset...].firstRange(of: Array("\"\(name)\"".utf8))?.lowerBound ?? offset
            case .element(let index): self.offset(ofElement: index, from: offset)
            }
        }
        let place = path.reduce(into: "") { place, step in
            switch step {
            case .member(let name): place += place.isEmpty ? name : ".\(name)"
            case .element(let index): place += "[\(index)]"
            }
        }
        return ConfigurationError(text, offset: offset, (place.isEmpty ? "" : place + ": ") + message)
    }

    /// Where an element of the next array begins. The text is known to be JSON, so that brackets outside of strings tell.
    private func offset(ofElement index: Int, from start: Int) -> Int {
        var (depth, rest, isString, isEscaped) = (0, index, false, false)
        for (offset, byte) in text.enumerated().dropFirst(start) {
            defer { isEscaped = byte == UInt8(ascii: "\\") && !isEscaped }
            if byte == UInt8(ascii: "\""), !isEscaped { isString.toggle() }
            guard !isString else { continue }
            switch byte {
            case UInt8(ascii: "["), UInt8(ascii: "{"):
                if depth == 1, rest == 0 { return offset }
                depth += 1
            case UInt8(ascii: "]"), UInt8(ascii: "}"): depth -= 1
            case UInt8(ascii: ",") where depth == 1: rest -= 1
            default: break
            }
        }
        return start
    }

    func requireNames(_ known: Set<String>) throws(ConfigurationError) {
        for found in try distinctMembers() where !known.contains(found.name) {
            throw member(found.name, found.value).error(
                "There is no such setting; known are \(known.sorted().joined(separator: ", ")).")
        }
    }

    /// The members, of which no two have one name: which of them is meant nobody can know.
    private func distinctMembers() throws(ConfigurationError) -> [JSONValue.Member] {
        guard let members = value.members else { throw error("An object was expected.") }
        var names: Set<String> = []
        for found in members where !names.insert(found.name).inserted {
            throw member(found.name, found.value).error("It is there twice.")
        }
        return members
    }

    func string(_ name: String) throws(ConfigurationError) -> String? {
        guard let found = value[name] else { return nil }
        guard let text = found.string, !text.isEmpty else { throw member(name, found).error("A text was expected.") }
        return text
    }

    func number(_ name: String, in range: ClosedRange<Int64>) throws(ConfigurationError) -> Int64? {
        guard let found = value[name] else { return nil }
        guard let number = found.integer, range.contains(number) else {
            throw member(name, found).error(
                "A whole number from \(range.lowerBound) to \(range.upperBound) was expected.")
        }
        return number
    }

    func array(_ name: String) throws(ConfigurationError) -> [Member] {
        guard let found = value[name] else { return [] }
        guard let elements = found.array else { throw member(name, found).error("An array was expected.") }
        return elements.enumerated().map { index, element in
            Member(text: text, path: path + [.member(name), .element(index)], value: element)
        }
    }

    func object(_ name: String) throws(ConfigurationError) -> Member? {
        guard let found = value[name] else { return nil }
        return member(name, found)
    }

    func members(_ name: String) throws(ConfigurationError) -> [Member] {
        guard let found = value[name] else { return [] }
        return try member(name, found).distinctMembers().map {
            Member(text: text, path: path + [.member(name), .member($0.name)], value: $0.value)
        }
    }
}
