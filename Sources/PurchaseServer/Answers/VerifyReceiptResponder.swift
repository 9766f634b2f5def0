// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import Crypto
import HTTPTypes
import Hummingbird
import InputForms
import PurchaseLedger
import ReceiptCoding

/// Answers verifyReceipt requests for one environment: from the receipt, and from the ledger if there is one.
///
/// Like Apple's endpoint, the responder accepts receipts of any app, and the caller compares `bundle_id`. The ledger
/// records only the receipts of its own apps. Only the responses to receipts of these apps contain data from the
/// ledger.
struct VerifyReceiptResponder: Sendable {
    private let environment: AppStoreModel.Environment
    private let service: LedgerService?
    /// Accepts receipts of any app.
    private let verifier: AppStoreVerifier

    init(_ environment: AppStoreModel.Environment, _ service: LedgerService?) {
        self.environment = environment
        self.service = service
        var verifier = service?.verifier ?? AppStoreVerifier(apps: .any, environments: [])
        verifier.apps = .any
        verifier.environments = Self.environments
        self.verifier = verifier
    }

    /// The environments whose receipts the App Store signs.
    private static let environments: Set<AppStoreModel.Environment> = [.production, .sandbox]

    /// The JSON of a response, and its status for the log.
    struct Reply: Sendable {
        let status: Int
        let json: [UInt8]

        fileprivate init(_ status: Open<VerifyReceiptStatus>?, json: [UInt8]) {
            self.status = status?.rawValue ?? 0
            self.json = json
        }

        fileprivate init(_ status: VerifyReceiptStatus) {
            self.init(Open(status), json: VerifyReceiptResponse(status: status).json)
        }
    }

    /// A verified receipt and the options of the request.
    struct Question: Sendable {
        fileprivate enum Document {
            /// An app receipt, and the ledger's reason to refuse the receipt; `nil` if the ledger accepts the receipt.
            case app(Verified<AppReceipt>, VerificationError?)
            /// An old transaction receipt. Only a server with a ledger can answer for such a receipt.
            case transaction(VerifiedTransactionReceipt, LedgerService)
        }

        fileprivate let document: Document
        fileprivate let password: String?
        /// Whether to answer with only the newest transaction of each subscription.
        fileprivate let latestOnly: Bool
        fileprivate let now: Timestamp

        fileprivate init(_ document: Document, _ request: VerifyReceiptRequest, at now: Timestamp) {
            self.document = document
            self.now = now
            password = request.password
            latestOnly = request.excludeOldTransactions ?? false
        }
    }

    /// Reads a request and verifies its receipt.
    ///
    /// - Returns: The question, or the status of the answer if the request is refused.
    func question(in body: [UInt8], at now: Timestamp) async -> Result<Question, VerifyReceiptStatus> {
        do {
            return .success(try await strictQuestion(in: body, at: now))
        } catch {
            let status = Self.status(of: error)
            if status == .malformedReceipt { Self.noteForm(of: body) }
            return .failure(status)
        }
    }

    /// Notes the form of the input for the log. The answer stays as strict as the App Store's.
    @inline(never)
    private static func noteForm(of body: [UInt8]) {
        // The body is JSON here, because a body that is not JSON gets a different status. If the member is missing, the
        // form of the body itself is noted.
        let data = JSONValue(readable: body)?["receipt-data"]?.string.map { Array($0.utf8) }
        let form = InputForm.name(of: (data ?? body)[...])
        RequestNotes.add { $0.form = form }
    }

    private func strictQuestion(in body: [UInt8], at now: Timestamp) async throws -> Question {
        let request = try VerifyReceiptRequest(parsing: body)
        guard let receipt = Base64.decode((request.receiptData ?? "").utf8) else {
            throw VerifyReceiptStatus.malformedReceipt
        }
        if let service, Self.isTransactionReceipt(receipt) {
            let verified = try await verify(old: receipt, at: now)
            return Question(.transaction(verified, service), request, at: now)
        }
        let (verified, refusal) = try await verify(receipt, at: now)
        guard verified.environment == environment else {
            throw environment == .production ? VerifyReceiptStatus.sandboxReceipt : .productionReceipt
        }
        return Question(.app(verified, refusal), request, at: now)
    }

