// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel

/// The header `Retry-After` as Apple writes it: UNIX time in milliseconds.
///
/// Proxies on the way write seconds or a date (RFC 9110 section 10.2.3), which are understood too.
package enum RetryAfter {
    /// The latest time that is believed, in milliseconds from now: an hour, for which Apple counts requests.
    package static let longest: Int64 = 3_600_000

    /// Numbers from here on are times, below it are seconds: 1973 in milliseconds, or 3,000 years.
    private static let firstTime: Int64 = 100_000_000_000

    /// When calls may resume; `nil` if the header says nothing usable.
    package static func time(_ header: String?, at now: Timestamp) -> Timestamp? {
        guard let header, let time = number(header, at: now) ?? HTTPDate.time(header)?.milliseconds else { return nil }
        let latest = now.milliseconds + longest
        return Timestamp(milliseconds: min(max(time, now.milliseconds), latest))
    }

    private static func number(_ text: String, at now: Timestamp) -> Int64? {
        guard let number = Int64(text), number >= 0 else { return nil }
        return number >= firstTime ? number : now.milliseconds + min(number, longest) * 1000
    }
}
