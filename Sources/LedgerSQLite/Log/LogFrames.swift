// SPDX-License-Identifier: Apache-2.0

/// The frames of a log, read in their order: as SQLite's recovery reads them, and further.
///
/// Frames behind the first bad one cannot be proven by the checksum from the beginning of the log, but each of them
/// goes on from the stored checksum of the frame before it. A frame that does, and has the log's salts, is genuine. If
/// the frame before it ends a transaction, it begins a later one, and so the transaction before it was flushed.
struct LogFrames {
    private let header: LogHeader
    private var count = 0
    /// The stored checksum of the last frame.
    private var stored: LogChecksum
    /// Whether the last frame is genuine and ends a transaction. At first nothing is incomplete.
    private var isCommitted = true
    /// The size of the database after the last commit before the first bad frame; `nil` if there was none.
    private var databaseSize: UInt32?
    /// How many frames have followed that commit.
    private var framesSinceCommit: UInt32 = 0
    private var firstBad: BadFrame?

    private struct BadFrame {
        let index: Int
        /// The checksum that it should have, for the next frame: the stored one may be what is damaged.
        let computed: LogChecksum
        /// Whether frames of the log are there or behind it, not only those of an earlier use of the file.
        var isInLog: Bool
        var isFollowedByTransaction = false
        /// How many genuine transactions end there or behind it.
        var transactions: Int
    }

    init(after header: LogHeader) {
        self.header = header
        stored = header.checksum
    }

    /// - Parameter bytes: A frame with its header.
    mutating func add(_ bytes: UnsafeRawBufferPointer) {
        let frame = LogFrame(bytes, isBigEndian: header.isBigEndian)
        defer {
            count += 1
            stored = frame.checksum
        }
        let isInLog = frame.salts == header.salts
        // Nothing can be learned from the frames of an earlier use of the file, of which there may be many.
        if firstBad != nil, !isInLog { return isCommitted = false }
        let computed = frame.checksum(after: stored)
        let isWhole = isInLog && frame.page > 0 && computed == frame.checksum
        if firstBad == nil {
            framesSinceCommit += 1
            guard isWhole else { return addFirstBad(frame, computed) }
            isCommitted = frame.databaseSize > 0
            if isCommitted {
                databaseSize = frame.databaseSize
                framesSinceCommit = 0
            }
        } else {
            addBehind(frame, isGenuine: isWhole || isInLog && goesOnFromDamage(frame))
        }
    }

    private mutating func addFirstBad(_ frame: LogFrame, _ computed: LogChecksum) {
        let hasChecksum = computed == frame.checksum
        let isInLog = hasChecksum || frame.salts == header.salts || !isCommitted
        isCommitted = isCommit(frame, hasChecksum: hasChecksum)
        firstBad = BadFrame(
            index: count, computed: computed, isInLog: isInLog, transactions: isCommitted ? 1 : 0)
    }

    /// Whether the first bad frame ends a transaction, as far as it tells.
    private func isCommit(_ frame: LogFrame, hasChecksum: Bool) -> Bool {
        // Then only the salts are wrong, which the checksum does not cover.
        if hasChecksum { return frame.databaseSize > 0 }
        let isStored = frame.salts == header.salts && frame.databaseSize > 0
        guard let size = frame.databaseSizeThatFits(after: stored), (size > 0) != isStored else { return isStored }
        // Either the size is damaged, or a high bit of the page: the checksum is too weak to tell. A database grows by
        // the pages of a transaction at most, and does not shrink.
        guard size > 0, let databaseSize else { return false }
        return size >= databaseSize && size - databaseSize <= framesSinceCommit
    }

    /// Whether a frame follows the first bad one if the stored checksum of that is what is damaged.
    private func goesOnFromDamage(_ frame: LogFrame) -> Bool {
        guard let firstBad, count == firstBad.index + 1 else { return false }
        return frame.checksum(after: firstBad.computed) == frame.checksum
    }

    private mutating func addBehind(_ frame: LogFrame, isGenuine: Bool) {
        firstBad?.isInLog = true
        if isGenuine, isCommitted { firstBad?.isFollowedByTransaction = true }
        isCommitted = isGenuine && frame.databaseSize > 0
        if isCommitted { firstBad?.transactions += 1 }
    }

    /// The condition of the log if these are all frames.
    var condition: LogCondition {
        guard let firstBad else { return isCommitted ? .whole : .interrupted }
        guard firstBad.isFollowedByTransaction else { return firstBad.isInLog ? .interrupted : .whole }
        return .damaged(LogDamage(frame: firstBad.index, transactions: firstBad.transactions))
    }
}
