// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import ArgumentParser
import PurchaseLedger
import PurchaseServer
import Reconciliation

/// `quittance jobs`: lists the jobs of a ledger, or makes jobs due now.
struct Jobs: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "List what a server still has to ask or do, and retry what failed.",
        discussion: """
            A job waits until it is due. Then a running server does the job, and tries again after a failure. Kinds: \
            notificationHistory, customerHistory, consumption, subscriptionStatus, parkedDocument for a notification \
            that is not valid, grantEnd for the end of a grant, and backfill during quittance backfill \
            (docs/reconciliation.md).

              quittance jobs --failed --config quittance.json
              quittance jobs retry --kind parkedDocument --config quittance.json

            \(ConfigTopic.ledgerOptions)
            """,
        subcommands: [List.self, Retry.self], defaultSubcommand: List.self)

    /// The options that select jobs.
    struct Filter: ParsableArguments {
        @Option(help: "Only jobs of this kind.")
        var kind: String?

        func validate() throws {
            guard let kind, !Job.kinds.contains(where: { $0.rawValue == kind }) else { return }
            let known = Job.kinds.map(\.rawValue).joined(separator: ", ")
            throw ValidationError("--kind takes a kind of job: \(known).")
        }

        @Option(help: "Only jobs of this app.")
        var bundleId: String?

        @Option(
            help: "Only jobs of this environment: production or sandbox.",
            transform: { try Environment.option($0, allowed: [.production, .sandbox]) })
        var environment: Environment?

        @Flag(help: "Only jobs whose last attempt failed, and parked documents.")
        var failed = false

        func matches(_ job: Job) -> Bool {
            let scope = job.id.scope
            return (kind == nil || kind == job.id.kind.rawValue) && (bundleId == nil || bundleId == scope.bundleId)
                && (environment == nil || environment == scope.environment) && (!failed || job.failure != nil)
        }

        /// Calls `body` with each selected job.
        ///
        /// - Throws: Exit status 1, after the last job, if a job is damaged; `LedgerStorageError`; errors of `body`.
        func forEach(in ledger: Ledger, _ body: (Job) async throws -> Void) async throws {
            var cursor: ScanCursor?
            var isDamaged = false
            repeat {
                let page = try await ledger.jobs(after: cursor)
                for fault in page.damage { Terminal.report(fault.printable) }
                isDamaged = isDamaged || !page.damage.isEmpty
                for job in page.items where matches(job) { try await body(job) }
                cursor = page.next
            } while cursor != nil
            if isDamaged { throw ExitCode(1) }
        }
    }

    struct List: AsyncParsableCommand {
        /// The number of listed jobs without `--all`. These jobs and their summary fit on a screen.
        private static let listed = 20

        static let configuration = CommandConfiguration(
            abstract: "List jobs: kind, app, environment, name, when it is due, attempts, and why the last one failed.",
            usage: "quittance jobs list [options]",
            discussion: """
                First comes the number of each kind, with the time at which the first is due, or for how long it has \
                been due, and the reasons of failures; then the first \(listed) jobs. The line of a \
                notificationHistory also has how far the history was read, and when it was last read to its end. The \
                name of a subscriptionStatus is an originalTransactionId, that of a parkedDocument the SHA-256 of the \
                document.

                \(ConfigTopic.ledgerOptions)
                """)

        @OptionGroup(visibility: .inTopic) var options: ServerOptions
        @OptionGroup var filter: Filter

        @Flag(help: "List all jobs.")
        var all = false

        @Flag(help: "Print only a JSON object per job, of all jobs.")
        var json = false

        func run() async throws {
            let composition = try options.composition()
            try await composition.onLedger(.reading) { try await list(Ledger(storage: $0), composition) }
        }

        private func list(_ ledger: Ledger, _ composition: Composition) async throws {
            guard !json else { return try await filter.forEach(in: ledger) { try Terminal.print(json: $0.body) } }
            var summary = JobSummary()
            var first: [Job] = []
            try await filter.forEach(in: ledger) { job in
                summary.add(job)
                if first.count < Self.listed { first.append(job) }
            }
            // With `simulatorClock`, the present time is unknown without a running simulator. The list must work
            // without one, so it shows no ages.
            let now = composition.configuration.simulatorClock == nil ? SystemClock.now() : nil
            let left = summary.count - first.count
            for line in summary.lines(at: now, withExamples: left > 0 && !all) { try Terminal.print(line) }
            // The jobs are read a second time instead of kept, because together they might be too large for the memory.
            if all, left > 0 { return try await filter.forEach(in: ledger) { try Terminal.print($0.line) } }
            for job in first { try Terminal.print(job.line) }
            if left > 0 { try Terminal.print("\(left) more: --all lists all.") }
        }
    }

    struct Retry: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Make jobs due now. A running server does them within a second or two.",
            usage: "quittance jobs retry [<name>] [options]",
            discussion: """
                Without a running server, the jobs wait for the next start. Jobs that are due within three minutes \
                stay unchanged: a server may be doing these jobs, and would do the jobs twice.

                \(ConfigTopic.ledgerOptions)
                """)

        @OptionGroup(visibility: .inTopic) var options: ServerOptions
        @OptionGroup var filter: Filter

        @Argument(help: "The name of a job in quittance jobs. Omit it to retry all that the options name.")
        var name: String?

        func validate() throws {
            guard name != nil || filter.kind != nil || filter.failed else {
                throw ValidationError("Which jobs? Pass a name, --kind or --failed.")
            }
        }

        func run() async throws {
            let composition = try await options.compositionWithTime()
            let now = composition.now()
            try await composition.onLedger(.working) { try await retry(Ledger(storage: $0), at: now) }
        }

        private func retry(_ ledger: Ledger, at now: Timestamp) async throws {
            var count = 0
            var left = 0
            try await filter.forEach(in: ledger) { job in
                guard job.isWork, name == nil || name == job.id.name else { return }
                guard !job.mayBeLeased(at: now) else { return left += 1 }
                var next = job
                next.dueAt = min(job.dueAt, now)
                // If a worker has finished or postponed the job meanwhile, its result stays.
                _ = try await ledger.replace(job, with: next, at: now)
                count += 1
            }
            guard count + left > 0 else {
                throw ValidationError("The ledger has no such job. quittance jobs lists all.")
            }
            let rest = left == 0 ? "" : " \(left) within three minutes anyway, or in work."
            try Terminal.print("\(counted(count, "job")) due now.\(rest)")
        }
    }
}