    /// Answers a question, within the bounds on long answers.
    ///
    /// - Throws: ``Refusal/overloaded``, and `HTTPError` if the client disconnects while its request waits in the
    ///   queue.
    func answer(
        to question: Result<Question, VerifyReceiptStatus>, of request: Request, within bodies: BodyIntake
    ) async throws -> Reply {
        do {
            let question = try question.get()
            switch question.document {
            case .app(let receipt, let refusal):
                return try await answer(receipt, refusal, question, of: request, within: bodies)
            case .transaction(let receipt, let service):
                return try await answer(receipt, service, question, of: request, within: bodies)
            }
        } catch let error where !(error is Refusal || error is HTTPError) {
            return Reply(Self.status(of: error))
        }
    }

    /// The status for an error. If the server failed, the error is noted for the log.
    private static func status(of error: any Error) -> VerifyReceiptStatus {
        if let status = error as? VerifyReceiptStatus { return status }
        if error is VerificationError { return .unauthenticReceipt }
        // The server failed, so the status must not call the receipt invalid.
        RequestNotes.add { $0.failure = error }
        return error is LedgerStorageError ? .unavailable : .internalDataAccess
    }
}

// MARK: - App receipts

extension VerifyReceiptResponder {
    private func answer(
        _ receipt: Verified<AppReceipt>, _ refusal: VerificationError?, _ question: Question, of request: Request,
        within bodies: BodyIntake
    ) async throws -> Reply {
        let known = service.flatMap { $0.knows(receipt.bundleId, environment) ? $0 : nil }
        if known != nil, let refusal { RequestNotes.add { $0.refusal = refusal } }
        let purchases = receipt.payload.inAppPurchases.count
        let full = refusal == nil ? FullReceiptAnswer(receipt) : nil
        guard let service = known, let full else {
            return try await bodies.withAnswer(of: purchases, to: request) {
                answer(response(receipt, at: question.now))
            }
        }
        if full.isNeeded { try service.requireSecret(question.password, of: receipt.bundleId) }
        let record: @Sendable () async throws -> Void = {
            if try await full.isRefused(by: service.ledger) { throw VerifyReceiptStatus.accountNotFound }
            if let evidence = Evidence(receipt) { _ = try await service.ledger.record([evidence], at: question.now) }
            if full.isNeeded { await service.reconcilers?.ask(about: full.chains, in: full.scope) }
        }
        guard full.isNeeded else {
            return try await bodies.withAnswer(of: purchases, to: request, after: record) {
                answer(response(receipt, at: question.now))
            }
        }
        let rows = purchases + (try await service.ledger.statementCount(of: full.chains))
        let first = try await bodies.withAnswer(of: rows, to: request, after: record, isAnswer: \.isComplete) {
            try await complete(full, from: service.ledger, question, besides: [])
        }
        switch first {
        case .success(let answer): return answer
        case .failure(let uncounted):
            // A newer receipt has purchases that this receipt lacks. For the second attempt, memory is reserved for the
            // rows of those purchases too.
            let rows = rows + (try await service.ledger.statementCount(of: uncounted.chains))
            return try await bodies.withAnswer(of: rows, to: request) {
                let second = try await complete(full, from: service.ledger, question, besides: uncounted.chains)
                guard case .success(let answer) = second else { throw VerifyReceiptStatus.unavailable }
                return answer
            }
        }
    }

    private func complete(
        _ full: FullReceiptAnswer, from ledger: Ledger, _ question: Question, besides counted: Set<ChainKey>
    ) async throws -> Result<Reply, FullReceiptAnswer.Uncounted> {
        let response = response(full.receipt, at: question.now)
        return try await full.complete(response, from: ledger, latestOnly: question.latestOnly, besides: counted)
            .map { answer($0) }
    }

    /// The answer from the receipt alone.
    private func response(_ receipt: Verified<AppReceipt>, at now: Timestamp) -> VerifyReceiptResponse {
        VerifyReceiptResponse(
            status: .valid, environment: environment, receipt: Receipt(receipt.payload, requestDate: now))
    }

    private func answer(_ response: VerifyReceiptResponse) -> Reply { Reply(response.status, json: response.json) }

    /// Verifies a receipt. The verifier of the ledger's own apps is tried first, since most receipts are theirs. If it
    /// refuses the app or the environment, the verifier of all apps is tried.
    ///
    /// - Returns: The receipt, and the ledger's reason to refuse the receipt; `nil` if the ledger accepts the receipt.
    private func verify(
        _ receipt: [UInt8], at now: Timestamp
    ) async throws(VerifyReceiptStatus) -> (Verified<AppReceipt>, VerificationError?) {
        do throws(VerificationError) {
            var refusal: VerificationError?
            if var verifier = service?.verifier {
                verifier.environments.formIntersection(Self.environments)
                do throws(VerificationError) {
                    return (try await verifier.verify(receipt: receipt, at: now), nil)
                } catch {
                    guard [.otherApp, .otherEnvironment].contains(error.code) else { throw error }
                    refusal = error
                }
            }
            return (try await verifier.verify(receipt: receipt, at: now), refusal)
        } catch {
            throw Self.status(of: error, receipt)
        }
    }

