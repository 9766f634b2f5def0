// SPDX-License-Identifier: Apache-2.0

import Foundation

/// The reason why a value was not signed: the App Store would refuse the value, or the signature failed.
public struct SigningError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The kind of fault, for programs.
    @nonexhaustive
    public enum Code: String, CaseIterable, Sendable {
        /// A member that Apple requires is missing or empty.
        case missing
        /// A member has a value that Apple does not allow.
        case invalid
        /// The operation of an Advanced Commerce request is none that an app can pass to StoreKit.
        case unknownOperation
        /// There is no key to sign with, or the cryptography failed.
        case unsigned
    }

    /// The kind of fault, for programs.
    public var code: Code
    /// The path of the faulty member, such as `items[0].SKU`; `nil` if the fault is not in a single member.
    public var member: String?
    /// A description of the fault, for people: a sentence.
    public var message: String

    init(_ code: Code, _ member: String?, _ message: String) {
        self.code = code
        self.member = member
        self.message = message
    }

    init(_ code: Code, _ message: String) { self.init(code, nil, message) }

    /// The message, preceded by the member.
    public var description: String { (member.map { "\($0): " } ?? "") + message }
}

// MARK: - Rules for single values

extension SigningError {
    /// Checks a text that Apple requires.
    static func require(_ text: String?, _ member: String) throws(SigningError) {
        guard text?.isEmpty == false else { throw SigningError(.missing, member, "The value is missing or empty.") }
    }

    /// Checks a UUID in any case.
    static func requireUUID(_ text: String, _ member: String) throws(SigningError) {
        try require(text, member)
        guard UUID(uuidString: text) != nil else { throw SigningError(.invalid, member, "The value is not a UUID.") }
    }

    /// Checks a UUID that Apple requires in lower case.
    static func requireLowerCaseUUID(_ text: String, _ member: String) throws(SigningError) {
        try requireUUID(text, member)
        guard text == text.lowercased() else { throw SigningError(.invalid, member, "The value is not in lower case.") }
    }
}
