// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation

/// A request to one route: what its path, query and body contain.
struct StoreCall: Sendable {
    var request: StoreRequest
    /// The environment whose host was called.
    var environment: Environment
    /// The path's variable parts, in their order.
    var parameters: [String]
    /// The wall clock's time.
    var wallClock: Timestamp

    /// The path's only variable part, or the first of several.
    var id: String { parameters.first ?? "" }

    /// The values of a parameter of the query.
    func values(_ name: String) -> [String] {
        request.query.filter { $0.name == name }.map(\.value)
    }

    /// The value of a parameter of the query that does not repeat.
    func value(_ name: String) -> String? { values(name).last }

    /// The body as a JSON object.
    func json() throws(StoreRefusal) -> JSONValue {
        try JSONValue(readable: request.body).require(
            as: { $0.members == nil ? nil : $0 },
            else: StoreRefusal(.generalBadRequest, "The body is not a JSON object."))
    }
}

extension JSONValue {
    /// A member that is there and not null.
    func member(_ name: String) -> JSONValue? {
        self[name].flatMap { $0 == .null ? nil : $0 }
    }

    /// A member that is one of Apple's words.
    ///
    /// - Throws: The code if it is missing or no such word.
    func word<Word: RawRepresentable>(
        _ name: String, else code: APIErrorCode
    ) throws(StoreRefusal) -> Word where Word.RawValue == String {
        try self[name].require(as: { $0.string.flatMap { Word(rawValue: $0) } }, else: StoreRefusal(code))
    }

    /// A member that is a number within bounds.
    ///
    /// - Throws: The code if it is missing or no such number.
    func number(_ name: String, in range: ClosedRange<Int64>, else code: APIErrorCode) throws(StoreRefusal) -> Int {
        try self[name].require(as: { $0.integer(in: range).map { Int($0) } }, else: StoreRefusal(code))
    }

    /// A member that is true or false.
    ///
    /// - Throws: The code if it is missing or neither.
    func flag(_ name: String, else code: APIErrorCode) throws(StoreRefusal) -> Bool {
        try self[name].require(as: \.bool, else: StoreRefusal(code))
    }

    /// A member that is a time in milliseconds.
    ///
    /// - Throws: The code if it is missing or no such time.
    func time(_ name: String, else code: APIErrorCode) throws(StoreRefusal) -> Timestamp {
        // Any fault of the time has the same code.
        try self[name].require(as: { try? $0.decode(Timestamp.self) }, else: StoreRefusal(code))
    }
}

extension String {
    /// Whether it has the form of a transaction id: digits of a number of 64 bits.
    var isTransactionId: Bool {
        utf8.allSatisfy { (0x30...0x39).contains($0) } && Int64(self) != nil
    }

    var isUUID: Bool { UUID(uuidString: self) != nil }
}
