// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation

/// The clock of the machine, which only the program itself looks at; everything below is told the time.
enum SystemClock {
    @Sendable static func now() -> Timestamp {
        Timestamp(milliseconds: Int64(Date().timeIntervalSince1970 * 1000))
    }
}
