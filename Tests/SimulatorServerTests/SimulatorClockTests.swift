// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import Logging
import PurchaseServer
import SimulatorServer
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
