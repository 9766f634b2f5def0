// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// The dates of a transaction's refund requests and of the App Store's decisions. Each date is the signing date of a
/// notification.
///
/// The App Store repeats a request as a new notification some hours later. The repetitions are therefore found from all
/// dates together, so that the order of arrival does not matter.
package struct RefundDates: Codable, Hashable, Sendable {
    /// The dates of CONSUMPTION_REQUEST, without duplicates, ascending.
    private(set) var requests: [Timestamp] = []
    /// The dates of REFUND, REFUND_DECLINED and REFUND_REVERSED, without duplicates, ascending.
    private(set) var decisions: [Timestamp] = []

    /// The period for repetitions. After this time, a request is a new request: the App Store asks three times in 16
    /// hours.
    private static let repetition = Duration.seconds(86_400)

    /// The maximal number of dates of each kind. Only the newest dates are kept, so that a job stays small. A month of
    /// repetitions every 8 hours has 90 dates.
    private static let most = 100

    mutating func addRequest(_ date: Timestamp) { Self.add(date, to: &requests) }

    mutating func addDecision(_ date: Timestamp) { Self.add(date, to: &decisions) }

    private static func add(_ date: Timestamp, to dates: inout [Timestamp]) {
        dates = Array(Set(dates + [date]).sorted().suffix(most))
    }

    /// The last request, from its first date to the date of its last repetition; `nil` if there is none.
    ///
    /// A date is a repetition if it is within a day of the first date, and the App Store has decided nothing between
    /// the two.
    var lastRequest: ClosedRange<Timestamp>? {
        var last: ClosedRange<Timestamp>?
        for date in requests {
            if let known = last, isRepetition(date, of: known.lowerBound) {
                last = known.lowerBound...date
            } else {
                last = date...date
            }
        }
        return last
    }

    private func isRepetition(_ date: Timestamp, of first: Timestamp) -> Bool {
        date < first.advanced(by: Self.repetition) && !decisions.contains { first < $0 && $0 <= date }
    }
}
