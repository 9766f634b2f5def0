// SPDX-License-Identifier: Apache-2.0

import Foundation
import Testing

/// The entry of all tests.
///
/// SwiftPM takes a file of this name for the entry of XCTest, of which there are no tests here. Without the file it
/// would search an index for them, and to write the index takes a tenth of the compiler's time in debug.
@main struct AllTests {
    // An asynchronous one would have the same symbol, `async_Main`, as that of the program, which is linked with the
    // tests.
    static func main() {
        // SwiftPM asks XCTest for the tests that `--filter` and `--skip` may name.
        guard !CommandLine.arguments.contains("--dump-tests-json") else {
            print("swift test cannot choose tests here: use scripts/test --filter NAME")
            exit(1)
        }
        Task { await Testing.__swiftPMEntryPoint() as Never }
        dispatchMain()
    }
}
