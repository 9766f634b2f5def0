// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation

/// The clock of the machine. Only the program itself reads this clock; the libraries get the time as an argument.
enum SystemClock {
    @Sendable static func now() -> Timestamp {
        Timestamp(milliseconds: Int64(Date().timeIntervalSince1970 * 1000))
    }
}
