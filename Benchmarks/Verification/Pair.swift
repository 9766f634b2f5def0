// SPDX-License-Identifier: Apache-2.0

import Allocator
import Benchmark
import Dispatch
import Goals

/// A verification, and its signature checks alone, with parsed keys and bytes at hand.
struct Pair: Sendable {
    /// How many checks `raw` makes, if the goal is a multiple of one.
    var units = 1
    var whole: @Sendable () async throws -> Void
    var raw: @Sendable () throws -> Void
}

extension Goal {
    /// Registers the benchmark of this goal.
    func measure(_ setup: @escaping @Sendable () async throws -> Pair) {
        if case .scaling = bound {
            Benchmark(name, configuration: .paired, closure: Self.scaling, setup: setup)
        } else {
            Benchmark(name, configuration: .paired, closure: Self.ratio, setup: setup)
        }
    }

    /// The raw checks and the verification take turns, and a ratio is that of neighbours, since other load on the
    /// machine slows both.
    private static func ratio(_ benchmark: Benchmark, _ pair: Pair) async throws {
        let clock = ContinuousClock()
        let atFirst = allocationsOfThisThread()
        let raw = try clock.measure { try pair.raw() } / pair.units
        let between = allocationsOfThisThread()
        benchmark.startMeasurement()
        let whole = try await clock.measure { try await pair.whole() }
        benchmark.stopMeasurement()
        let atLast = allocationsOfThisThread()
        benchmark.record(whole: whole, beside: raw)
        benchmark.measurement(.custom(Measure.allocations), Int(atLast - between))
        benchmark.measurement(.custom(Measure.rawAllocations), Int(between - atFirst))
    }

    /// The time of a verification on one thread, and beside it on each of two at the same time.
    private static func scaling(_ benchmark: Benchmark, _ pair: Pair) async throws {
        let clock = ContinuousClock()
        let repetitions = 50
        let one = try await clock.measure { try await run(pair, repetitions, on: [Lane()]) }
        benchmark.startMeasurement()
        let two = try await clock.measure { try await run(pair, repetitions, on: [Lane(), Lane()]) }
        benchmark.stopMeasurement()
        benchmark.record(whole: one / repetitions, beside: two / repetitions)
        benchmark.measurement(.custom(Measure.allocations), 0)
        benchmark.measurement(.custom(Measure.rawAllocations), 0)
    }

    private static func run(_ pair: Pair, _ repetitions: Int, on lanes: [Lane]) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for lane in lanes {
                group.addTask(executorPreference: lane) {
                    for _ in 0..<repetitions { try await pair.whole() }
                }
            }
            try await group.waitForAll()
        }
    }
}

extension Benchmark {
    fileprivate func record(whole: Duration, beside: Duration) {
        measurement(.custom(Measure.whole), Int(whole / .nanoseconds(1)))
        measurement(.custom(Measure.beside), Int(beside / .nanoseconds(1)))
        measurement(.custom(Measure.ratio), Int(whole / beside * 1000))
    }
}

/// A thread of its own, since the benchmark library blocks one of the threads that tasks share by default.
private final class Lane: TaskExecutor {
    private let queue = DispatchQueue(label: "lane")

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        queue.async { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}

extension Benchmark.Configuration {
    fileprivate static var paired: Self {
        Self(
            metrics: [.wallClock, .throughput] + Measure.all.map { .custom($0, useScalingFactor: false) },
            warmupIterations: 50, maxDuration: .seconds(4), maxIterations: 20_000)
    }
}
