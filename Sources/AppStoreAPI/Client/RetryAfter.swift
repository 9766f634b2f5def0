// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel

/// The header `Retry-After` in Apple's form: UNIX time in milliseconds.
///
/// The header may also have seconds or a date (RFC 9110 section 10.2.3), for example from a proxy. Both forms are
/// accepted too.
package enum RetryAfter {
    /// The maximum delay in milliseconds: an hour, the period of Apple's rate limits. Later times are capped.
    package static let longest: Int64 = 3_600_000

    /// Numbers from this value up count as times in milliseconds, the earliest of which is in 1973. Smaller numbers
    /// count as seconds; as such, this value would be 3,000 years.
    private static let firstTime: Int64 = 100_000_000_000

    /// The time at which calls may resume; `nil` if the header has no usable value.
    ///
    /// - Parameter longest: The maximum delay in milliseconds.
    package static func time(_ header: String?, at now: Timestamp, longest: Int64 = longest) -> Timestamp? {
        guard let header,
            let time = number(header, at: now, longest: longest) ?? HTTPDate.time(header)?.milliseconds
        else { return nil }
        let latest = now.milliseconds + longest
        return Timestamp(milliseconds: min(max(time, now.milliseconds), latest))
    }

    private static func number(_ text: String, at now: Timestamp, longest: Int64) -> Int64? {
        guard let number = Int64(text), number >= 0 else { return nil }
        return number >= firstTime ? number : now.milliseconds + min(number, longest) * 1000
    }
}
