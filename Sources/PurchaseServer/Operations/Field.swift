// SPDX-License-Identifier: Apache-2.0

// The fields of an operation's input. HTTP, the command line and their help read them here.

package import AppStoreModel
import PurchaseLedger

/// A part of the path, a parameter of the query or a member of the body; on the command line an argument or an option.
package struct Field: Hashable, Sendable {
    package enum Place: Sendable {
        case path, query, body
    }

    package enum Form: Hashable, Sendable {
        case text(TextForm)
        /// A text as long as the body, such as a signed document.
        case document
        /// In milliseconds since 1970; on the command line also as a date or as a distance in whole days of UTC.
        case time
        case number(ClosedRange<Int64>)
        case flag
        /// One of these words, in upper or lower case.
        case word([String])
        /// Different of these words, in a query and on the command line separated by commas.
        case words([String])
        /// Texts, as long as the body without a form, on the command line the values of an option that may be repeated.
        case list(TextForm?, atMost: Int)
        /// An object that the operation reads itself; on the command line arguments of the form `name=value`.
        case object
    }

    package let name: String
    package private(set) var place: Place
    /// A phrase such as `a transaction id`. ``explanation(isOption:)`` has the form too.
    package let meaning: String
    package let form: Form
    package let isRequired: Bool
    /// Whether `null` is a value.
    package let isNullable: Bool
    /// The name on the command line, without hyphens before it.
    package private(set) var option: String
    /// Whether the command line has an argument, not an option.
    package let isArgument: Bool
    /// Whether a command makes up a UUID for a field that it was not given.
    package let isMadeUp: Bool
    /// Whether a distance on the command line, such as `7d`, goes back from now.
    package let isPast: Bool
    /// What counts without the field, such as `production` or `100`.
    package private(set) var standard: String?

    init(
        _ name: String, in place: Place = .body, _ meaning: String, _ form: Form = .text(.other),
        isRequired: Bool = false, isNullable: Bool = false, option: String? = nil, isArgument: Bool = false,
        isMadeUp: Bool = false, isPast: Bool = false, standard: String? = nil
    ) {
        self.name = name
        self.place = place
        self.meaning = meaning
        self.form = form
        self.isRequired = isRequired || place == .path
        self.isArgument = isArgument || place == .path || form == .object
        self.isMadeUp = isMadeUp
        self.isNullable = isNullable
        self.standard = standard
        self.isPast = isPast
        self.option = option ?? name.reduce("") { $0 + ($1.isUppercase ? "-\($1.lowercased())" : "\($1)") }
    }

    /// The meaning, the form, and what counts without the field.
    ///
    /// - Parameter isOption: Whether it is for the help of a command, not for users of HTTP.
    package func explanation(isOption: Bool) -> String {
        let words =
            switch form {
            case .number(let range): ", from \(range.lowerBound) to \(range.upperBound)"
            case .word(let words): ": \(words.alternatives(with: "`"))"
            case .words where isOption || place == .query: ", separated by commas"
            case .time where isOption: ", \(timeForm)"
            case .list where isOption: "; may be repeated"
            default: ""
            }
        let all = !isNullable ? "" : isOption ? ", or all" : ", or `null` for all"
        let standard = isOption && name == Field.isNew.name ? "false" : standard
        return meaning + words + all + (standard.map { "; \($0) without it" } ?? "")
    }

    /// The field with another value that counts without it.
    func with(standard: String) -> Field {
        var changed = self
        changed.standard = standard
        return changed
    }
}

// MARK: - Shared fields

extension Field {
    package static let customer = Field(
        "id", in: .path, "your app's own id for a customer", .text(.customerID), option: "customer")
    static let transaction = Field("id", in: .path, "a transaction id", .text(.transactionID), option: "transaction-id")
    /// For operations that find a purchase by any of its transactions.
    static let purchase = Field(
        "id", in: .path, "any transaction id or the original transaction id of a purchase", .text(.purchaseID),
        option: "purchase")
    static let alias = Field("alias", "another id of the customer", .text(.customerID), isRequired: true)
    static let reason = Field(
        "reason", "the reason; events keep it for ever, so name no person", .text(.reason), isRequired: true)
    package static let by = Field("by", "the name of the person who asks, which nobody checks", .text(.author))
    /// For changes without a reason of their own.
    package static let auditReason = Field("reason", "the reason, for the audit list; name no person", .text(.reason))
    static let environment = Field(
        "environment", in: .query, "the environment", .word(Environment.words), standard: "production")
    /// For changes of a customer.
    static let environmentOfChange = Field(
        "environment", in: .query, "the environment that the event names (the change is for all)",
        .word(Environment.words), standard: "production")
    /// For the command that makes a key.
    package static let expires = Field("expires", "the time from which a server refuses the key", .time)
    /// A filter of events.
    static let eventEnvironment = Field(
        "environment", in: .query, "only events of this environment", .word(Environment.words), standard: "all")
    /// For operations that can answer about several environments.
    package static let environments = Field(
        "environment", in: .query, "the environment that counts", .word(Environment.words + ["any"]),
        standard: "those that `sandboxAccess` says")
    /// For operations that find something by its id in the first of several environments.
    static let searched = Field(
        "environment", in: .query, "the environment to search", .word(Environment.words + ["any"]),
        standard: "production, then by `sandboxAccess` the sandbox")
}

// MARK: - The audit list

extension Field {
    /// The least limit on a body with a name and a reason in bytes: more than twice both, with every character escaped.
    static let auditLength = 16 << 10

    /// Whether it is the reason for a change.
    var isReason: Bool { [.text(.reason), .text(.why)].contains(form) }

    /// Who asks for a change, and why if the other fields of the operation have no reason.
    static func ofAudit(besides fields: [Field], in place: Place) -> [Field] {
        var by = by
        by.place = place
        guard !fields.contains(where: \.isReason) else { return [by] }
        var reason = auditReason
        reason.place = place
        // Apple's code for the reason of an extension.
        if fields.contains(where: { $0.option == reason.option }) { reason.option = "why" }
        return [by, reason]
    }
}

extension Environment {
    /// The names in requests, such as `production`.
    package static let words = allCases.map { $0.rawValue.prefix(1).lowercased() + $0.rawValue.dropFirst() }
}

// MARK: - Faults

/// A fault of an operation's input. HTTP and the command line say it in the same words.
package struct FieldFault: Error, CustomStringConvertible {
    let name: String
    /// What follows the name.
    let reason: String

    init(_ name: String, _ reason: String) {
        self.name = name
        self.reason = reason
    }

    package var description: String { name + reason }

    static func missing(_ name: String) -> FieldFault { FieldFault(name, " is missing.") }
    static func twice(_ name: String) -> FieldFault { FieldFault(name, " is given twice.") }
    static func escape(in name: String) -> FieldFault {
        FieldFault(name, " has a % without two hexadecimal digits, or is not UTF-8.")
    }

    static func unknown(_ name: String, known: [String]) -> FieldFault {
        let accepted = known.isEmpty ? "none" : known.alternatives(" and ")
        let near = Spelling.meant(by: name, in: known)
        return FieldFault("“\(name.prefix(shown))”", " is unknown.\(near) This route accepts \(accepted).")
    }

    /// The greatest number of characters of a name or value in a sentence.
    static let shown = 40
}

extension Field {
    /// The name of the field in sentences: the member or parameter, or on the command line the argument or option.
    package func name(isOption: Bool) -> String {
        !isOption ? "“\(name)”" : isArgument ? "<\(option)>" : "--\(option)"
    }

    /// Checks a value.
    func check(_ value: JSONValue, isOption: Bool = false) throws(FieldFault) {
        guard let reason = reason(against: value, isOption) else { return }
        throw FieldFault(name(isOption: isOption), ": \(reason)")
    }

    private func reason(against value: JSONValue, _ isOption: Bool) -> String? {
        if value == .null, isNullable { return nil }
        // Not a constant: a right value, such as a receipt of 10 MB, needs no text.
        var found: String {
            switch value {
            case .string(let text): "“\(text.prefix(FieldFault.shown))”"
            case .array(let list): "A list of \(list.count)"
            case .object: "An object"
            default: "\(value.compactText.prefix(FieldFault.shown))"
            }
        }
        if place == .path, value.string?.isEmpty == true { return "The text is empty." }
        switch form {
        case .text(let form): return value.string.map { form.fault(in: $0) } ?? "\(found) is not a text."
        case .document: return value.string == nil ? "\(found) is not a text." : nil
        case .time:
            guard value.integer(in: 0...Int64.max) == nil else { return nil }
            return "\(found) is not a time \(isOption ? timeForm : "in whole milliseconds since 1970")."
        case .number(let range):
            guard value.integer(in: range) == nil else { return nil }
            return "\(found) is not a whole number from \(range.lowerBound) to \(range.upperBound)."
        case .flag: return value.bool == nil ? "\(found) is neither true nor false." : nil
        case .word(let words):
            return words.word(value.string) == nil ? "\(found) is not \(words.alternatives())." : nil
        case .words(let words):
            let list = value.array ?? []
            if let unknown = list.first(where: { !words.contains($0.string ?? "") }) {
                let text = unknown.string ?? unknown.compactText
                let near = Spelling.meant(by: text, in: words)
                return "“\(text.prefix(FieldFault.shown))” is not known.\(near) docs/events.md has all kinds."
            }
            if list.isEmpty { return value.array == nil ? "\(found) is not a list." : "The list is empty." }
            return Set(list).count < list.count ? "The list has a word twice." : nil
        case .list(let form, let limit):
            guard let list = value.array else { return "\(found) is not a list of texts." }
            if list.isEmpty { return "The list is empty." }
            if list.count > limit { return "The list has \(list.count) texts, more than \(limit)." }
            if let index = list.firstIndex(where: { $0.string == nil }) { return "[\(index)] is not a text." }
            return list.lazy.compactMap { form?.fault(in: $0.string ?? "") }.first
        case .object:
            guard let names = value.members?.map(\.name) else { return "\(found) is not an object." }
            var seen: Set<String> = []
            return names.first { !seen.insert($0).inserted }.map { "“\($0.prefix(FieldFault.shown))” is given twice." }
        }
    }

    private var timeForm: String {
        "like 2026-01-31T12:00:00Z, a date, or days \(isPast ? "ago such as 7d" : "from now such as 30d")"
    }

    /// The value in a query. A text that is no value of the form stays a text, which ``check(_:isOption:)`` refuses.
    func value(ofText text: String) -> JSONValue {
        switch form {
        case .time, .number:
            // JSON has no plus sign either.
            text.utf8.first != UInt8(ascii: "+") && Int64(text) != nil ? .number(text) : .string(text)
        case .flag: text == "true" ? .bool(true) : text == "false" ? .bool(false) : .string(text)
        case .words: .array(text.split(separator: ",", omittingEmptySubsequences: false).map { .string(String($0)) })
        default: .string(text)
        }
    }
}

extension [String] {
    /// The words with commas, and with a last word between the last two, each in marks.
    func alternatives(_ last: String = " or ", with mark: String = "") -> String {
        let words = map { mark + $0 + mark }
        return words.dropLast().joined(separator: ", ") + (words.count > 1 ? last : "") + (words.last ?? "")
    }

    /// The word that is equal to `text`, in upper or lower case.
    func word(_ text: String?) -> String? { text.flatMap { text in first { $0.lowercased() == text.lowercased() } } }
}
