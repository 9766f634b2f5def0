// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation

// The endpoints of the app server's URL for retention messages, and of the URL's performance test. When a customer is
// about to cancel, the App Store asks this URL for the message to show.

extension SimulatedStore {
    /// The longest URL, in characters: Apple's number.
    private static let urlLength = 256

    mutating func setRealtimeURL(_ call: StoreCall) throws -> StoreResponse {
        guard let text = try call.json()["realtimeURL"]?.string, text.count <= Self.urlLength,
            let url = URL(string: text),
            url.scheme?.lowercased() == "https", url.host?.isEmpty == false
        else { throw StoreRefusal(.badRequestRealtimeUrl) }
        if call.environment == .production {
            let tests = retention[.sandbox]?.tests.values.map { $0 } ?? []
            guard tests.contains(where: { $0.end <= world.now }) else { throw StoreRefusal(.forbiddenNoPassingTest) }
        }
        retention[call.environment, default: RetentionMessages()].realtimeURL = text
        return StoreResponse(status: 200)
    }

    func realtimeURL(_ call: StoreCall) throws -> StoreResponse {
        var answer = RealtimeURL()
        answer.realtimeURL = retention(call).realtimeURL
        guard answer.realtimeURL != nil else { throw StoreRefusal(.realtimeUrlNotFound) }
        return try StoreResponse(encoding: answer)
    }

    mutating func deleteRealtimeURL(_ call: StoreCall) throws -> StoreResponse {
        guard retention(call).realtimeURL != nil else { throw StoreRefusal(.realtimeUrlNotFound) }
        retention[call.environment]?.realtimeURL = nil
        return StoreResponse(status: 200)
    }

    // MARK: - Performance test

    /// The parameters of a test. Apple has not published its numbers. The response time threshold is near Apple's time
    /// limit for a response.
    private static let testConfig: PerformanceTestConfig = {
        var config = PerformanceTestConfig()
        config.maxConcurrentRequests = 10
        config.totalRequests = 100
        config.totalDuration = 60_000
        config.responseTimeThreshold = 700
        config.successRateThreshold = 95
        return config
    }()

    /// The most test results that the store keeps. If so many are kept, the start of a further test drops all of them.
    /// No client starts so many tests.
    private static let performanceTests = 1000

    /// Starts a test of the sandbox's URL. The simulator sends no requests to the URL. It only lets a minute pass, and
    /// then reports a passed test.
    mutating func startPerformanceTest(_ call: StoreCall) throws -> StoreResponse {
        // The client gets only Apple's code, so the parser's reason is dropped.
        guard let id = try? call.json()["originalTransactionId"]?.string else {
            throw StoreRefusal(.invalidPerformanceTestRequest)
        }
        guard id.isTransactionId else { throw StoreRefusal(.invalidOriginalTransactionId) }
        guard world.customer(ofTransaction: id)?.environment == call.environment, world.subscriptions[id] != nil else {
            throw StoreRefusal(.originalTransactionIdNotFound)
        }
        var state = retention(call)
        guard let target = state.realtimeURL else { throw StoreRefusal(.realtimeUrlNotFound) }
        guard !state.tests.values.contains(where: { $0.end > world.now }) else {
            throw StoreRefusal(.existingPerformanceTestRun)
        }
        if state.tests.count >= Self.performanceTests { state.tests = [:] }
        var answer = PerformanceTestResponse()
        answer.config = Self.testConfig
        let request = String(uuidOf: random.bytes(16))
        answer.requestId = request
        state.tests[request] = RetentionMessages.PerformanceTest(target: target, end: world.now.adding(minutes: 1))
        retention[call.environment] = state
        return try StoreResponse(encoding: answer)
    }

    func performanceTestResult(_ call: StoreCall) throws -> StoreResponse {
        guard call.id.isUUID else { throw StoreRefusal(.invalidRequestId) }
        guard let test = retention(call).tests[call.id.lowercased()] else {
            throw StoreRefusal(.performanceTestRunNotFound)
        }
        let isOver = test.end <= world.now
        var answer = PerformanceTestResultResponse()
        answer.config = Self.testConfig
        answer.target = test.target
        answer.result = Open(isOver ? .pass : .pending)
        answer.successRate = isOver ? 100 : 0
        answer.numPending = isOver ? 0 : Self.testConfig.totalRequests
        return try StoreResponse(encoding: answer)
    }
}
