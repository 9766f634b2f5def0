// SPDX-License-Identifier: Apache-2.0

/// Reads the frames of SQLite's write-ahead log in order. SQLite's recovery ends at the first frame with a wrong
/// checksum or wrong salts (a bad frame), but this reading continues.
///
/// After the first bad frame, the running checksum, computed from the start of the log, proves nothing. A later frame
/// is genuine if it has the log's ``LogHeader/salts`` and continues the stored checksum of the previous frame. If the
/// previous frame ends a transaction, the genuine frame begins the next transaction. SQLite flushes a transaction
/// before the next one begins, so the bad frame was once whole: the log is damaged, not merely interrupted.
struct LogFrames {
    private let header: LogHeader
    private var count = 0
    /// The stored checksum of the last frame.
    private var stored: LogChecksum
    /// Whether the last frame ends a transaction. For the first bad frame, its content decides, and any later frame
    /// must be genuine. True before the first frame, because no transaction is incomplete.
    private var isCommitted = true
    /// The number of pages of the database after the last commit before the first bad frame; `nil` if there was no
    /// commit.
    private var databaseSize: UInt32?
    /// The number of frames since the last commit, up to the first bad frame.
    private var framesSinceCommit: UInt32 = 0
    private var firstBad: BadFrame?

    private struct BadFrame {
        let index: Int
        /// The checksum computed from the frame's content. The next frame continues this checksum if only the stored
        /// checksum is damaged.
        let computed: LogChecksum
        /// Whether the bad frame or a later frame belongs to the log, rather than to an earlier use of the file.
        var isInLog: Bool
        var isFollowedByTransaction = false
        /// The number of genuine transactions that end at the bad frame or later.
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
        // The frames of an earlier use of the file carry no information, and may be numerous.
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

    /// Whether the first bad frame ends a transaction, as far as the frame's content shows.
    private func isCommit(_ frame: LogFrame, hasChecksum: Bool) -> Bool {
        // With a valid checksum only the salts are damaged, because the checksum does not cover the salts.
        if hasChecksum { return frame.databaseSize > 0 }
        let isStored = frame.salts == header.salts && frame.databaseSize > 0
        guard let size = frame.databaseSizeThatFits(after: stored), (size > 0) != isStored else { return isStored }
        // Either the size field is damaged, or a high bit in the page's content. The checksum is too weak to tell which
        // of the two. The size that fits is believed only if the transaction can have led to it: the database grows at
        // most by the transaction's pages, and does not shrink.
        guard size > 0, let databaseSize else { return false }
        return size >= databaseSize && size - databaseSize <= framesSinceCommit
    }

    /// Whether the frame directly follows the first bad frame and continues its computed checksum. If so, only the
    /// stored checksum of the bad frame is damaged.
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

    /// The condition of the log, if all its frames were added.
    var condition: LogCondition {
        guard let firstBad else { return isCommitted ? .whole : .interrupted }
        guard firstBad.isFollowedByTransaction else { return firstBad.isInLog ? .interrupted : .whole }
        return .damaged(LogDamage(frame: firstBad.index, transactions: firstBad.transactions))
    }
}
