// SPDX-License-Identifier: Apache-2.0

/// The required cost of a verification: a row of the table that `RatioTable` prints.
public struct Goal: Sendable {
    /// The benchmark's name.
    public let name: String
    /// The title of the row in the table.
    public let title: String
    /// The required and the target figure.
    public let bound: Bound

    /// A kind of bound, with its figures.
    public enum Bound: Sendable {
        /// At most this multiple of the time of the signature checks in the verification.
        case ratio(required: Double, target: Double?)
        /// At most this multiple of the time of the signature checks in the verification, plus `microseconds`.
        case ratioBeside(microseconds: Double, required: Double)
        /// At most this many microseconds.
        case time(required: Double, target: Double?)
        /// At least this multiple of the throughput of one thread.
        case scaling(required: Double)
    }
}

extension Goal {
    public static let token = Goal(
        name: "jws-known", title: "JWS transaction, known signer", bound: .ratio(required: 1.35, target: 1.2))
    public static let newToken = Goal(
        name: "jws-new", title: "JWS transaction, new signer", bound: .ratioBeside(microseconds: 150, required: 1.15))
    public static let notification = Goal(
        name: "notification-known", title: "notification with two nested JWS, known signer",
        bound: .ratio(required: 3.6, target: 3.3))
    public static let receipt = Goal(
        name: "receipt-2", title: "receipt, 2 purchases, known signer", bound: .ratio(required: 1.7, target: 1.55))
    public static let largeReceipt = Goal(
        name: "receipt-187", title: "receipt, 187 purchases (79 KB), known signer",
        bound: .time(required: 600, target: 300))
    public static let answer = Goal(
        name: "answer-187", title: "the same, from request to verifyReceipt answer",
        bound: .time(required: 1500, target: 800))
    public static let threads = Goal(
        name: "jws-threads", title: "JWS transactions, two threads to one", bound: .scaling(required: 1.8))

    /// All rows, in the order of the table.
    public static let all = [token, newToken, notification, receipt, largeReceipt, answer, threads]
}

/// The names of the metrics that the benchmarks record in addition to the wall clock.
public enum Measure {
    /// Nanoseconds of the verification.
    public static let whole = "Verification (ns)"
    /// Nanoseconds of the signature checks in the verification. If threads are compared, nanoseconds of one
    /// verification on each of two threads.
    public static let beside = "Beside it (ns)"
    /// `whole` relative to `beside` in thousandths. Both are measured in turn, so that noise affects both.
    public static let ratio = "Ratio (per mille)"
    /// Calls of the allocator in the verification.
    public static let allocations = "Allocations"
    /// Calls of the allocator in the signature checks.
    public static let rawAllocations = "Raw allocations"

    /// The names of all metrics.
    public static let all = [whole, beside, ratio, allocations, rawAllocations]
}
