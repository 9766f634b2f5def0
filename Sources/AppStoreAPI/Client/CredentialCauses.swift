// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// The possible reasons why Apple refused a bearer token. Apple's answer 401 gives no reason, so the sentences list
/// everything to check: the values in the token, and Apple's conditions for the key and the app. The sentences contain
/// neither the key nor the token.
struct CredentialCauses {
    let key: InAppPurchaseKey
    let bundleId: String
    let environment: Environment
    /// How far this machine's clock is ahead of Apple's, negative if behind. `nil` if the answer has no date.
    let aheadBy: Duration?

    /// Sentences for the operator.
    var sentences: String {
        var causes = """
            Compare with App Store Connect: \(key.id) is the id of this key; the key is an “In-App Purchase” key, not \
            an “App Store Connect API” key, and is not revoked; \(key.issuer) is the issuer; \(bundleId) is an app of \
            that account.
            """
        if environment == .production {
            causes += " Production also refuses an app until it has been in the App Store."
        }
        if let clock = aheadBy.flatMap(Self.clock) { causes += " \(clock)" }
        return causes
    }

    /// The minimum reported clock difference. A smaller difference causes no refusal, because each token is backdated
    /// by a minute.
    private static let tolerance = Duration.seconds(60)

    private static func clock(_ aheadBy: Duration) -> String? {
        let distance = aheadBy < .zero ? .zero - aheadBy : aheadBy
        guard distance >= tolerance else { return nil }
        let side = aheadBy > .zero ? "ahead of" : "behind"
        return "This machine's clock is \(words(distance)) \(side) Apple's: set it by NTP."
    }

    /// A time difference for people: in minutes up to two hours, in hours up to two days, then in days.
    private static func words(_ distance: Duration) -> String {
        let minutes = Int((distance / .seconds(60)).rounded())
        let (count, unit) =
            switch minutes {
            case ..<120: (minutes, "minute")
            case ..<2880: ((minutes + 30) / 60, "hour")
            default: ((minutes + 720) / 1440, "day")
            }
        return "\(numbers.indices.contains(count) ? numbers[count] : "\(count)") \(unit)\(count == 1 ? "" : "s")"
    }

    private static let numbers = [
        "no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    ]
}

extension APIAnswer {
    /// How far the client's clock is ahead of the server's clock; `nil` if the answer has no date.
    ///
    /// - Parameter now: The client's time when the answer arrived.
    func distance(of now: Timestamp) -> Duration? {
        guard let date else { return nil }
        let (distance, isTooFar) = now.milliseconds.subtractingReportingOverflow(date.milliseconds)
        return isTooFar ? nil : .milliseconds(distance)
    }
}
