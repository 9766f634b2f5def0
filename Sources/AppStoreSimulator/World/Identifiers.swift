// SPDX-License-Identifier: Apache-2.0

import Crypto

/// Numbers and UUIDs that follow from a seed: equal seeds give equal identifiers in every process.
///
/// Each kind of identifier has its own stream: a sequence that depends on no other kind. An additional notification,
/// for example, therefore does not change the id of the next transaction.
struct Identifiers: Sendable {
    /// The purpose of an identifier.
    enum Stream: String, Hashable, Sendable {
        case transaction, webOrderLineItem, appTransaction, order, notification, device, account, external, request
        case deviceVerification, deviceNonce
    }

    /// The number of identifiers of each kind that are reserved for a run. The next run's identifiers begin after them.
    /// A run cannot use up so many, because the memory would not suffice.
    private static let ofRun: UInt64 = 100_000_000

    private let seed: UInt64
    private let first: UInt64
    private var used: [Stream: UInt64] = [:]

    /// - Parameter run: The number of earlier runs with this seed. Each run has its own identifiers.
    init(seed: UInt64, run: UInt64 = 0) {
        self.seed = seed
        first = run &* Self.ofRun
    }

    /// The next number of a stream. The numbers ascend with unpredictable gaps, so that no test relies on adjacent
    /// numbers.
    mutating func number(_ stream: Stream, from first: UInt64) -> UInt64 {
        let index = next(stream)
        return first &+ index &* 64 &+ (hash(stream, index).first ?? 0) % 64
    }

    /// The next UUID of a stream, in lower case (RFC 9562, version 8: defined by the application).
    mutating func uuid(_ stream: Stream) -> String {
        let index = next(stream)
        var bytes = hash(stream, index).flatMap { word in (0..<8).map { UInt8(truncatingIfNeeded: word >> ($0 * 8)) } }
        bytes[6] = bytes[6] & 0x0f | 0x80
        bytes[8] = bytes[8] & 0x3f | 0x80
        let hex = bytes.prefix(16).map { byte in String(byte >> 4, radix: 16) + String(byte & 15, radix: 16) }
        return [0..<4, 4..<6, 6..<8, 8..<10, 10..<16].map { hex[$0].joined() }.joined(separator: "-")
    }

    /// The next order id: `M` and nine letters and digits in upper case.
    ///
    /// The nine characters have 45 bits. Multiplication by an odd factor permutes the 45-bit numbers, so the first 2^45
    /// orders of a seed have different ids.
    mutating func orderId() -> String {
        var number = next(.order) &* 0x9e37_79b9_7f4a_7c15 &+ (hash(.order, 0).first ?? 0)
        let letters = Array("0123456789ABCDEFGHJKMNPQRSTVWXYZ")
        let digits = (0..<9).map { _ in
            defer { number >>= 5 }
            return letters[Int(number & 31)]
        }
        return "M" + String(digits)
    }

    private mutating func next(_ stream: Stream) -> UInt64 {
        let index = used[stream, default: first]
        used[stream] = index + 1
        return index
    }

    private func hash(_ stream: Stream, _ index: UInt64) -> [UInt64] {
        let digest = Array(SHA256.hash(data: Array("\(seed) \(stream.rawValue) \(index)".utf8)))
        return stride(from: 0, to: 16, by: 8).map { start in
            digest[start..<start + 8].reduce(0) { $0 << 8 | UInt64($1) }
        }
    }
}
