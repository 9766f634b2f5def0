// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// Dates in HTTP fields, in the form that senders must use (RFC 9110 section 5.6.7).
enum HTTPDate {
    private static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

    /// The time of a date such as `Sun, 06 Nov 1994 08:49:37 GMT`; `nil` if the text has a different form.
    static func time(_ text: String) -> Timestamp? {
        let parts = text.split { " :".contains($0) }
        guard parts.count == 8, parts[7] == "GMT", let month = months.firstIndex(of: String(parts[2])) else {
            return nil
        }
        let numbers = [1, 3, 4, 5, 6].compactMap { Int(parts[$0]) }
        guard numbers.count == 5 else { return nil }
        return Timestamp((numbers[1], month + 1, numbers[0]), (numbers[2], numbers[3], numbers[4]))
    }
}
