// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

// Reading of Apple's answers: the returned contents, or the reason for a refusal.

extension Endpoint {
    // Asynchronous functions call this function; see docs/decisions/007-sync-inside.md.

    /// Decodes the contents of an answer.
    ///
    /// - Parameter now: The time when the answer arrived.
    @inline(never)
    func contents(
        of answer: APIAnswer, from environment: Environment, at now: Timestamp
    ) throws(AppStoreAPIError) -> Answer {
        var fault: AppStoreAPIError
        do throws(AnswerFault) {
            guard answer.body.count <= APIAnswer.bodyLimit else {
                throw AnswerFault(sentence: "the answer is longer than \(APIAnswer.bodyLimit) bytes")
            }
            if 200...299 ~= answer.status {
                let contents = try success(answer)
                guard isNeverEmpty, isEmpty(contents) else { return contents }
                fault = AppStoreAPIError(
                    .contradiction, "The answer to '\(name)' is empty, and Apple has said otherwise before.")
            } else {
                fault = refusal(answer, at: now)
            }
        } catch {
            fault = AppStoreAPIError(.malformedAnswer, "The answer to '\(name)' is not usable: \(error.sentence).")
        }
        // Without these bytes, nobody could tell who answered in Apple's place.
        if fault.code == .malformedAnswer, Answer.self == Void.self, !answer.body.isEmpty {
            fault.causes = "The answer begins: “\(String(visible: answer.body, limit: APIAnswer.shownLimit))”."
        }
        fault.environment = environment
        fault.status = answer.status
        throw fault
    }

    private func success(_ answer: APIAnswer) throws(AnswerFault) -> Answer {
        guard answer.status == successStatus else {
            throw AnswerFault(sentence: "its HTTP status is \(answer.status), not \(successStatus)")
        }
        return try read(answer)
    }

    /// Returns the error of a failed request. The status alone does not prove that Apple answered: a proxy may answer
    /// with 403, 404, 407 or 413 too. Apple refuses some malformed requests without an error number. Such a refusal
    /// looks like a proxy's. If the endpoint's ``Endpoint/repetition`` is `always`, the client therefore repeats the
    /// request in vain, up to ``AppStoreClient/attempts``.
    private func refusal(_ answer: APIAnswer, at now: Timestamp) -> AppStoreAPIError {
        let number = answer.errorCode
        var error: AppStoreAPIError
        switch answer.status {
        case 401 where answer.mayBeApples: error = .init(.credentials, "Apple refused the bearer token of '\(name)'.")
        case 429 where number != nil: error = .init(.rateLimited, "Apple refused '\(name)' because of the rate limit.")
        case 400...499 where number != nil:
            error = .init(.refused, "Apple refused '\(name)' with HTTP status \(answer.status).")
        case 500...599 where number != nil:
            error = .init(.unavailable, "Apple's server failed at '\(name)' with HTTP status \(answer.status).")
        case 400...599:
            error = .init(
                .unavailable,
                "'\(name)' was answered with HTTP status \(answer.status), and not in Apple's form, as by a proxy.")
        default: error = .init(.malformedAnswer, "'\(name)' was answered with HTTP status \(answer.status).")
        }
        // A `Retry-After` header is ignored without Apple's number, because a proxy may have sent the header.
        guard let number else { return error }
        error.take(number, from: errors)
        if followsAnswer, error.code == .refused, !error.isInvitation, error.errorCode != .paginationTokenExpired {
            error.code = .contradiction
            error.message += " Apple has answered about the same id before."
        }
        if answer.status == 429 || answer.status >= 500 {
            error.retryAt = RetryAfter.time(answer.headers["retry-after"], at: now)
        }
        return error
    }
}

extension AppStoreAPIError {
    /// Takes over Apple's number, and adds the number and its name to the message.
    fileprivate mutating func take(_ number: Int64, from list: ErrorList) {
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
