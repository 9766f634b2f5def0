// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import ArgumentParser
import PurchaseLedger
import Reconciliation

/// `quittance jobs`: what a ledger still has to do, and what could not be done.
struct Jobs: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "List what a server still has to ask or do, and retry what failed.",
        discussion: """
            A job waits until it is due. Then a running server does it, and tries again later if it fails. Kinds: \
            notificationHistory, customerHistory, consumption, subscriptionStatus, and parkedDocument for a \
            notification that is not valid (docs/reconciliation.md).

              quittance jobs --failed --config quittance.json
              quittance jobs retry --kind parkedDocument --config quittance.json
            """,
        subcommands: [List.self, Retry.self], defaultSubcommand: List.self)

    /// Which jobs are meant.
    struct Filter: ParsableArguments {
        @Option(help: "Only jobs of this kind.")
        var kind: String?

        private static let kinds: [Job.Kind] = [
            .notificationHistory, .customerHistory, .consumption, .subscriptionStatus, .parkedDocument,
        ]

        func validate() throws {
            guard let kind, !Self.kinds.contains(where: { $0.rawValue == kind }) else { return }
            let known = Self.kinds.map(\.rawValue).joined(separator: ", ")
            throw ValidationError("--kind takes one of \(known).")
        }

        @Option(help: "Only jobs of this app.")
        var bundleId: String?

        @Flag(help: "Only jobs whose last attempt failed, and parked documents.")
        var failed = false

        func matches(_ job: Job) -> Bool {
            (kind == nil || kind == job.id.kind.rawValue) && (bundleId == nil || bundleId == job.id.scope.bundleId)
                && (!failed || job.failure != nil)
        }

        /// Calls `body` with each job that is meant.
        ///
        /// - Throws: Exit status 1 if jobs cannot be read; errors of `body`.
        func forEach(in ledger: Ledger, _ body: (Job) async throws -> Void) async throws {
            var (cursor, isDamaged) = (ScanCursor?.none, false)
            repeat {
                let page = try await ledger.jobs(after: cursor)
                for fault in page.damage { Terminal.printError("quittance: \(fault)") }
                isDamaged = isDamaged || !page.damage.isEmpty
                for job in page.items where matches(job) { try await body(job) }
                cursor = page.next
            } while cursor != nil
            if isDamaged { throw ExitCode(1) }
        }
    }

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "List jobs: kind, app, environment, name, when it is due, attempts, and why the last one failed.",
            discussion: """
                The name of a subscriptionStatus is an originalTransactionId, that of a parkedDocument the SHA-256 of \
                the document.
                """)

        @OptionGroup var options: ServerOptions
        @OptionGroup var filter: Filter

        @Flag(help: "Print one JSON object per job, and nothing else.")
        var json = false

        func run() async throws {
            let storage = try await options.composition().openStorage(isReadOnly: true)
            defer { try? storage.close() }
            var (count, failed) = (0, 0)
            try await filter.forEach(in: Ledger(storage: storage)) { job in
                (count, failed) = (count + 1, failed + (job.failure == nil ? 0 : 1))
                try Terminal.print(json ? job.json : job.line)
            }
            guard !json else { return }
            try Terminal.print("\(counted(count, "job")), \(failed) of them with a failure.")
        }
    }

    struct Retry: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Make jobs due now. A running server does them within a second or two.",
            discussion: "Without a server they are done once one starts.")

        @OptionGroup var options: ServerOptions
        @OptionGroup var filter: Filter

        @Argument(help: "The name of a job in quittance jobs. Omit it to retry all that the options name.")
        var name: String?

        func validate() throws {
            guard name != nil || filter.kind != nil || filter.failed else {
                throw ValidationError("Which jobs? Pass a name, --kind or --failed.")
            }
        }

        func run() async throws {
            var composition = try options.composition()
            try await composition.takeSimulatorTime(composition.logger())
            let storage = try await composition.openStorage()
            defer { try? storage.close() }
            let (ledger, now) = (Ledger(storage: storage), composition.now())
            var count = 0
            try await filter.forEach(in: ledger) { job in
                // A consumption request that was answered or given up keeps its outcome.
                let isOpen = ConsumptionQuestion(job)?.state ?? .waiting == .waiting
                guard isOpen, name == nil || name == job.id.name else { return }
                var next = job
                next.dueAt = min(job.dueAt, now)
                // If it is done or postponed meanwhile, that counts.
                _ = try await ledger.replace(job, with: next, at: now)
                count += 1
            }
            guard count > 0 else { throw ValidationError("The ledger has no such job. quittance jobs lists all.") }
            try Terminal.print("\(counted(count, "job")) due now.")
        }
    }
}

extension Job {
    /// What the list shows of the job. Names and reasons may come from elsewhere.
    fileprivate var line: String {
        let parts = [
            id.kind.rawValue, id.scope.bundleId, id.scope.environment.rawValue, id.name.isEmpty ? "-" : id.name,
            "due \(dueAt.iso8601)", counted(attempts, "attempt"), failure,
        ]
        return parts.compactMap(\.self).map(\.printable).joined(separator: "  ")
    }

    fileprivate var json: String {
        let body = Body(
            kind: id.kind.rawValue, bundleId: id.scope.bundleId, environment: id.scope.environment.rawValue,
            name: id.name, dueAt: dueAt, attempts: attempts, failure: failure)
        return String(decoding: (try? JSONWriter.bytes(encoding: body)) ?? [], as: UTF8.self)
    }

    private struct Body: Encodable {
        var kind, bundleId, environment, name: String
        var dueAt: Timestamp
        var attempts: Int
        var failure: String?
    }
}
