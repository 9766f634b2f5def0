// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import HTTPTypes
import Hummingbird
import PurchaseLedger
import Reconciliation

/// The route that brings one customer's whole history into the ledger.
struct BackfillRoutes: Sendable {
    let authentication: Authentication

    /// The maximum length of a body in bytes: one receipt of the largest size as base64, as for verifyReceipt.
    private static let bodyLimit = Limits.verifyReceiptRequest

    /// The longest time for requests to the App Store: a third of the default `requestTimeout`. No request begins in
    /// the second half of this time. If the history is not complete by then, a job reads the rest.
    private static let limit = Duration.seconds(20)

    var routes: [APIRoute] {
        [
            authentication.route(
                .post, "/v1/backfill", "brings the whole history of one customer from the App Store into the ledger",
                role: .server, parameters: [.environment],
                body: APIBody(["transactionId", "orderId", "document"], upTo: Self.bodyLimit),
                statuses: [.ok, .accepted], errors: ErrorCode.ofAppStore.union([.notFound])
            ) { request in try await request.withBody { try await backfill($1, $0) } }
        ]
    }

    private func backfill(_ body: [UInt8], _ request: AuthenticatedRequest) async throws -> Answer<BackfillBody> {
        let question = try HistoryQuestion(parsing: body)
        let reconciler = try request.reconciler()
        do {
            switch try await reconciler.takeHistory(question, within: Self.limit) {
            case .complete(let report): return try Answer(BackfillBody(report))
            case .later(let job): return try Answer(BackfillBody(job), .accepted)
            }
        } catch let error as HistoryQuestionError {
            throw Refusal(.notFound, error.description)
        }
    }
}

extension HistoryQuestion {
    /// `{"transactionId": …}`, `{"orderId": …}` or `{"document": …}`.
    fileprivate init(parsing body: [UInt8]) throws(Refusal) {
        let members = JSONValue(readable: body)?.members ?? []
        guard members.count == 1, let (name, text) = members.first.map({ ($0.name, $0.value.string ?? "") }),
            ["transactionId", "orderId", "document"].contains(name)
        else {
            let list = body.first == UInt8(ascii: "{") ? nil : HistoryQuestionError.form(of: body)
            throw .invalid(Self.expected + (list.map { " \($0) Only quittance backfill takes a list." } ?? ""))
        }
        do throws(HistoryQuestionError) {
            switch name {
            case "transactionId": try self.init(transactionId: text)
            case "orderId": try self.init(orderId: text)
            default: try self.init(document: text.utf8)
            }
        } catch {
            throw .invalid("\(name): \(error)")
        }
    }

    private static let expected = #"The body is not {"transactionId": …}, {"orderId": …} or {"document": …}."#
}
