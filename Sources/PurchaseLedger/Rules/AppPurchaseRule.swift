// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// A rule by which a purchase of the app itself grants entitlements, for example because the app cost money before some
/// version. All given conditions must hold. A fact that the purchase's documents lack meets no condition.
public struct AppPurchaseRule: Hashable, Sendable {
    /// The customer bought an earlier version than this; `nil` for any version.
    public var beforeVersion: AppVersion?
    /// The customer bought the app before this time; `nil` for any time.
    public var beforeDate: Timestamp?
    /// The platform of the first purchase; `nil` for any platform. Receipts do not name the platform.
    public var platform: Open<PurchasePlatform>?
    /// The entitlements.
    public var entitlements: Set<String>

    public init(
        beforeVersion: AppVersion? = nil, beforeDate: Timestamp? = nil, platform: Open<PurchasePlatform>? = nil,
        entitlements: Set<String>
    ) {
        self.beforeVersion = beforeVersion
        self.beforeDate = beforeDate
        self.platform = platform
        self.entitlements = entitlements
    }

    /// Whether a purchase of the app meets all conditions.
    func holds(for app: TransactionStatement) -> Bool {
        if let beforeVersion {
            guard let version = app.originalApplicationVersion.flatMap(AppVersion.init), version < beforeVersion else {
                return false
            }
        }
        if let beforeDate {
            guard let date = app.purchaseDate, date < beforeDate else { return false }
        }
        return platform == nil || app.originalPlatform == platform
    }
}

/// The version of an app as dotted numbers, such as `2.0.1`. Missing numbers at the end count as 0.
///
/// Apple's documents have the text of the app's `Info.plist`: the build number (`CFBundleVersion`) on iOS, and the
/// version that customers see (`CFBundleShortVersionString`) on macOS.
public struct AppVersion: Hashable, Sendable {
    /// The numbers, without zeros at the end. Each number is its digits without leading zeros, because a number in a
    /// document may be of any length.
    private let numbers: [String]

    /// - Returns: `nil` unless `text` is one or more numbers with dots between them.
    public init?(_ text: String) {
        let parts = text.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard
            parts.allSatisfy({ !$0.isEmpty && $0.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) } })
        else { return nil }
        var numbers = parts.map { String(decoding: $0.drop { $0 == UInt8(ascii: "0") }, as: UTF8.self) }
        while numbers.last?.isEmpty == true { numbers.removeLast() }
        self.numbers = numbers
    }
}

extension AppVersion: CustomStringConvertible {
    /// The numbers with dots between them, without zeros at the end.
    public var description: String { numbers.map { $0.isEmpty ? "0" : $0 }.joined(separator: ".") }
}

extension AppVersion: Comparable {
    /// Compares number by number.
    public static func < (left: AppVersion, right: AppVersion) -> Bool {
        left.numbers.lexicographicallyPrecedes(right.numbers) { left, right in
            let lengths = (left.utf8.count, right.utf8.count)
            return lengths.0 == lengths.1 ? left < right : lengths.0 < lengths.1
        }
    }
}
