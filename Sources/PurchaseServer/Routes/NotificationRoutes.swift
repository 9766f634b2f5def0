// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import Hummingbird
import InputForms
import PurchaseLedger
import ReceiptCoding

/// The routes for Apple's server notifications. The routes need no API key, since notifications are signed. The server
/// responds once the notification is on disk.
struct NotificationRoutes: Sendable {
    /// The maximum length of a version 2 notification's body in bytes: genuine notifications stay below 30 KB.
    fileprivate static let bodyLimit = 256 << 10

    let service: LedgerService
    let bodies: BodyIntake
    let now: @Sendable () -> Timestamp

    var routes: [APIRoute] {
        [
            APIRoute(
                .post, "/notifications/v2", "records a version 2 notification of the App Store",
                members: ["signedPayload"], bodyLimit: Self.bodyLimit, errors: Self.errors
            ) { request, _ in
                let isNew = try await bodies.withBody(of: request, upTo: Self.bodyLimit) { try await receive(v2: $0) }
                if isNew { service.lastNotification.accepted(at: now()) }
                return try Answer(EmptyBody())
            },
            APIRoute(
                .post, "/notifications/v1", "records the receipt in a version 1 notification",
                members: ["unified_receipt"], bodyLimit: Limits.notificationV1, errors: Self.errors
            ) { request, _ in
                try await bodies.withBody(of: request, upTo: Limits.notificationV1) { try await receive(v1: $0) }
                return try Answer(EmptyBody())
            },
        ]
    }

    private static let errors = ErrorCode.ofDocuments.union([.invalidRequest, .storageUnavailable, .otherRoots])

    /// Records a version 2 notification, whose body is `{"signedPayload": …}`.
    ///
    /// - Returns: Whether the notification is new.
    /// - Throws: ``VerificationError`` if the verification fails; ``LedgerStorageError`` if the ledger cannot store the
    ///   notification; ``Refusal`` 400 if the body is not a notification; ``Refusal`` 503 if this version cannot read a
    ///   genuine notification, so that the App Store retries.
    private func receive(v2 body: [UInt8]) async throws -> Bool {
        let payload = try Refusal.signedPayload(in: body)
        let now = now()
        guard let evidence = Evidence(try await verify(payload, at: now)) else {
            throw Refusal.invalid("The notification names no app.")
        }
        return try await service.ledger.record([evidence], at: now).new > 0
    }

    private func verify(_ payload: String, at now: Timestamp) async throws -> VerifiedNotification {
        do throws(VerificationError) {
            return try await service.verifier.verify(notification: payload.utf8, at: now)
        } catch {
            guard error.code == .unreadable else { throw error }
            throw Refusal.unreadable(error)
        }
    }

    /// Records the receipt in a version 1 notification. The rest of the notification is not signed, and is not read.
    ///
    /// - Throws: As ``receive(v2:)``, but never ``Refusal`` 503: a receipt that this version cannot read is a
    ///   ``VerificationError``.
    private func receive(v1 body: [UInt8]) async throws {
        guard let receipt = ResponseBodyV1.latestReceipt(in: body) else {
            throw Refusal.wrongNotification(body, #"{"unified_receipt": {"latest_receipt": …}}"#, version: 1)
        }
        let now = now()
        guard let evidence = Evidence(try await service.verifier.verify(receipt: receipt, at: now)) else {
            throw Refusal.invalid("The receipt names no app.")
        }
        _ = try await service.ledger.record([evidence], at: now)
    }
}

/// The empty JSON object of an answer: the status alone says that the request was recorded.
private struct EmptyBody: Encodable, Sendable {}

extension Refusal {
    /// Reads a body from the App Store, `{"signedPayload": …}`.
    static func signedPayload(in body: [UInt8]) throws(Refusal) -> String {
        try (JSONValue(readable: body)?["signedPayload"]).require(
            as: \.string, else: wrongNotification(body, #"{"signedPayload": …}"#))
    }

    /// The refusal of a body without a notification. It names the form of the body, as the refusal of a submission
    /// does, because a wrong setting in App Store Connect shows itself only here.
    ///
    /// - Parameters:
    ///   - expected: The form of a right body.
    ///   - version: The version of the route's notifications.
    @inline(never)
    fileprivate static func wrongNotification(_ body: [UInt8], _ expected: String, version: Int = 2) -> Refusal {
        var refusal = invalid("The body is not \(expected).")
        // As JSON, a longer body would take much memory, and no version 2 notification is longer.
        guard body.count <= NotificationRoutes.bodyLimit else { return refusal }
        let json = JSONValue(readable: body)
        if version == 1, json?["signedPayload"]?.string != nil {
            refusal.form = "notificationV2"
            refusal.cure = "It is a version 2 notification: its address is /notifications/v2."
        } else if json?["unified_receipt"] != nil || json?["notification_type"] != nil {
            refusal.form = "notificationV1"
            guard version == 2 else { return refusal }
            refusal.cure = """
                It is a version 1 notification: choose Version 2 for this URL in App Store Connect, or enter the URL \
                with /notifications/v1.
                """
        } else if json?["message"]?["data"] != nil || json?["Message"] != nil {
            refusal.form = "queueMessage"
            refusal.cure = "It is the message of a queue: send the notification in it by itself."
        } else {
            refusal.take(InputForm(naming: body[...]))
        }
        return refusal
    }

    /// Names the form of the body, and says what to send instead.
    private mutating func take(_ found: InputForm) {
        var fault: InputFault?
        if case .failure(let first) = found.documents.first { fault = first }
        let name = [found.name, fault?.name.rawValue ?? ""].filter { !$0.isEmpty }.joined(separator: "+")
        form = name
        switch found.steps.first(where: { $0 != .whiteSpace }) {
        case .byteOrderMark: cure = "It begins with a byte order mark: leave the mark out."
        case .utf16: cure = "It is UTF-16: send UTF-8."
        case .gzip: cure = "It is gzip: send it uncompressed."
        case .formBody: cure = "It is a form: send JSON."
        case .list: cure = "It is a list: send each notification by itself."
        case nil where fault == nil: cure = "It is the bare document: send it as the value of the member."
        default: cure = fault.map { $0.name == .jsonWithoutDocument ? nil : $0.sentence } ?? "Its form is \(name)."
        }
    }
}
