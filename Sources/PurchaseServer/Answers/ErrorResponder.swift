// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import AppStoreTrust
import HTTPTypes
import Hummingbird
import Logging
import PurchaseLedger
import Reconciliation

/// Turns errors of routes into responses. Two other types make their own responses to overload: ``FullServer`` and
/// ``VerifyReceiptRoutes``.
///
/// An unexpected error becomes 500 without details, and the log has the details. Logs name the route, never the path,
/// because the path contains customer ids.
struct ErrorResponder {
    let logger: Logger

    /// Returns the response for an error, and notes the error's code for the log line of the request.
    func response(to error: any Error, of notes: RequestNotes, route: String) -> Response {
        let refusal = refusal(of: error, notes, route)
        notes.add { notes in
            notes.code = refusal.code.rawValue
            notes.form = refusal.form
            notes.refusal = refusal.cause
        }
        return Self.response(refusal)
    }

    /// The refusal of a request with a fault; `nil` for all other errors.
    static func fault(_ error: any Error) -> Refusal? {
        error is FieldFault || error is SigningError || error is HistoryQuestionError ? .invalid("\(error)") : nil
    }

    private func refusal(of error: any Error, _ notes: RequestNotes, _ route: String) -> Refusal {
        if let fault = Self.fault(error) { return fault }
        switch error {
        case let refusal as Refusal:
            if refusal.isRetryable, !refusal.isOverload {
                log("Refused for now", "code", refusal.code.rawValue, notes, route)
            }
            return refusal
        case let error as VerificationError:
            return Refusal(error)
        case let error as AppStoreAPIError:
            log(Refusal.logMessage(error), "error", "\(error)", notes, route)
            return Refusal(error)
        case let error as LedgerStorageError:
            log(error, of: notes, route: route)
            return Refusal(error)
        case let error as any HTTPResponseError:
            return Self.refusal(error.status)
        default:
            log(error, of: notes, route: route)
            return Self.refusal(.internalServerError)
        }
    }

    /// Logs a failure of the server. The response itself may be a success.
    func log(_ error: any Error, of notes: RequestNotes, route: String) {
        log(Self.message(of: error), "error", "\(error)", notes, route)
    }

    private static func message(of error: any Error) -> Logger.Message {
        guard let error = error as? LedgerStorageError else { return "Request failed" }
        return error.code == .otherRoots ? "Documents of other roots are not recorded" : "Storage failed"
    }

    private func log(
        _ message: Logger.Message, _ name: String, _ value: String, _ notes: RequestNotes, _ route: String
    ) {
        logger.error(
            message, metadata: ["route": .string(route), name: .string(value), "requestId": .string(notes.id)])
    }

    private static func refusal(_ status: HTTPResponse.Status) -> Refusal {
        let (code, message): (ErrorCode, String) =
            switch status {
            case .notFound: (.notFound, ErrorCode.noRoute)
            case .contentTooLarge: (.tooLarge, "The body is longer than this route accepts.")
            case .badRequest: (.badRequest, "The request could not be read.")
            case .requestTimeout: (.timeout, "The body took too long to arrive.")
            default:
                status.kind == .serverError ? (.internal, "The server failed.") : (.refused, status.reasonPhrase)
            }
        let isRetryable = status.kind == .serverError || status == .requestTimeout
        return Refusal(code, message, status: status, isRetryable: isRetryable)
    }

    private static func response(_ refusal: Refusal) -> Response {
        var response = Response(refusal.status, json: ErrorBody(refusal).json)
        response.headers.append(contentsOf: refusal.headers)
        if refusal.status == .serviceUnavailable, refusal.isRetryable, response.headers[.retryAfter] == nil {
            response.headers[.retryAfter] = "\(ServerBounds.retryAfter)"
        }
        return response
    }
}
