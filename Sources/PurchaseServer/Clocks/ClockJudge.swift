// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel
package import PurchaseLedger
import Synchronization

/// Judges whether the wall clock may be fast, to protect two irreversible actions: the erasure of old events, and the
/// dating of tombstones. A tombstone is the record that stays of an erased purchase. Documents about the purchase that
/// were signed before the tombstone's date no longer count, so a tombstone with a date in the future would suppress
/// later documents too.
///
/// A machine's clock can be hours fast after a boot, or after a virtual machine resumes. Changes that a fast clock
/// published are corrected later, but erased records are lost.
public final class ClockJudge: Sendable {
    /// A clock for comparison with the wall clock.
    public enum Source: String, Sendable {
        case database = "the database's clock"
        /// The field `Date` of the App Store's answers.
        case appStore = "the App Store's clock"
    }

    /// The greatest difference between clocks that agree.
    private static let tolerance = Duration.seconds(60)

    /// The greatest difference between the clock and the signing date of a document that confirms the clock. The App
    /// Store dates documents by its own clock, and a notification usually arrives within seconds.
    private static let freshness = Duration.seconds(600)

    /// The time without a contradiction after which the clock counts as confirmed. Without this rule, the clock of a
    /// server without new purchases might never be confirmed. If a machine corrects its clock at all, it usually does
    /// so within minutes of a boot.
    private static let silence = Duration.seconds(86_400)

    private enum Doubt {
        /// The clock was set, or jumped, by this duration; forward if positive.
        case jumped(Duration)
        case ahead(Duration, of: Source)
    }

    private struct State {
        /// The reason why the clock may be wrong; `nil` if there is no evidence.
        var doubt: Doubt?
        /// Whether a document or a different clock has confirmed the clock.
        var isShown = false
        /// The wall clock's time at the moment at which it was last known or assumed to be correct, and the duration
        /// since then by the monotonic clock.
        var start: Timestamp
        var age: @Sendable () -> Duration
        /// The time in the App Store's last answer with a time, and the duration since then.
        var shown: (time: Timestamp, age: @Sendable () -> Duration)?
    }

    private let now: @Sendable () -> Timestamp
    private let clock: any Clock<Duration>
    private let state: Mutex<State>

    /// - Parameters:
    ///   - now: Returns the time of the wall clock.
    ///   - clock: Must be monotonic, and must continue while the machine is suspended.
    public init(now: @escaping @Sendable () -> Timestamp, clock: any Clock<Duration>) {
        self.now = now
        self.clock = clock
        state = Mutex(State(start: now(), age: clock.stopwatch()))
    }
}

// MARK: - Answers

extension ClockJudge {
    /// Whether there is evidence against the clock, or the clock was set since it was last known to be correct.
    package var isDoubtful: Bool { judged { $0.doubt != nil } }

    /// Whether the clock is known to be correct. Without any evidence, a clock is unconfirmed for the first day,
    /// because it may have been wrong when the server started.
    package var isConfirmed: Bool { judged { $0.doubt == nil && ($0.isShown || $0.age() >= Self.silence) } }

    /// The present time, computed from the App Store's last answer with a time; `nil` if there was no such answer.
    package var appStoreTime: Timestamp? {
        state.withLock { state in state.shown.map { $0.time.advanced(by: $0.age()) } }
    }

    /// The doubt about the clock, as a text for the operator; `nil` while the clock is not doubtful.
    package var concern: String? {
        judged { state in
            let reason: String
            switch state.doubt {
            case nil: return nil
            case .jumped(let distance): reason = "it jumped \(Self.words(distance))"
            case .ahead(let distance, let source): reason = "it is \(Self.words(distance)) of \(source.rawValue)"
            }
            return """
                The machine's clock is doubtful: \(reason). No old events are erased until something shows the time: \
                set the clock by NTP. A restart with the right clock settles it too.
                """
        }
    }

    private static func words(_ distance: Duration) -> String {
        let seconds = Int64((distance.magnitude / .seconds(1)).rounded())
        return "\(seconds) seconds \(distance > .zero ? "ahead" : "back")"
    }

    /// Answers a question about the state, after comparing the wall clock with the monotonic clock.
    private func judged<Answer: Sendable>(_ question: (State) -> Answer) -> Answer {
        state.withLock { state in
            let distance = state.start.duration(to: now()) - state.age()
            if state.doubt == nil, distance.magnitude > Self.tolerance { state.doubt = .jumped(distance) }
            return question(state)
        }
    }
}

// MARK: - Evidence

extension ClockJudge {
    /// Compares the wall clock with a different clock.
    ///
    /// - Parameter distance: The lead of the wall clock; negative if the wall clock is slow. A slow clock raises no
    ///   doubt, because it cannot erase records too early.
    package func compare(aheadBy distance: Duration, of source: Source) {
        if distance > Self.tolerance {
            state.withLock { $0.doubt = .ahead(distance, of: source) }
        } else if distance.magnitude <= Self.tolerance {
            settle()
        }
    }

    /// Compares the clock with the time in an answer of the App Store.
    package func appStoreSaid(_ time: Timestamp) {
        state.withLock { $0.shown = (time, clock.stopwatch()) }
        compare(aheadBy: time.duration(to: now()), of: .appStore)
    }

    /// Compares the clock with the signing dates of verified documents.
    package func sawDocuments(_ documents: [Evidence]) {
        // Documents from Xcode do not count: the developer's Mac signs such documents, and the developer can set its
        // clock.
        let dates = documents.lazy.filter(\.scope.environment.hasAppStore).compactMap(\.signedDate)
        guard let newest = dates.max(), newest.duration(to: now()).magnitude <= Self.freshness else { return }
        let isRefuted = state.withLock { state in
            // A document arrives some time after its signing, so it says less about the time than a clock does. If a
            // clock has shown a small lead, the document does not refute this lead.
            guard case .ahead(let distance, _) = state.doubt else { return true }
            return distance > Self.freshness
        }
        if isRefuted { settle() }
    }

    private func settle() {
        let start = now()
        let age = clock.stopwatch()
        state.withLock { state in
            state.doubt = nil
            state.isShown = true
            state.start = start
            state.age = age
        }
    }
}

extension Duration {
    package var magnitude: Duration { self < .zero ? .zero - self : self }
}
