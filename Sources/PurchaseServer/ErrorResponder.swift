// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import HTTPTypes
import Hummingbird
import Logging
import PurchaseLedger

/// The one place where an error becomes an answer: `{"error": {"code", "message", "retryable"}}`.
///
/// What nobody foresaw is 500, logged here, and tells the caller nothing. Logs name the route, never the path, in which the ids
/// of customers are.
struct ErrorResponder<Context: RequestContext>: RouterMiddleware {
    let logger: Logger

    func handle(
        _ request: Request, context: Context, next: (Request, Context) async throws -> Response
    ) async throws -> Response {
        do {
            let response = try await next(request, context)
            if let failure = RequestNotes.current?.all.storageFailure { logStorageFailure(failure, context) }
            return response
        } catch let refusal as Refusal {
            if refusal.status.kind == .serverError, !refusal.isOverload {
                log("Refused for now", context, "code", refusal.code)
            }
            return Self.response(refusal)
        } catch let error as VerificationError {
            return Self.response(Refusal(error))
        } catch let error as LedgerStorageError {
            logStorageFailure(error, context)
            return Self.response(Refusal(error))
        } catch let error as any HTTPResponseError {
            return Self.response(error.status)
        } catch {
            log("Request failed", context, "error", "\(error)")
            return Self.response(.internalServerError)
        }
    }

    private func logStorageFailure(_ error: LedgerStorageError, _ context: Context) {
        log("Storage failed", context, "error", "\(error)")
    }

    private func log(_ message: Logger.Message, _ context: Context, _ name: String, _ value: String) {
        logger.error(
            message,
            metadata: [
                "route": .string(context.route), name: .string(value),
                "requestId": .string(RequestNotes.current?.id ?? "none"),
            ])
    }

    private static func response(_ status: HTTPResponse.Status) -> Response {
        let (code, message) =
            switch status {
            case .notFound: ("notFound", "There is nothing at this path.")
            case .contentTooLarge: ("tooLarge", "The body is longer than this route accepts.")
            case .badRequest: ("badRequest", "The request could not be read.")
            case .requestTimeout: ("timeout", "The body took too long to arrive.")
            default:
                status.kind == .serverError ? ("internal", "Something failed here.") : ("refused", status.reasonPhrase)
            }
        let isRetryable = status.kind == .serverError || status == .requestTimeout
        return response(Refusal(status: status, code: code, message: message, isRetryable: isRetryable))
    }

    private static func response(_ refusal: Refusal) -> Response {
        RequestNotes.add { notes in
            notes.code = refusal.code
            notes.refusal = refusal.cause
        }
        var json = JSONWriter()
        json.object { json in
            json.name("error")
            json.object { json in
                json.member("code", refusal.code)
                json.member("message", refusal.message)
                json.name("retryable")
                json.bool(refusal.isRetryable)
            }
        }
        var response = Response(refusal.status, json: json.bytes)
        if let seconds = refusal.retryAfter { response.headers[.retryAfter] = "\(seconds)" }
        return response
    }
}
