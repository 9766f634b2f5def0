// SPDX-License-Identifier: Apache-2.0

// Reproducible API keys.

extension StoreKey {
    /// Creates the key of a seed. The key is the same in every process, so that a client under test needs only one
    /// setup.
    public init(seed: UInt64) throws(SimulatorError) {
        var generator = SeededRandom(seed: seed)
        try self.init(using: &generator)
    }
}
