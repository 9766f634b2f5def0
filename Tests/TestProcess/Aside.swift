// SPDX-License-Identifier: Apache-2.0

import Dispatch

/// Runs what blocks its thread for long, such as a program, where no task waits for that thread. There are as many
/// threads for tasks as cores, and all tests share them.
package func aside<Value: Sendable>(_ body: @escaping @Sendable () throws -> Value) async throws -> Value {
    try await withCheckedThrowingContinuation { continuation in
        DispatchQueue.global().async { continuation.resume(with: Result { try body() }) }
    }
}
