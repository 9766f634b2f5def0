// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// The signing dates of members, by the names of the members. Nearly always empty.
public struct MemberDates: Hashable, Sendable {
    private var dates: [String: Timestamp] = [:]

    public init() {}

    /// Whether there are no dates.
    public var isEmpty: Bool { dates.isEmpty }

    /// The signing date of a member's document; `nil` if the member is from the newest document.
    public subscript(_ name: String) -> Timestamp? {
        get { dates.isEmpty ? nil : dates[name] }
        set {
            if newValue != nil || !dates.isEmpty { dates[name] = newValue }
        }
    }
}

/// Pairs of the form `name milliseconds`, separated by commas, in the order of the names. No dates are stored as null.
extension MemberDates: Storable {
    @usableFromInline
    package init?(_ stored: StoredValue) {
        guard stored != .null else { return }
        guard case .text(let text) = stored else { return nil }
        for pair in text.split(separator: ",", omittingEmptySubsequences: false) {
            let words = pair.split(separator: " ", omittingEmptySubsequences: false)
            guard words.count == 2, let date = Int64(words[1]) else { return nil }
            dates[String(words[0])] = Timestamp(milliseconds: date)
        }
    }

    @usableFromInline package var stored: StoredValue {
        guard !dates.isEmpty else { return .null }
        return .text(
            dates.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value.milliseconds)" }.joined(separator: ","))
    }
}
