// SPDX-License-Identifier: Apache-2.0

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// A pipe that ends a thread's wait in `poll`.
final class WakePipe: Sendable {
    private let (readEnd, writeEnd): (Int32, Int32)

    /// - Throws: `PostgresFailure.unavailable` if the process has too many open files.
    init() throws(PostgresFailure) {
        var ends: [Int32] = [0, 0]
        guard pipe(&ends) == 0 else { throw .unavailable("There are too many open files") }
        readEnd = ends[0]
        writeEnd = ends[1]
        for file in ends {
            _ = fcntl(file, F_SETFD, FD_CLOEXEC)
            _ = fcntl(file, F_SETFL, O_NONBLOCK)
        }
    }

    deinit {
        close(readEnd)
        close(writeEnd)
    }

    /// The end of the pipe to poll.
    var pollEntry: pollfd { pollfd(fd: readEnd, events: Int16(POLLIN), revents: 0) }

    /// Ends the current wait or, if the thread does not wait, the next wait at once. A write to a full pipe fails, but
    /// the bytes already in the pipe end the wait.
    func wake() { _ = write(writeEnd, "1", 1) }

    /// Empties the pipe, so that the next wait does not end at once.
    func clear() {
        var bytes = [UInt8](repeating: 0, count: 64)
        while read(readEnd, &bytes, bytes.count) == bytes.count {}
    }
}