extension Job {
    /// Whether the job has work to do. A decided consumption request keeps its outcome, and a lease only marks the work
    /// of its holder as running.
    var isWork: Bool {
        let isOpen = id.kind != .consumption || ConsumptionQuestion(self)?.state == .waiting
        return isOpen && !Job.leases.contains(id.kind)
    }

    /// The job's line in the list, made printable because names and reasons may come from other programs.
    fileprivate var line: String {
        let parts = [
            id.kind.rawValue, id.scope.bundleId, id.scope.environment.rawValue, id.name.isEmpty ? "-" : id.name,
            "due \(dueAt.iso8601)", counted(attempts, "attempt"), reading, isDecided ? "decided, nothing to do" : nil,
            failure,
        ]
        return parts.compactMap(\.self).map(\.printable).joined(separator: "  ")
    }

    /// Whether the job is a consumption request with nothing left to do.
    fileprivate var isDecided: Bool {
        id.kind == .consumption && ConsumptionQuestion(self)?.state ?? .answered == .answered
    }

    /// How far a notification history has been read; `nil` for jobs of other kinds.
    private var reading: String? {
        guard id.kind == .notificationHistory else { return nil }
        guard let cursor = HistoryCursor(self), cursor.through.milliseconds > 0 else { return "never read" }
        let success = cursor.succeededAt.map { "last to its end at \($0.iso8601)" } ?? "never to its end"
        let unread = cursor.unread.map { ", but not shown from \($0.start.iso8601) to \($0.end.iso8601)" } ?? ""
        return "read through \(cursor.through.iso8601), \(success)\(unread)"
    }

