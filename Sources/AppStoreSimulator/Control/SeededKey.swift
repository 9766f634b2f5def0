// SPDX-License-Identifier: Apache-2.0

// API keys that are the same in every process, for tests.

extension StoreKey {
    /// Creates the key of a seed. The key is the same in every process, so that a client under test needs only one
    /// setup.
    public init(seed: UInt64) throws(SimulatorError) {
        var generator = SeededRandom(seed: seed)
        try self.init(using: &generator)
    }
}
