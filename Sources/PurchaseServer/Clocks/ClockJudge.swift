// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel
package import PurchaseLedger
import Synchronization

/// Judges whether the wall clock may be ahead of the time, for what cannot be undone: the erasure of old events, and
/// the times of tombstones, before which documents about an erased purchase count no more.
///
/// A machine's clock can be hours ahead when it boots, or when a virtual machine resumes. All that is published by such
/// a clock is corrected once the clock is right; what is erased is gone.
public final class ClockJudge: Sendable {
    /// What says what time it is.
    public enum Source: String, Sendable {
        case database = "the database's clock"
        /// The field `Date` of the App Store's answers.
        case appStore = "the App Store's clock"
    }

    /// By how much clocks may differ.
    private static let tolerance = Duration.seconds(60)

    /// How old a document is at most that shows that the clock is right. Notifications arrive within seconds; the App
    /// Store's own clock signed them, so none is signed ahead of the time.
    private static let freshness = Duration.seconds(600)

    /// After so long a clock is taken as confirmed that nothing contradicted. An app without purchases shows nothing,
    /// and a clock that a machine boots with is set within minutes, if it is ever set.
    private static let silence = Duration.seconds(86_400)

    private enum Doubt {
        /// The clock was set, or jumped: by so much, ahead if positive.
        case jumped(Duration)
        case ahead(Duration, of: Source)
    }

    private struct State {
        /// Why the clock may be wrong; `nil` if nothing says so.
        var doubt: Doubt?
        /// Whether something showed that the clock is right.
        var isShown = false
        /// The wall clock when it was last known or assumed to be right, and the time since then by a clock that nobody
        /// sets.
        var start: Timestamp
        var age: @Sendable () -> Duration
        /// What the App Store's clock showed last, and the time since then.
        var shown: (time: Timestamp, age: @Sendable () -> Duration)?
    }

    private let now: @Sendable () -> Timestamp
    private let clock: any Clock<Duration>
    private let state: Mutex<State>

    /// - Parameters:
    ///   - now: Returns the time of the wall clock.
    ///   - clock: Measures time, also while the machine is suspended, and is never set.
    public init(now: @escaping @Sendable () -> Timestamp, clock: any Clock<Duration>) {
        self.now = now
        self.clock = clock
        state = Mutex(State(start: now(), age: clock.stopwatch()))
    }
}

// MARK: - What it says

extension ClockJudge {
    /// Whether something says that the clock is wrong, or was set since it was last known to be right.
    package var isDoubtful: Bool { judged { $0.doubt != nil } }

    /// Whether the clock is known to be right. A clock that nothing contradicts need not be: it may have been wrong
    /// when the server started.
    package var isConfirmed: Bool { judged { $0.doubt == nil && ($0.isShown || $0.age() >= Self.silence) } }

    /// The time by what the App Store's clock showed last; `nil` if it has shown nothing.
    package var appStoreTime: Timestamp? {
        state.withLock { state in state.shown.map { $0.time.advanced(by: $0.age()) } }
    }

    /// What the operator should look at, as a sentence; `nil` while the clock is not doubtful.
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

    /// Asks after comparing the wall clock with the clock that nobody sets.
    private func judged<Answer: Sendable>(_ question: (State) -> Answer) -> Answer {
        state.withLock { state in
            let distance = state.start.duration(to: now()) - state.age()
            if state.doubt == nil, distance.magnitude > Self.tolerance { state.doubt = .jumped(distance) }
            return question(state)
        }
    }
}

// MARK: - What it is told

extension ClockJudge {
    /// Compares the clock with another one.
    ///
    /// - Parameter distance: How far the wall clock is ahead; negative if it is behind, which can erase nothing.
    package func compare(aheadBy distance: Duration, of source: Source) {
        if distance > Self.tolerance {
            state.withLock { $0.doubt = .ahead(distance, of: source) }
        } else if distance.magnitude <= Self.tolerance {
            settle()
        }
    }

    /// Compares the clock with what an answer of the App Store says.
    package func appStoreSaid(_ time: Timestamp) {
        state.withLock { $0.shown = (time, clock.stopwatch()) }
        compare(aheadBy: time.duration(to: now()), of: .appStore)
    }

    /// Compares the clock with the signing dates of documents that were verified.
    package func sawDocuments(_ documents: [Evidence]) {
        // On a developer's Mac anybody sets the clock.
        let dates = documents.lazy.filter(\.scope.environment.hasAppStore).compactMap(\.signedDate)
        guard let newest = dates.max(), newest.duration(to: now()).magnitude <= Self.freshness else { return }
        let isRefuted = state.withLock { state in
            // A document is less exact than a clock.
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
    fileprivate var magnitude: Duration { self < .zero ? .zero - self : self }
}
