// SPDX-License-Identifier: Apache-2.0

/// The reason why the simulator cannot sign, read a `.storekit` file, or set faults.
public struct SimulatorError: Error, Hashable, CustomStringConvertible {
    /// The reason in a form for people. For a file or a JSON document, the text names the invalid member and the
    /// expected value.
    public let description: String

    init(_ description: String) {
        self.description = description
    }
}
