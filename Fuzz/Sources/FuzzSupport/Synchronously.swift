// SPDX-License-Identifier: Apache-2.0

import Synchronization

/// Runs a task to its end on this thread, so that libFuzzer assigns coverage to the right input and no thread must be
/// woken.
public func synchronously<Value: Sendable>(_ operation: @escaping @Sendable () async -> Value) -> Value {
    let executor = ThisThread()
    let result = Result<Value>()
    Task(executorPreference: executor) {
        let value = await operation()
        result.value.withLock { $0 = value }
    }
    while let job = executor.next() { job.runSynchronously(on: executor.asUnownedTaskExecutor()) }
    guard let value = result.value.withLock({ $0 }) else { fatalError("A task waits for another thread.") }
    return value
}

private final class Result<Value: Sendable>: Sendable {
    let value = Mutex<Value?>(nil)
}

private final class ThisThread: TaskExecutor {
    private let jobs = Mutex<[UnownedJob]>([])

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        jobs.withLock { $0.append(job) }
    }

    func next() -> UnownedJob? {
        jobs.withLock { $0.isEmpty ? nil : $0.removeFirst() }
    }
}
