// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
public import AppStoreTrust
public import PurchaseLedger

/// The file that says which apps a server is about and what their products stand for.
///
/// ```json
/// {"apps": [{
///     "bundleId": "com.example.notes", "appAppleId": 1234567890, "sharedSecret": "…", "staleLeewaySeconds": 3600,
///     "products": {
///         "com.example.notes.pro": {"entitlements": ["pro"], "level": 1},
///         "com.example.notes.season": {"entitlements": ["season"], "durationDays": 90}
///     }
/// }]}
/// ```
public struct AppsFile: Sendable {
    public var apps: [AppIdentity] = []
    /// By bundle id.
    public var catalogues: [String: Catalogue] = [:]
    /// By bundle id.
    public var sharedSecrets: [String: String] = [:]

    /// Reads the file.
    ///
    /// - Throws: ``AppsFileError``, which names the member that is wrong and its line.
    public init(parsing text: [UInt8]) throws(AppsFileError) {
        let json: JSONValue
        do {
            json = try JSONValue(parsing: text)
        } catch {
            throw AppsFileError(text, offset: error.offset, "This is no JSON: \(error.message).")
        }
        let root = Member(text: text, path: [], value: json)
        try root.requireNames(["apps"])
        for app in try root.array("apps") { try add(app) }
        guard !apps.isEmpty else { throw root.error("apps names no app; at least one is needed.") }
    }

    private mutating func add(_ app: Member) throws(AppsFileError) {
        try app.requireNames(["bundleId", "appAppleId", "sharedSecret", "staleLeewaySeconds", "products"])
        guard let bundleId = try app.string("bundleId") else { throw app.error("bundleId is missing.") }
        guard catalogues[bundleId] == nil else { throw app.error("bundleId \(bundleId) is there twice.") }
        var catalogue = Catalogue()
        if let seconds = try app.number("staleLeewaySeconds", in: 0...30 * 86_400) {
            catalogue.staleLeeway = .seconds(seconds)
        }
        for product in try app.members("products") {
            catalogue.products[product.name] = try Catalogue.Product(product)
        }
        apps.append(AppIdentity(bundleId: bundleId, appAppleId: try app.number("appAppleId", in: 1...Int64.max)))
        catalogues[bundleId] = catalogue
        sharedSecrets[bundleId] = try app.string("sharedSecret")
    }
}

/// What is wrong with the file, and where.
public struct AppsFileError: Error, CustomStringConvertible {
    /// Counted from 1.
    public var line: Int
    public var message: String

    public var description: String { "line \(line): \(message)" }

    fileprivate init(_ text: [UInt8], offset: Int, _ message: String) {
        line = 1 + text.prefix(offset).count { $0 == UInt8(ascii: "\n") }
        self.message = message
    }
}

extension Catalogue.Product {
    fileprivate init(_ product: Member) throws(AppsFileError) {
        try product.requireNames(["entitlements", "level", "durationDays"])
        var names: Set<String> = []
        for name in try product.array("entitlements") {
            guard let text = name.value.string, !text.isEmpty else { throw name.error("An entitlement is a name.") }
            names.insert(text)
        }
        let days = try product.number("durationDays", in: 1...36_500)
        self.init(
            entitlements: names, level: try product.number("level", in: 1...10_000).map(Int.init),
            duration: days.map { .seconds($0 * 86_400) })
    }
}

/// A value in the file with the way to it.
private struct Member {
    let text: [UInt8]
    let path: [String]
    let value: JSONValue

    var name: String { path.last ?? "" }

    private func member(_ name: String, _ value: JSONValue) -> Member {
        Member(text: text, path: path + [name], value: value)
    }

    /// What is wrong, at the line where the last name of the way to it stands, as near as can be found.
    func error(_ message: String) -> AppsFileError {
        var offset = 0
        for name in path {
            let quoted = Array("\"\(name)\"".utf8)
            if let range = text[offset...].firstRange(of: quoted) { offset = range.lowerBound }
        }
        let place = path.isEmpty ? "" : path.joined(separator: ".") + ": "
        return AppsFileError(text, offset: offset, place + message)
    }

    func requireNames(_ known: Set<String>) throws(AppsFileError) {
        guard let members = value.members else { throw error("An object was expected.") }
        for found in members where !known.contains(found.name) {
            throw member(found.name, found.value).error(
                "There is no such setting; known are \(known.sorted().joined(separator: ", ")).")
        }
    }

    func string(_ name: String) throws(AppsFileError) -> String? {
        guard let found = value[name] else { return nil }
        guard let text = found.string, !text.isEmpty else { throw member(name, found).error("A text was expected.") }
        return text
    }

    func number(_ name: String, in range: ClosedRange<Int64>) throws(AppsFileError) -> Int64? {
        guard let found = value[name] else { return nil }
        guard let number = found.integer, range.contains(number) else {
            throw member(name, found).error(
                "A whole number from \(range.lowerBound) to \(range.upperBound) was expected.")
        }
        return number
    }

    func array(_ name: String) throws(AppsFileError) -> [Member] {
        guard let found = value[name] else { return [] }
        guard let elements = found.array else { throw member(name, found).error("An array was expected.") }
        return elements.map { member(name, $0) }
    }

    func members(_ name: String) throws(AppsFileError) -> [Member] {
        guard let found = value[name] else { return [] }
        guard let members = found.members else { throw member(name, found).error("An object was expected.") }
        return members.map { Member(text: text, path: path + [name, $0.name], value: $0.value) }
    }
}
