// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// The dates of a transaction's refund requests and of the App Store's decisions. Each date is the signing date of a
/// notification.
///
/// Some hours after a request, the App Store repeats it in a notification that looks like a new request. Only its date
/// shows that it is a repetition. All dates are compared together, so that the order of arrival does not matter.
package struct RefundDates: Codable, Hashable, Sendable {
    /// The dates of CONSUMPTION_REQUEST, without duplicates, ascending.
    private(set) var requests: [Timestamp] = []
    /// The dates of REFUND, REFUND_DECLINED and REFUND_REVERSED, without duplicates, ascending.
    private(set) var decisions: [Timestamp] = []

    /// How long after a request a further request counts as a repetition rather than as a new request. A day suffices,
    /// because the App Store asks three times within 16 hours.
    private static let repetition = Duration.seconds(86_400)

    /// The maximum number of dates of each kind. Only the newest dates are kept, so that a job stays small. Even a
    /// month of repetitions every 8 hours makes only 90 dates.
    private static let most = 100

    mutating func addRequest(_ date: Timestamp) { Self.add(date, to: &requests) }

    mutating func addDecision(_ date: Timestamp) { Self.add(date, to: &decisions) }

    private static func add(_ date: Timestamp, to dates: inout [Timestamp]) {
        dates = Array(Set(dates + [date]).sorted().suffix(most))
    }

    /// The last request, from its first date to the date of its last repetition; `nil` if there is none.
    ///
    /// A date is a repetition if it is within a day of the request's first date, and the App Store has not decided
    /// about a refund between the two.
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
