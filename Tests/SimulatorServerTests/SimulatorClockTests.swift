// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import Logging
import PurchaseServer
import SimulatorServer
import Testing

/// A purchase server that takes its time from a simulator.
@Suite(.timeLimit(.minutes(10))) struct SimulatorClockTests {
    @Test func `the server's time follows the simulator's`() async throws {
        try await RunningSimulator.run { simulator in
            let clock = try await SimulatorClock(
                simulator.address(.control), clock: ContinuousClock(), logger: Logger(label: "test"))
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

    @Test func `only a server that trusts none of Apple's roots takes a simulator's time`() async throws {
        var configuration = ServerConfiguration()
        configuration.simulatorClock = "http://127.0.0.1:9000"
        try await RunningSimulator.run { [configuration] simulator in
            try configuration.requireSimulatorAlone(simulator.roots)
            for roots in [TrustRoots.apple, simulator.roots.union(.apple)] {
                let error = #expect(throws: ConfigurationError.self) {
                    try configuration.requireSimulatorAlone(roots)
                }
                #expect(error?.message.contains("trusts Apple's roots") == true)
            }
            try ServerConfiguration().requireSimulatorAlone(.apple)
        }
    }
}
