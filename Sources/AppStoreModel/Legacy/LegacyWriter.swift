// SPDX-License-Identifier: Apache-2.0

/// Writes a ``LegacyObject`` as JSON, with the types and the date texts of the App Store's own answers.
struct LegacyWriter: LegacyVisitor {
    private(set) var json: JSONWriter
    private let omitsUnknown: Bool

    init(reservingCapacity capacity: Int, omittingUnknown: Bool) {
        json = JSONWriter(reservingCapacity: capacity)
        omitsUnknown = omittingUnknown
    }

    mutating func write(_ object: some LegacyObject) {
        var object = object
        json.beginObject()
        object.visit(&self)
        if !omitsUnknown {
            for member in object.unknownMembers.members {
                json.name(member.name)
                json.value(member.value)
            }
        }
        json.endObject()
    }

    mutating func text(_ name: StaticString, _ value: inout String?) {
        guard let value else { return }
        json.name(name)
        json.string(value)
    }

    mutating func word<Word>(_ name: StaticString, _ value: inout Open<Word>?) where Word.RawValue == String {
        guard let value else { return }
        json.name(name)
        json.string(value.rawValue)
    }

    mutating func digits(_ name: StaticString, _ value: inout Int64?) {
        guard let value else { return }
        json.name(name)
        json.plainString { JSONWriter.append(value, to: &$0) }
    }

    mutating func digits<Word>(_ name: StaticString, _ value: inout Open<Word>?) where Word.RawValue == Int {
        guard let value else { return }
        json.name(name)
        json.plainString { JSONWriter.append(Int64(value.rawValue), to: &$0) }
    }

    mutating func number(_ name: StaticString, _ value: inout Int64?) {
        guard let value else { return }
        json.name(name)
        json.number(value)
    }

    mutating func number<Word>(_ name: StaticString, _ value: inout Open<Word>?) where Word.RawValue == Int {
        guard let value else { return }
        json.name(name)
        json.number(Int64(value.rawValue))
    }

    mutating func boolText(_ name: StaticString, _ value: inout Bool?) {
        guard let value else { return }
        json.name(name)
        json.string(value ? "true" : "false")
    }

    mutating func boolDigit(_ name: StaticString, _ value: inout Bool?) {
        guard let value else { return }
        json.name(name)
        json.string(value ? "1" : "0")
    }

    mutating func bool(_ name: StaticString, _ value: inout Bool?) {
        guard let value else { return }
        json.name(name)
        json.bool(value)
    }

    mutating func identifierNumber(_ name: StaticString, _ value: inout String?) {
        guard let value else { return }
        json.name(name)
        if let number = Int64(value), "\(number)" == value { json.number(number) } else { json.string(value) }
    }

    mutating func status(_ name: StaticString, _ value: inout Open<VerifyReceiptStatus>?) { number(name, &value) }

    /// Writes nothing, because the member was already written under its usual name.
    mutating func alias(_ name: StaticString, _ value: inout Bool?) {}

    mutating func dates(_ names: LegacyDateNames, _ value: inout Timestamp?) {
        guard let value else { return }
        json.name(names.gmt)
        json.plainString { LegacyDate.appendGMT(value, to: &$0) }
        json.name(names.milliseconds)
        json.plainString { JSONWriter.append(value.milliseconds, to: &$0) }
        json.name(names.pacific)
        json.plainString { LegacyDate.appendPacific(value, to: &$0) }
    }

    mutating func object<Object: LegacyObject>(_ name: StaticString, _ value: inout Object?) {
        guard let value else { return }
        json.name(name)
        write(value)
    }

    mutating func objects<Object: LegacyObject>(_ name: StaticString, _ value: inout [Object]?) {
        guard let value else { return }
        json.name(name)
        json.beginArray()
        for object in value { write(object) }
        json.endArray()
    }
}

extension LegacyObject {
    /// Encodes the object to any encoder. The members are in the App Store's order if the encoder keeps the order of
    /// members.
    public func encode(to encoder: any Encoder) throws {
        let omitsUnknown = CodingUserInfoKey.omitsUnknown.flatMap { encoder.userInfo[$0] } != nil
        let json = json(omittingUnknown: omitsUnknown)
        if let encoder = encoder as? JSONTextEncoder { return encoder.encode(json: json) }
        try JSONValue(written: json).encode(to: encoder)
    }

    /// The object as compact JSON, in the App Store's order.
    public var json: [UInt8] { json() }

    func json(reservingCapacity capacity: Int = 1024, omittingUnknown: Bool = false) -> [UInt8] {
        var writer = LegacyWriter(reservingCapacity: capacity, omittingUnknown: omittingUnknown)
        writer.write(self)
        return writer.json.bytes
    }
}
