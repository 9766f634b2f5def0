// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation

/// A request to an endpoint (route), with functions that read the variable parts of its path, its query and its body.
struct StoreCall: Sendable {
    var request: StoreRequest
    /// The environment whose host was called.
    var environment: Environment
    /// The variable parts of the path, in order.
    var parameters: [String]
    /// The wall clock's time.
    var wallClock: Timestamp

    /// The first variable part of the path.
    var id: String { parameters.first ?? "" }

    /// The values of a query parameter.
    func values(_ name: String) -> [String] { request.query.filter { $0.name == name }.map(\.value) }

    /// The value of a query parameter; the last value if the parameter repeats.
    func value(_ name: String) -> String? { values(name).last }

    /// The body as a JSON object.
    func json() throws(StoreRefusal) -> JSONValue {
        try JSONValue(readable: request.body).require(
            as: { $0.members == nil ? nil : $0 },
            else: StoreRefusal(.generalBadRequest, "The body is not a JSON object."))
    }
}

extension JSONValue {
    /// A member; `nil` if the member is absent or null.
    func member(_ name: String) -> JSONValue? { self[name].flatMap { $0 == .null ? nil : $0 } }

    /// A member with one of Apple's constants as its value.
    ///
    /// - Throws: `StoreRefusal` with the code if the member is missing or has no such value.
    func word<Word: RawRepresentable>(
        _ name: String, else code: APIErrorCode
    ) throws(StoreRefusal) -> Word where Word.RawValue == String {
        try self[name].require(as: { $0.string.flatMap { Word(rawValue: $0) } }, else: StoreRefusal(code))
    }

    /// A member with a number in a range as its value.
    ///
    /// - Throws: `StoreRefusal` with the code if the member is missing or has no such value.
    func number(_ name: String, in range: ClosedRange<Int64>, else code: APIErrorCode) throws(StoreRefusal) -> Int {
        try self[name].require(as: { $0.integer(in: range).map { Int($0) } }, else: StoreRefusal(code))
    }

    /// A member with true or false as its value.
    ///
    /// - Throws: `StoreRefusal` with the code if the member is missing or has no such value.
    func flag(_ name: String, else code: APIErrorCode) throws(StoreRefusal) -> Bool {
        try self[name].require(as: \.bool, else: StoreRefusal(code))
    }

    /// A member with a time in milliseconds as its value.
    ///
    /// - Throws: `StoreRefusal` with the code if the member is missing or has no such value.
    func time(_ name: String, else code: APIErrorCode) throws(StoreRefusal) -> Timestamp {
        // Every error of the member has the same code, so the decoder's reason is dropped.
        try self[name].require(as: { try? $0.decode(Timestamp.self) }, else: StoreRefusal(code))
    }
}

extension String {
    /// Whether the text has the form of a transaction id: the digits of a signed 64-bit number.
    var isTransactionId: Bool { utf8.allSatisfy { (0x30...0x39).contains($0) } && Int64(self) != nil }

    var isUUID: Bool { UUID(uuidString: self) != nil }
}
