// SPDX-License-Identifier: Apache-2.0

/// Changes to bytes that several families of vectors need.
extension [UInt8] {
    /// These bytes with the first occurrence of `found` replaced; unchanged if there is none.
    func replacingFirst(_ found: [UInt8], with new: [UInt8]) -> [UInt8] {
        guard let range = firstRange(of: found) else { return self }
        return self[..<range.lowerBound] + new + self[range.upperBound...]
    }

    /// These bytes minus `other`, both as big-endian numbers. `other` has the same length and is not greater.
    func subtracting(_ other: [UInt8]) -> [UInt8] {
        var borrow = 0
        return zip(self, other).reversed().map { left, right in
            let difference = Int(left) - Int(right) - borrow
            borrow = difference < 0 ? 1 : 0
            return UInt8((difference + 256) % 256)
        }.reversed()
    }

    /// These bytes in chunks of `size`, the last one possibly shorter.
    func chunks(of size: Int) -> [[UInt8]] {
        stride(from: 0, to: count, by: size).map { Array(self[$0..<Swift.min($0 + size, count)]) }
    }
}
