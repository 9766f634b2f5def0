// SPDX-License-Identifier: Apache-2.0

/// The reason why the folder of a simulator cannot be used: a sentence, without the folder's name.
struct SimulatorFolderError: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}
