// SPDX-License-Identifier: Apache-2.0

import Foundation

@testable import LedgerPostgres

extension PostgresConnection {
    /// Sends requests together, and waits for their answers.
    ///
    /// - Parameter deadline: When to give the connection up.
    func run(_ requests: [PostgresRequest], deadline: ContinuousClock.Instant) -> Results {
        begin(requests)
        while true {
            let left = ContinuousClock.now.duration(to: deadline).milliseconds
            guard left > 0 else { return end(.lost("The database did not answer in time")) }
            if let results = proceed(waiting: Int32(clamping: left)) { return results }
        }
    }
}