    fileprivate var body: some Encodable {
        let cursor = HistoryCursor(self)
        return Body(
            kind: id.kind.rawValue, bundleId: id.scope.bundleId, environment: id.scope.environment.rawValue,
            name: id.name, dueAt: dueAt, attempts: attempts, failure: failure,
            readThrough: cursor.flatMap { $0.through.milliseconds > 0 ? $0.through : nil },
            succeededAt: cursor?.succeededAt, unreadFrom: cursor?.unread?.start, unreadThrough: cursor?.unread?.end)
    }

    private struct Body: Encodable {
        var kind, bundleId, environment, name: String
        var dueAt: Timestamp
        var attempts: Int
        var failure: String?
        /// Present only for a notification history.
        var readThrough, succeededAt, unreadFrom, unreadThrough: Timestamp?
    }
}

/// The number of jobs of each kind, the earliest due time, and the reasons of failures.
private struct JobSummary {
    private struct Count {
        var jobs = 0
        var failed = 0
        var first: Timestamp?
        /// For each reason of a failure, the number of jobs and the line of an example. Jobs without a failure are
        /// under the empty key.
        var examples: [String: (count: Int, line: String)] = [:]

        mutating func add(_ job: Job) {
            jobs += 1
            failed += job.failure == nil ? 0 : 1
            first = min(first ?? job.dueAt, job.dueAt)
            examples[job.failure.map(JobSummary.reason(of:)) ?? "", default: (0, job.line)].count += 1
        }
    }

    private var counts: [String: Count] = [:]

    /// The number of all jobs.
    var count: Int { counts.values.reduce(0) { $0 + $1.jobs } }

    mutating func add(_ job: Job) { counts[job.id.kind.rawValue, default: Count()].add(job) }

    /// The maximum length of a code. A longer first word is not a code.
    private static let maxCodeLength = 40

    /// The code at the beginning of a failure, or `other`. Whole messages would make too many reasons.
    private static func reason(of failure: String) -> String {
        let code = failure.prefix { $0.isASCII && ($0.isLetter || $0.isNumber) }
        return (1...maxCodeLength).contains(code.count) ? String(code) : "other"
    }

    /// - Parameters:
    ///   - now: The time to which ages are relative; `nil` to omit ages.
    ///   - hasExamples: Whether to show an example job per kind and reason.
    func lines(at now: Timestamp?, withExamples hasExamples: Bool) -> [String] {
        let failed = counts.values.reduce(0) { $0 + $1.failed }
        return ["\(counted(count, "job")), \(failed) of them with a failure."]
            + counts.sorted { $0.key < $1.key }.flatMap { kind, count in
                [Self.line(kind, count, at: now)] + Self.reasons(count, withExamples: hasExamples)
            }
    }

    private static func line(_ kind: String, _ count: Count, at now: Timestamp?) -> String {
        let failed = count.failed == 0 ? nil : "\(count.failed) with a failure"
        return "  "
            + ["\(count.jobs) \(kind.printable)", failed, age(of: count.first, at: now)]
            .compactMap(\.self).joined(separator: ", ")
    }

    /// The reasons of failures, the most frequent first.
    private static func reasons(_ count: Count, withExamples hasExamples: Bool) -> [String] {
        count.examples.sorted { ($1.value.count, $0.key) < ($0.value.count, $1.key) }.compactMap { reason, example in
            let number = reason.isEmpty ? nil : "\(example.count) \(reason)"
            let line = hasExamples ? "such as \(example.line)" : nil
            let parts = [number, line].compactMap(\.self)
            return parts.isEmpty ? nil : "      " + parts.joined(separator: ", ")
        }
    }

    private static func age(of first: Timestamp?, at now: Timestamp?) -> String? {
        guard let first else { return nil }
        guard let now, first < now else { return "the first due \(first.iso8601)" }
        let seconds = (now.milliseconds - first.milliseconds) / 1000
        return "the oldest due since \(first.iso8601), \(Int(seconds).asDuration)"
    }
}
