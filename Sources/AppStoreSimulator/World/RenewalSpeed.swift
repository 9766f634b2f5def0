// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// The speed of subscriptions: by the calendar, or accelerated as in the sandbox, where a month takes minutes.
public struct RenewalSpeed: Hashable, Sendable {
    /// The duration of a month in minutes; `nil` for real time.
    private let monthMinutes: Int64?
    /// The duration of a week in minutes.
    private let weekMinutes: Int64

    /// Periods have the length that they have in the calendar.
    public static let realTime = RenewalSpeed(monthMinutes: nil, weekMinutes: 0)
    /// A month takes five minutes: the speed of a new sandbox account.
    public static let fiveMinutes = RenewalSpeed(monthMinutes: 5, weekMinutes: 3)
    /// A month takes fifteen minutes.
    public static let fifteenMinutes = RenewalSpeed(monthMinutes: 15, weekMinutes: 5)
    /// A month takes half an hour.
    public static let thirtyMinutes = RenewalSpeed(monthMinutes: 30, weekMinutes: 10)
    /// A month takes an hour.
    public static let oneHour = RenewalSpeed(monthMinutes: 60, weekMinutes: 15)

    /// The end of a subscription's period that begins at `start`.
    ///
    /// Apple's table has no duration for a day. Here, a day takes a seventh of a week.
    func end(of period: Period, from start: Timestamp) -> Timestamp {
        guard let monthMinutes else { return period.end(from: start) }
        let count = Int64(period.count)
        let milliseconds: Int64 =
            switch period.unit {
            case .day: count * weekMinutes * 60_000 / 7
            case .week: count * weekMinutes * 60_000
            case .month: count * monthMinutes * 60_000
            case .year: count * 12 * monthMinutes * 60_000
            }
        return Timestamp(milliseconds: start.milliseconds + milliseconds)
    }

    /// The end of the billing retries after a failed charge: after 60 days, after 90 days for a commitment, or after
    /// two accelerated months.
    func retryEnd(from start: Timestamp, isCommitment: Bool) -> Timestamp {
        guard let monthMinutes else { return start.adding(days: isCommitment ? 90 : 60) }
        return Timestamp(milliseconds: start.milliseconds + 2 * monthMinutes * 60_000)
    }

    /// The end of a grace period. With an accelerated calendar, a grace period takes half a month.
    func graceEnd(_ days: GraceDays, of period: Period, from start: Timestamp) -> Timestamp {
        guard let monthMinutes else { return days.period(after: period).end(from: start) }
        return Timestamp(milliseconds: start.milliseconds + monthMinutes * 30_000)
    }

    /// The end of a period after an extension by the developer. Days are accelerated like periods.
    func extended(_ end: Timestamp, byDays days: Int) -> Timestamp {
        guard monthMinutes != nil else { return end.adding(days: days) }
        return self.end(of: Period(days, .day), from: end)
    }

    /// The shortest time without a subscription, in milliseconds, after which `recentSubscriptionStartDate` changes.
    var ignoredGap: Int64 { monthMinutes == nil ? 60 * 86_400_000 : 600_000 }
}
