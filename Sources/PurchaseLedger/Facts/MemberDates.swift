// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// When the documents were signed from which members come, by the member's name. Nearly always empty.
public struct MemberDates: Hashable, Sendable {
    private var dates: [String: Timestamp] = [:]

    public init() {}

    /// Whether there are no dates.
    public var isEmpty: Bool { dates.isEmpty }

    /// When a member's document was signed; `nil` if the member comes from the newest document.
    public subscript(_ name: String) -> Timestamp? {
        get { dates.isEmpty ? nil : dates[name] }
        set {
            if newValue != nil || !dates.isEmpty { dates[name] = newValue }
        }
    }
}

/// Pairs `name milliseconds`, sorted by name and separated by commas. Without dates, null is stored.
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
