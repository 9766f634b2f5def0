// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// When customers asked the App Store to refund a transaction, and when it decided: the signing dates of the
/// notifications about it.
///
/// The App Store repeats a request as another notification, some hours later. So which of them are one request is
/// computed from all dates, and does not depend on the order in which the notifications arrive.
package struct RefundDates: Codable, Hashable, Sendable {
    /// Of CONSUMPTION_REQUEST, each once, ascending.
    private(set) var requests: [Timestamp] = []
    /// Of REFUND, REFUND_DECLINED and REFUND_REVERSED, each once, ascending.
    private(set) var decisions: [Timestamp] = []

    /// A request this long after the first one is no repetition: in 16 hours the App Store asks three times.
    private static let repetition = Duration.seconds(86_400)

    /// The most dates of each kind, the newest ones, so that a job stays small. A month of repetitions every 8 hours
    /// has 90.
    private static let most = 100

    mutating func addRequest(_ date: Timestamp) { Self.add(date, to: &requests) }

    mutating func addDecision(_ date: Timestamp) { Self.add(date, to: &decisions) }

    private static func add(_ date: Timestamp, to dates: inout [Timestamp]) {
        dates = Array(Set(dates + [date]).sorted().suffix(most))
    }

    /// The last request, from its first date to that of its last repetition; `nil` if there is none.
    ///
    /// A date is a repetition if it is within a day of the first, and the App Store has decided nothing between the
    /// two.
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