    /// Whether a document can be read as an app receipt.
    @inline(never)
    private static func isReceipt(_ document: [UInt8]) -> Bool {
        // The error has no further use.
        (try? SignedReceipt(decoding: document)) != nil
    }

    private static func status(of error: VerificationError, _ receipt: [UInt8]) -> VerifyReceiptStatus {
        switch error.code {
        case .malformed:
            // Only a document that is not a receipt at all is malformed. The App Store signs no receipt with faults
            // inside, so a receipt with such faults is not authentic.
            return isReceipt(receipt) ? .unauthenticReceipt : .malformedReceipt
        case .unreadable:
            // The receipt is authentic, so 21003 would be wrong: this version of the server cannot read it.
            RequestNotes.add { $0.refusal = error }
            return .internalDataAccess
        case .revocationUnknown: return .unavailable
        default: return .unauthenticReceipt
        }
    }
}

extension Result where Failure == FullReceiptAnswer.Uncounted {
    fileprivate var isComplete: Bool {
        if case .success = self { true } else { false }
    }
}

// MARK: - Old transaction receipts

extension VerifyReceiptResponder {
    private func answer(
        _ receipt: VerifiedTransactionReceipt, _ service: LedgerService, _ question: Question, of request: Request,
        within bodies: BodyIntake
    ) async throws -> Reply {
        guard service.knows(receipt.bundleId, environment) else { throw VerifyReceiptStatus.accountNotFound }
        let old = OldReceiptAnswer(receipt: receipt, environment: environment)
        let ids = [receipt.payload.originalTransactionId, receipt.payload.transactionId].compactMap { $0 }
        let scope = LedgerScope(bundleId: receipt.bundleId, environment: environment)
        guard !service.ledger.rules.catalogue(scope).refuses(ids) else { throw VerifyReceiptStatus.accountNotFound }
        if old.isSubscription { try service.requireSecret(question.password, of: receipt.bundleId) }
        // The answer is short, but the ledger loads all transactions of the purchase to make it.
        return try await bodies.withAnswer(of: try await old.rows(in: service.ledger), to: request) {
            let response = try await old.response(from: service.ledger, at: question.now)
            return Reply(response.status, json: response.json)
        }
    }

    /// Whether a document can be read as an old transaction receipt.
    @inline(never)
    private static func isTransactionReceipt(_ document: [UInt8]) -> Bool {
        // Any other document is read as an app receipt. The reader of app receipts reports the fault.
        (try? TransactionReceipt(decoding: document)) != nil
    }

    /// Verifies an old transaction receipt. A receipt with the name of the other environment is refused before the
    /// ledger is read. The environment's name is not signed, so the name alone can never make a receipt valid.
    private func verify(old receipt: [UInt8], at now: Timestamp) async throws -> VerifiedTransactionReceipt {
        do throws(VerificationError) {
            return try await oldVerifier.verify(transactionReceipt: receipt, at: now)
        } catch {
            guard error.code == .otherEnvironment else { throw error }
            throw environment == .production ? VerifyReceiptStatus.sandboxReceipt : .productionReceipt
        }
    }

    private var oldVerifier: AppStoreVerifier {
        var verifier = verifier
        verifier.environments = [environment]
        return verifier
    }
}

// MARK: - The rules of an app

extension LedgerService {
    /// Whether the ledger records documents of this app and environment.
    fileprivate func knows(_ bundleId: String?, _ environment: AppStoreModel.Environment) -> Bool {
        verifier.environments.contains(environment) && verifier.apps.contain(bundleId ?? "")
    }

    /// Compares the app's shared secret, if it has one, in constant time.
    fileprivate func requireSecret(_ password: String?, of bundleId: String?) throws(VerifyReceiptStatus) {
        guard let secret = bundleId.flatMap({ apps[$0] })?.sharedSecret else { return }
        let given = SHA256.hash(data: Array((password ?? "").utf8))
        guard given == SHA256.hash(data: Array(secret.utf8)) else { throw .wrongSharedSecret }
    }
}
