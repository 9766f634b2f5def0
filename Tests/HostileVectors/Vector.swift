// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
public import AppStoreTrust
import Foundation

/// A document and the required outcome of its verification: one entry of `Tests/Vectors/*.json`. A document that must
/// be refused has one fault, or two if the vector is about which of them is reported.
///
/// The form follows x509-limbo's, so that other projects can run these vectors against their verifiers.
public struct Vector: Codable, Sendable {
    /// `family::fault`.
    public var id: String
    /// The fault, a sentence.
    public var description: String
    /// The kind of document that the caller asks the verifier for.
    public var kind: Kind
    /// A token as text, a receipt as base64.
    public var input: String
    /// The verifier's `now`, in ISO 8601: the instant at which certificates must be valid if the document has no date.
    public var time: String
    /// The name of an entry in the file's `trust`.
    public var trust: String
    /// `verified`, or the code of a ``VerificationError``.
    public var expected: String
    /// Where the fault was seen, or the rule that forbids it.
    public var source: String
    /// Implementations that are known to give another result.
    public var conflictsWith: [Conflict]

    /// A kind of document, as the caller expects it.
    public enum Kind: String, Codable, Sendable {
        /// A compact JWS that must contain a transaction.
        case token
        case renewalInfo
        case appTransaction
        case retentionRequest
        case notification
        case receipt
        case transactionReceipt
    }

    /// An implementation with another result.
    public struct Conflict: Codable, Sendable {
        public var implementation: String
        public var actual: String
        public var reason: String
    }
}

/// The configuration of a verifier: what it accepts.
public struct VectorTrust: Codable, Sendable {
    /// DER as base64.
    public var roots: [String]
    /// DER as base64; for transaction receipts.
    public var intermediates: [String]
    /// The accepted apps.
    public var apps: [App]
    /// The accepted environments, in Apple's words.
    public var environments: [String]

    /// An accepted app.
    public struct App: Codable, Sendable {
        public var bundleId: String
        public var appAppleId: Int64?
    }
}

/// A file of `Tests/Vectors`.
public struct VectorFile: Codable, Sendable {
    /// What the vectors have in common, a sentence.
    public var about: String
    /// The configurations of verifiers, keyed by name.
    public var trust: [String: VectorTrust]
    /// The vectors of one family.
    public var vectors: [Vector]
}

extension VectorTrust {
    /// A verifier with this configuration.
    public var verifier: AppStoreVerifier {
        get throws {
            let roots = try roots.map { try TrustRoots(reading: Data(base64Encoded: $0) ?? Data()) }
            let intermediates = try intermediates.map { try Intermediates(reading: Data(base64Encoded: $0) ?? Data()) }
            guard let first = roots.first else { throw CocoaError(.fileReadCorruptFile) }
            var verifier = AppStoreVerifier(
                apps: .only(apps.map { AppIdentity(bundleId: $0.bundleId, appAppleId: $0.appAppleId) }),
                environments: Set(environments.compactMap(Environment.init(rawValue:))),
                roots: roots.dropFirst().reduce(first) { $0.union($1) })
            verifier.intermediates = intermediates.reduce(Intermediates()) { $0.union($1) }
            return verifier
        }
    }
}

extension Vector {
    /// The result of `verifier`: `verified`, or the code of its error.
    public func outcome(_ verifier: AppStoreVerifier) async throws -> String {
        try await error(of: verifier)?.code.rawValue ?? "verified"
    }

    /// Why `verifier` refuses the document; `nil` if it does not.
    public func error(of verifier: AppStoreVerifier) async throws -> VerificationError? {
        guard let now = Timestamp(iso8601: time) else { throw CocoaError(.formatting) }
        let isBinary = kind == .receipt || kind == .transactionReceipt
        let bytes = isBinary ? Data(base64Encoded: input) : Data(input.utf8)
        guard let bytes else { throw CocoaError(.fileReadCorruptFile) }
        do throws(VerificationError) {
            switch kind {
            case .token: _ = try await verifier.verify(bytes, as: JWSTransactionDecodedPayload.self, at: now)
            case .renewalInfo: _ = try await verifier.verify(bytes, as: JWSRenewalInfoDecodedPayload.self, at: now)
            case .appTransaction: _ = try await verifier.verify(bytes, as: AppTransaction.self, at: now)
            case .retentionRequest: _ = try await verifier.verify(bytes, as: DecodedRealtimeRequestBody.self, at: now)
            case .notification: _ = try await verifier.verify(notification: bytes, at: now)
            case .receipt: _ = try await verifier.verify(receipt: bytes, at: now)
            case .transactionReceipt: _ = try await verifier.verify(transactionReceipt: bytes, at: now)
            }
            return nil
        } catch {
            return error
        }
    }
}

/// Why a vector cannot be created.
struct VectorError: Error, CustomStringConvertible {
    var description: String
}
