// SPDX-License-Identifier: Apache-2.0

/// A small random number generator with a seed: SplitMix64, by Steele, Lea and Flood. Equal seeds give equal numbers in
/// every process, so that a run can be repeated.
package struct SeededRandom: RandomNumberGenerator, Sendable {
    private var state: UInt64

    package init(seed: UInt64) {
        state = seed
    }

    package mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
        return mixed ^ (mixed >> 31)
    }

    /// Returns true with the given probability.
    mutating func decides(_ share: Double) -> Bool {
        share > 0 && Double.random(in: 0..<1, using: &self) < share
    }

    /// One of the results, each with its own probability; `nil` with the remaining probability.
    mutating func choice<Result>(of results: [(share: Double, result: Result)]) -> Result? {
        guard results.contains(where: { $0.share > 0 }) else { return nil }
        var number = Double.random(in: 0..<1, using: &self)
        for (share, result) in results {
            number -= share
            if number < 0 { return result }
        }
        return nil
    }
}
