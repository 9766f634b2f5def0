// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel
import AsyncHTTPClient
import NIOCore
import NIOHTTP1
public import Logging
import OutgoingHTTP
public import ServiceLifecycle
import Synchronization

/// The virtual clock of an App Store simulator, for a server that trusts only the simulator's root.
///
/// The clock asks the simulator for the time about ten times a second, and computes the time in between from the
/// simulated speed. The clock never goes back. If the simulator stops answering, the clock stops a second after the
/// last answer. A simulator in the same process is read directly.
public struct SimulatorClock: Service {
    /// The address of the simulator's control port, such as `http://127.0.0.1:9000`.
    public let address: String
    private let readTime: @Sendable () -> Timestamp
    /// Asks a simulator in another process; `nil` for a simulator in this process.
    private let reader: SimulatorReader?

    /// Creates a clock with the simulator's time.
    ///
    /// - Parameters:
    ///   - address: The address of the simulator's control port: `http://`, a host and a port.
    ///   - clock: Measures the time between two answers.
    /// - Throws: ``SimulatorClockError`` if the simulator does not answer.
    public init(
        _ address: String, clock: any Clock<Duration>, logger: Logger
    ) async throws {
        let reader = SimulatorReader(address, clock: clock, logger: logger)
        try await reader.read()
        self.address = address
        self.reader = reader
        readTime = { reader.state.now() }
    }

    /// Creates the clock of a simulator in this process.
    ///
    /// - Parameters:
    ///   - address: The address of the simulator's control port, shown to people.
    ///   - now: Returns the simulator's time, which never goes back.
    public init(_ address: String, now: @escaping @Sendable () -> Timestamp) {
        self.address = address
        readTime = now
        reader = nil
    }

    /// The simulator's time.
    public func now() -> Timestamp { readTime() }

    /// Follows the simulator's clock until shutdown.
    public func run() async throws {
        guard let reader else { return try await gracefulShutdown() }
        await cancelWhenGracefulShutdown { await reader.run() }
    }
}

/// Asks a simulator for its time.
private struct SimulatorReader: Sendable {
    /// The time between two requests, and so the greatest delay until a change of the simulator's clock is noticed.
    private static let interval = Duration.milliseconds(100)

    /// The duration for which the clock runs on after the last answer.
    private static let reach = Duration.seconds(1)

    /// The longest time for an answer, which has about a hundred bytes and comes from a machine nearby.
    private static let timeout = Duration.seconds(5)

    /// The longest answer, in bytes.
    private static let answerLimit = 4 << 10

    private static let client = PlainClient(timeout: TimeAmount(timeout))

    let state = SimulatorTime()
    private let address: String
    private let clock: any Clock<Duration>
    private let failure: ThrottledWarning

    init(_ address: String, clock: any Clock<Duration>, logger: Logger) {
        self.address = address
        self.clock = clock
        failure = ThrottledWarning("The simulator's clock could not be read", clock: clock, logger)
    }

    func run() async {
        while !Task.isCancelled {
            await clock.pause(for: Self.interval)
            do {
                try await read()
            } catch {
                if !Task.isCancelled { failure.log(["error": "\(error)"]) }
            }
        }
    }

    func read() async throws {
        let age = clock.stopwatch()
        do {
            let request = HTTPClientRequest(url: "\(address)/clock")
            let answer = try await Self.client.answer(to: request, within: Self.timeout, upTo: Self.answerLimit)
            let json = try JSONValue(parsing: answer.body.readableBytesView)
            guard answer.status == .ok, let now = json["now"]?.integer, case .number(let text)? = json["speed"],
                let speed = Double(text)
            else { throw SimulatorClockError(address, "the address is no simulator's control port") }
            state.set(Timestamp(milliseconds: now), speed: speed, age: { min(age(), Self.reach) })
        } catch let error as SimulatorClockError {
            throw error
        } catch {
            throw SimulatorClockError(address, "the address does not answer: \(reason(of: error))")
        }
    }
}

/// The error if the time of a simulator cannot be read.
public struct SimulatorClockError: Error, CustomStringConvertible {
    /// A sentence with the simulator's address.
    public let description: String

    init(_ address: String, _ reason: String) {
        description = "simulatorClock: Cannot read the time at \(address)/clock: \(reason)."
    }
}

/// The last answer of a simulator, from which the current time is computed.
private final class SimulatorTime: Sendable {
    private struct State {
        var answer = Timestamp(milliseconds: 0)
        var speed = 0.0
        /// The time since the answer.
        var age: @Sendable () -> Duration = { .zero }
        /// The latest returned time. The clock never returns an earlier time.
        var latest = Timestamp(milliseconds: 0)
    }

    private let state = Mutex(State())

    func set(_ answer: Timestamp, speed: Double, age: @escaping @Sendable () -> Duration) {
        state.withLock { state in
            // A late answer must not set the time back.
            state.answer = answer
            state.speed = speed
            state.age = age
            state.latest = max(state.latest, answer)
        }
    }

    func now() -> Timestamp {
        state.withLock { state in
            let seconds = state.age() / .seconds(1) * state.speed
            let computed = Int64(exactly: (seconds * 1000).rounded()) ?? 0
            let (sum, overflows) = state.answer.milliseconds.addingReportingOverflow(computed)
            state.latest = max(state.latest, overflows ? state.answer : Timestamp(milliseconds: sum))
            return state.latest
        }
    }
}
