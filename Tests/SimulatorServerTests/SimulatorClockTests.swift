// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import Logging
import PurchaseServer
import SimulatorServer
import Synchronization
import Testing

/// A purchase server that takes its time from a simulator.
@Suite(.timeLimit(.minutes(60))) struct SimulatorClockTests {
    @Test func `the server's time follows the simulator's`() async throws {
        try await RunningSimulator.run { simulator in
            let clock = try await simulator.eventually {
                // A busy machine may answer late.
                try? await SimulatorClock(
                    simulator.address(.control), clock: ContinuousClock(), logger: Logger(label: "test"))
            }
            #expect(clock.now() == RunningSimulator.start)
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { try await clock.run() }
                try await simulator.command("/clock/advance", #"{"days":400}"#)
                let end = Timestamp(milliseconds: RunningSimulator.start.milliseconds + 400 * 86_400_000)
                _ = try await simulator.eventually { clock.now() == end ? true : nil }
                group.cancelAll()
            }
        }
    }

    @Test func `an old answer, as from a cache, never sets the clock back`() async throws {
        let state = Mutex<(now: Int64, requests: Int)>((2000, 0))
        let behaviour = RawServer.Behaviour.closesAfterCurrent {
            let body = state.withLock { state in
                state.requests += 1
                return #"{"now":\#(state.now),"speed":0.0}"#
            }
            return "HTTP/1.1 200 X\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nAge: 99\r\nConnection: close\r\n"
                + "Content-Length: \(body.utf8.count)\r\n\r\n\(body)"
        }
        try await RawServer.run(behaviour) { port in
            let clock = try await SimulatorClock(
                "http://127.0.0.1:\(port)", clock: ContinuousClock(), logger: Logger(label: "test"))
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { try await clock.run() }
                for (answer, expected): (Int64, Int64) in [(1000, 2000), (3000, 3000), (0, 3000)] {
                    let before = state.withLock { state in
                        state.now = answer
                        return state.requests
                    }
                    // The answer before the last one has been read.
                    while state.withLock({ $0.requests }) < before + 3 { try await Task.sleep(for: .milliseconds(10)) }
                    #expect(clock.now() == Timestamp(milliseconds: expected), "\(answer)")
                }
                group.cancelAll()
            }
        }
    }

    @Test func `a clock without a simulator is an error that names the address`() async throws {
        let logger = Logger(label: "test")
        let error = await #expect(throws: SimulatorClockError.self) {
            // Port 9 is discard, which no system runs.
            _ = try await SimulatorClock("http://127.0.0.1:9", clock: ContinuousClock(), logger: logger)
        }
        #expect(error?.description.contains("http://127.0.0.1:9/clock") == true)
    }

    @Test func `an App Store port has no clock`() async throws {
        try await RunningSimulator.run { simulator in
            let error = await #expect(throws: SimulatorClockError.self) {
                _ = try await SimulatorClock(
                    simulator.address(.production), clock: ContinuousClock(), logger: Logger(label: "test"))
            }
            #expect(error != nil)
        }
    }

    /// The error of a configuration with these roots; `nil` if it is accepted.
    private func refusal(of trusted: TrustRoots, _ configuration: ServerConfiguration) -> String? {
        do {
            try configuration.requireSimulatorAlone(trusted)
            return nil
        } catch {
            return error.message
        }
    }

    @Test func `a simulator's roots stand alone, and only a server that trusts them takes its time`() throws {
        let ordinary = ServerConfiguration()
        var clocked = ordinary
        clocked.simulatorClock = "http://127.0.0.1:9000"
        let fixture = try StoreAuthority.fixture().roots.map { try TrustRoots(reading: $0) }
        let own = try StoreAuthority(CertificateAuthority(from: RunningSimulator.start)).roots
        for roots in try [fixture[0].union(fixture[1]), fixture[0], TrustRoots(reading: own[0])] {
            for configuration in [ordinary, clocked] {
                #expect(refusal(of: roots, configuration) == nil)
                #expect(refusal(of: roots.union(.apple), configuration)?.contains("stand alone") == true)
            }
        }
        #expect(refusal(of: .apple, ordinary) == nil)
        #expect(refusal(of: .apple, clocked)?.contains("Only a server that trusts a simulator's roots") == true)
    }
}
