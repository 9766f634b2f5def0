// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

// Reads an answer: what Apple returned, or why it refused.

extension Endpoint {
    // Called by asynchronous functions; see "Synchronous inside" in ARCHITECTURE.md.

    /// The answer's contents.
    ///
    /// - Parameter now: When the answer arrived.
    @inline(never)
    func contents(
        of answer: APIAnswer, from environment: Environment, at now: Timestamp
    ) throws(AppStoreAPIError) -> Answer {
        var fault: AppStoreAPIError
        do throws(AnswerFault) {
            guard answer.body.count <= APIAnswer.bodyLimit else {
                throw AnswerFault(sentence: "it is longer than \(APIAnswer.bodyLimit) bytes")
            }
            if 200...299 ~= answer.status { return try read(answer) }
            fault = refusal(answer, at: now)
        } catch {
            fault = AppStoreAPIError(.malformedAnswer, "The answer to '\(name)' is not usable: \(error.sentence).")
        }
        fault.environment = environment
        fault.status = answer.status
        throw fault
    }

    private func refusal(_ answer: APIAnswer, at now: Timestamp) -> AppStoreAPIError {
        var error: AppStoreAPIError
        switch answer.status {
        case 401: error = .init(.credentials, "Apple refused the bearer token of '\(name)'.")
        case 429:
            error = .init(.rateLimited, "Apple refused '\(name)' because of the rate limit.")
            error.retryAt = RetryAfter.time(answer.headers["retry-after"], at: now)
        case 400...499: error = .init(.refused, "Apple refused '\(name)' with HTTP status \(answer.status).")
        case 500...599:
            error = .init(.unavailable, "Apple's server failed at '\(name)' with HTTP status \(answer.status).")
            error.retryAt = RetryAfter.time(answer.headers["retry-after"], at: now)
        default: error = .init(.malformedAnswer, "'\(name)' was answered with HTTP status \(answer.status).")
        }
        error.take(answer, from: errors)
        return error
    }
}

extension AppStoreAPIError {
    /// Takes over Apple's number, if the answer has one, and says what it means.
    fileprivate mutating func take(_ answer: APIAnswer, from list: ErrorList) {
        guard answer.isJSON, let json = try? JSONValue(parsing: answer.body), let number = json["errorCode"]?.integer
        else { return }
        var name: String?
        switch list {
        case .serverAPI:
            errorCode = Open(rawValue: number)
            name = errorCode?.known?.name
        case .advancedCommerce:
            advancedCommerceErrorCode = Open(rawValue: number)
            name = advancedCommerceErrorCode?.known?.name
        }
        message = "\(message.dropLast()): \(number)\(name.map { " \($0)" } ?? "")."
    }
}
