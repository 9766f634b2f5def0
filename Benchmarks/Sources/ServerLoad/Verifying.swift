// SPDX-License-Identifier: Apache-2.0

import AppStoreTrust

/// Verification alone, on both cores.
enum Verifying {
    private static let tasks = 2

    /// Verifies the notifications again and again, and returns how many it verified a second.
    static func rate(
        of notifications: [String], _ verifier: AppStoreVerifier, for duration: Duration
    ) async throws -> Double {
        let clock = ContinuousClock()
        let start = clock.now
        let count = try await withThrowingTaskGroup(of: Int.self) { group in
            for task in 0..<tasks {
                group.addTask {
                    try await verify(notifications, from: task, verifier, until: start + duration)
                }
            }
            return try await group.reduce(0, +)
        }
        return Double(count) / ((clock.now - start) / .seconds(1))
    }

    private static func verify(
        _ notifications: [String], from first: Int, _ verifier: AppStoreVerifier, until end: ContinuousClock.Instant
    ) async throws -> Int {
        var index = first
        while ContinuousClock.now < end {
            let notification = notifications[index % notifications.count]
            _ = try await verifier.verify(notification: notification.utf8, at: SimulatedStore.now)
            index += tasks
        }
        return (index - first) / tasks
    }
}
