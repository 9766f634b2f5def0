// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import Logging
import Synchronization

/// Warns about genuine documents that the server refused. The usual cause is a configuration without the app or
/// environment, or an outdated version of the server.
///
/// Anyone can send such a document repeatedly, so the number of warnings per minute is limited.
final class GenuineRefusals: Sendable {
    /// The maximum number of warnings per minute. The next warning contains the number of suppressed warnings.
    static let maxWarnings = 10

    private struct State {
        var minute: Int64 = .min
        var count = 0
        var suppressed = 0
    }

    private let state = Mutex(State())

    func warn(
        of error: VerificationError, request id: String, route: String, at now: Timestamp, to logger: Logger
    ) {
        guard [.otherApp, .otherEnvironment, .unreadable].contains(error.code), let suppressed = admit(at: now) else {
            return
        }
        var line: Logger.Metadata = [
            "route": .string(route), "code": .string(error.code.rawValue), "requestId": .string(id),
            "bundleId": .string(error.origin?.bundleId ?? "unknown"),
            "environment": .string(error.origin?.environment ?? "unknown"),
        ]
        if error.isOtherAppleId { line["reason"] = .string(error.message) }
        if suppressed > 0 { line["suppressed"] = .stringConvertible(suppressed) }
        logger.warning("A genuine document was refused", metadata: line)
    }

    /// - Returns: The number of warnings suppressed since the last logged warning; `nil` if this warning is suppressed
    ///   too.
    private func admit(at now: Timestamp) -> Int? {
        state.withLock { state in
            let minute = now.milliseconds / 60_000
            if minute != state.minute { state.count = 0 }
            state.minute = minute
            guard state.count < Self.maxWarnings else {
                state.suppressed += 1
                return nil
            }
            state.count += 1
            defer { state.suppressed = 0 }
            return state.suppressed
        }
    }
}
