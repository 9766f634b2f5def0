// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import ArgumentParser
import ReceiptCoding

/// `quittance convert`: converts documents between the verifyReceipt form and the form of signed transactions.
struct Convert: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Convert a document between the form of verifyReceipt and that of signed transactions.",
        discussion: """
            --to modern reads an app receipt, an old transaction receipt, a verifyReceipt response or a version 1 \
            notification, and writes an app transaction, transactions and renewal info.
            --to legacy reads a JWS, its decoded payload, or the output of --to modern, and writes verifyReceipt's \
            objects.

            The result is JSON on standard output. Standard error lists the members without a counterpart; all \
            other members are kept. The command does not verify signatures: use quittance verify first.

            Exit status: 0 converted; 2 unreadable input, nothing to convert, or wrong usage.
            """)

    @Argument(help: "The file with the document; omit it or pass - for standard input.")
    var file: String?

    enum Direction: String, ExpressibleByArgument, CaseIterable {
        case legacy
        case modern
    }

    @Option(help: "legacy for verifyReceipt's objects, modern for signed payloads.")
    var to: Direction

    func run() throws {
        var failed = false
        for item in Input.documents(file) {
            do {
                let document = try item.document.get()
                let conversion = try to == .modern ? Converted(modern: document) : Converted(legacy: document)
                try Terminal.print(conversion.json)
                for leftover in conversion.leftovers {
                    let value = leftover.value.compactText.shortened.printable
                    Terminal.report("\(item.reference)no counterpart: \(leftover.path.printable) = \(value)")
                }
            } catch let exit as ExitCode {
                throw exit
            } catch {
                failed = true
                let reason = (error as? DecodingError)?.sentence ?? "\(error)"
                Terminal.report("\(item.reference)\(reason.printable)")
            }
        }
        if failed { throw ExitCode(2) }
    }
}

/// A converted document as JSON, and the members without a counterpart.
private struct Converted {
    let json: String
    let leftovers: [Leftover]

    private init(_ conversion: Conversion<some Encodable>, _ more: [Leftover] = []) throws {
        json = try JSONValue(encoding: conversion.value).compactText
        leftovers = more + conversion.leftovers
    }

    init(modern document: Document) throws {
        switch document {
        case .receipt(let bytes):
            let receipt = try AppReceipt(decoding: SignedReceipt(decoding: bytes).payload)
            try self.init(receipt.modern())
        case .transactionReceipt(let receipt, _):
            try self.init(receipt.modern())
        case .jws:
            throw InputError(description: "A JWS is already in the modern form.")
        case .json(let json, _):
            try self.init(modern: json)
        }
    }

    private init(modern json: JSONValue) throws {
        func has(_ members: String...) -> Bool { members.contains { json[$0] != nil } }
        if has("notification_type") {
            try self.init(ResponseBodyV1(json).modern())
        } else if VerifyTransactionReceiptResponse.isTransactionReceiptStyle(json) {
            try self.init(VerifyTransactionReceiptResponse(json).modern())
        } else if has("receipt", "latest_receipt_info", "pending_renewal_info") {
            try self.init(VerifyReceiptResponse(json).modern())
        } else if has("receipt_type", "in_app") {
            var response = VerifyReceiptResponse(status: .valid)
            response.receipt = try Receipt(json)
            try self.init(response.modern())
        } else if has("transaction_id") {
            try self.init(LatestReceiptInfo(json).modern(in: ConversionContext()))
        } else if has("auto_renew_product_id") {
            try self.init(PendingRenewalInfo(json).modern(in: ConversionContext()))
        } else {
            throw InputError(description: "This JSON is not a document that --to modern reads.")
        }
    }

    init(legacy document: Document) throws {
        switch document {
        case .receipt, .transactionReceipt:
            throw InputError(description: "A receipt is already in the legacy form: quittance inspect --json shows it.")
        case .jws(let bytes):
            try self.init(legacy: JSONValue(parsing: JWS(bytes).payload))
        case .json(let json, _):
            try self.init(legacy: json)
        }
    }

    private init(legacy payload: JSONValue) throws {
        if payload["transactions"] != nil {
            try self.init(payload.decode(DecodedPurchases.self).legacy())
            return
        }
        switch SignedKind(recognizing: payload) {
        case .transaction: try self.init(payload.decode(JWSTransactionDecodedPayload.self).legacy())
        case .renewalInfo: try self.init(payload.decode(JWSRenewalInfoDecodedPayload.self).legacy())
        case .appTransaction: try self.init(payload.decode(AppTransaction.self).legacy())
        case .notification:
            let notification = try payload.decode(ResponseBodyV2DecodedPayload.self)
            try self.init(notification.purchases().legacy(), notification.envelope())
        case .receipt, .retentionRequest, nil:
            throw InputError(description: "This is not a document that --to legacy reads.")
        }
    }
}

extension ResponseBodyV2DecodedPayload {
    /// The notification's members around the purchase. These members have no counterpart in the form of verifyReceipt.
    fileprivate func envelope() throws -> [Leftover] {
        var rest = self
        rest.data?.signedTransactionInfo = nil
        rest.data?.signedRenewalInfo = nil
        rest.appData?.signedAppTransactionInfo = nil
        return try JSONValue(encoding: rest).members?.map { Leftover(path: $0.name, value: $0.value) } ?? []
    }

    /// The purchase in the notification, without verification.
    fileprivate func purchases() throws -> DecodedPurchases {
        func payload<Payload: SignedPayload>(_ jws: String?, _ type: Payload.Type) throws -> Payload? {
            guard let jws else { return nil }
            return try JSONValue(parsing: JWS(jws.utf8).payload).decode(type)
        }
        let purchases = DecodedPurchases(
            appTransaction: try payload(appData?.signedAppTransactionInfo, AppTransaction.self),
            transactions: try payload(data?.signedTransactionInfo, JWSTransactionDecodedPayload.self).map { [$0] }
                ?? [],
            renewalInfo: try payload(data?.signedRenewalInfo, JWSRenewalInfoDecodedPayload.self).map { [$0] } ?? [])
        guard purchases != DecodedPurchases() else {
            throw InputError(description: "The notification contains no purchase to convert.")
        }
        return purchases
    }
}
