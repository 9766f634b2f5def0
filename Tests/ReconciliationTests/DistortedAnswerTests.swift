// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import AppStoreSimulator
import PurchaseLedger
import Reconciliation
import Synchronization
import TestData
import Testing

/// Answers of the App Store in which a single member is missing or has another type: nothing is complete without its
/// whole, nothing is lost for good, and nothing repeats without end.
@Suite struct DistortedAnswerTests {
    /// A change of one member of an answer.
    struct Distortion: Sendable {
        /// The names and positions that lead to the member.
        var path: [String]
        /// `nil` to leave the member out.
        var value: JSONValue?

        var text: String { path.joined(separator: ".") + ": " + (value?.compactText ?? "left out") }

        func applied(to answer: JSONValue, _ depth: Int = 0) -> JSONValue {
            let name = path[depth]
            func changed(_ old: JSONValue) -> JSONValue? {
                depth + 1 == path.count ? value : applied(to: old, depth + 1)
            }
            switch answer {
            case .object(let members):
                return .object(
                    members.compactMap { member in
                        guard member.name == name else { return member }
                        return changed(member.value).map { JSONValue.Member(name, $0) }
                    })
            case .array(let elements):
                return .array(
                    elements.enumerated().compactMap { "\($0.offset)" == name ? changed($0.element) : $0.element })
            default: return answer
            }
        }

        private static let values: [JSONValue] = [
            .null, .bool(true), .number("7"), .number("-1"), .number("1e400"), .string(""), .string("x"), .array([]),
            .array([.null]), .object([]), .object([.init("x", .null)]),
        ]

        /// All changes of an answer. Of an array the first element stands for all.
        static func all(of answer: JSONValue, at path: [String] = []) -> [Distortion] {
            var parts: [(String, JSONValue)] = []
            switch answer {
            case .object(let members): parts = members.map { ($0.name, $0.value) }
            case .array(let elements): parts = elements.prefix(1).map { ("0", $0) }
            default: break
            }
            return parts.flatMap { name, value in
                let own = values.filter { $0.kind != value.kind }.map { Distortion(path: path + [name], value: $0) }
                return [Distortion(path: path + [name])] + own + all(of: value, at: path + [name])
            }
        }
    }

    /// Changes the answer to the request at one position.
    private final class Distorter: AppStoreTransport {
        private let store: SimulatedTransport
        private let state = Mutex<(position: Int, targets: [String], distortion: Distortion?)>((0, [], nil))
        /// The answer at the position, as the store sent it.
        private let seen = Mutex<JSONValue?>(nil)

        init(_ store: SimulatedTransport) { self.store = store }

        func distort(_ position: Int, _ distortion: Distortion?) {
            state.withLock { $0 = (position, [], distortion) }
            seen.withLock { $0 = nil }
        }

        var original: JSONValue? { seen.withLock { $0 } }

        func answer(
            to request: APIRequest, in environment: AppStoreModel.Environment, within timeout: Duration
        ) async throws -> APIAnswer {
            var answer = try await store.answer(to: request, in: environment, within: timeout)
            // The body distinguishes the requests for notifications.
            let target = request.target + String(decoding: request.body, as: UTF8.self)
            let (isChosen, distortion) = state.withLock { state in
                if !state.targets.contains(target) { state.targets.append(target) }
                return (state.targets.firstIndex(of: target) == state.position, state.distortion)
            }
            guard isChosen, answer.status == 200 else { return answer }
            let value = try JSONValue(parsing: answer.body)
            seen.withLock { $0 = value }
            if let distortion { answer.body = Array(distortion.applied(to: value).compactText.utf8) }
            return answer
        }
    }

    private static func scene() async throws -> (JobTests.Scene, Distorter) {
        var made: Distorter?
        let scene = try await JobTests.Scene { store, _ in
            let distorter = Distorter(store)
            made = distorter
            return distorter
        }
        try await scene.buy()
        // Two pages of transactions.
        try await scene.pass(days: 790)
        return (scene, try #require(made))
    }

    /// What Apple itself may leave out or say, so that nobody can tell a part from the whole.
    private static let plausible: Set<String> = [
        "signedTransactions.0: left out", "data.0.lastTransactions.0.signedRenewalInfo: left out",
        "data.0.lastTransactions.0.signedRenewalInfo: null",
        "data.0.lastTransactions.0.signedTransactionInfo: left out",
        "data.0.lastTransactions.0.signedTransactionInfo: null",
    ]

    /// A customer's history: a page, its second page, the statuses.
    @Test(.takesLong, arguments: 0..<3)
    func `no distorted answer makes a part of a history the whole of it`(position: Int) async throws {
        let (first, distorter) = try await Self.scene()
        distorter.distort(position, nil)
        let id = await first.transactionId
        _ = try await first.reconciler.takeHistory(HistoryQuestion(transactionId: id), within: .seconds(20))
        let distortions = Distortion.all(of: try #require(distorter.original))
        #expect(distortions.count > 20)
        for distortion in distortions {
            let (scene, distorter) = try await Self.scene()
            distorter.distort(position, distortion)
            let outcome = try? await scene.reconciler.takeHistory(
                HistoryQuestion(transactionId: id), within: .seconds(20))
            let isWhole = try await scene.isWhole
            // An unusable document is counted in the report.
            if case .complete(let report) = outcome, report.refused == 0 {
                #expect(isWhole || Self.plausible.contains(distortion.text), "\(distortion.text)")
            }
            #expect(scene.requests.count <= 20, "\(distortion.text)")
            distorter.distort(position, nil)
            if !isWhole { try await scene.pass(seconds: 7200) }
            while try await scene.workOnce() {}
            _ = try await scene.reconciler.takeHistory(HistoryQuestion(transactionId: id), within: .seconds(20))
            #expect(try await scene.isWhole, "\(distortion.text)")
        }
    }

    @Test(.takesLong) func `no distorted answer ends the reading of notifications for good`() async throws {
        let (first, distorter) = try await Self.scene()
        distorter.distort(0, nil)
        try await first.work()
        let distortions = Distortion.all(of: try #require(distorter.original))
        #expect(distortions.count > 20)
        for distortion in distortions {
            let (scene, distorter) = try await Self.scene()
            distorter.distort(0, distortion)
            try await scene.work()
            #expect(scene.requests.count <= 60, "\(distortion.text)")
            distorter.distort(0, nil)
            for _ in 0..<3 { try await scene.work(afterSeconds: 3600) }
            #expect(try await scene.entitlements == ["pro"], "\(distortion.text)")
        }
    }
}

extension JSONValue {
    /// A word for the type.
    fileprivate var kind: String {
        switch self {
        case .null: "null"
        case .bool: "bool"
        case .number: "number"
        case .string: "string"
        case .array: "array"
        case .object: "object"
        }
    }
}
