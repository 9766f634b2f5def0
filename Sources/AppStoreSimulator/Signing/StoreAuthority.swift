// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel
import Foundation
import SwiftASN1
import X509

/// The keys and certificates with which a simulated App Store signs, over time. The App Store renews its signing
/// certificates about every two years. The simulated store changes to its next signer every half year.
///
/// The certificates have the form of Apple's, but a different subject and an additional extension. A verifier that
/// trusts only Apple's roots refuses them.
public struct StoreAuthority: Sendable {
    /// The signers of tokens (compact JWS, such as signed transactions), in the order of their turns. A turn is the
    /// time for which a signer signs.
    package let tokens: [SigningChain]
    /// Signers of app receipts, in the order of their turns.
    package let receipts: [SigningChain]
    /// The roots of tokens and of receipts, as DER.
    public let roots: [[UInt8]]

    init(tokens: [SigningChain], receipts: [SigningChain]) {
        self.tokens = tokens
        self.receipts = receipts
        roots = [tokens, receipts].compactMap { $0.first?.certificates.last }
    }

    /// Takes the signers of an authority. There is one signer of tokens and one of receipts, so the signers never
    /// change.
    public init(_ authority: CertificateAuthority) throws {
        self.init(tokens: [try SigningChain(authority.tokens)], receipts: [try SigningChain(authority.receipts)])
    }

    /// Creates signers with new keys. Their certificates are valid for some twenty years, rather than two years like
    /// Apple's, because a virtual clock can run far ahead.
    ///
    /// - Parameter start: The start of the leaf certificates' validity.
    public init(from start: Timestamp) throws {
        let authority = try CertificateAuthority(from: start)
        let tokens = authority.tokens.withLongLife
        let receipts = authority.receipts.withLongLife
        let token = try SigningChain(tokens)
        let receipt = try SigningChain(receipts)
        self.init(
            tokens: [
                token,
                try SigningChain(tokens.withLeaf(of: .newP256()), under: token.certificates.suffix(2)),
                try SigningChain(
                    tokens.withIntermediate(of: .newP384()).withLeaf(of: .newP256()),
                    under: token.certificates.suffix(1)),
            ],
            receipts: [
                receipt, try SigningChain(receipts.withLeaf(of: .newRSA()), under: receipt.certificates.suffix(2)),
            ])
    }

    /// The duration of a signer's turn in milliseconds: half a year.
    package var turn: Int64 = 182 * 86_400_000

    /// The signer of tokens at a time.
    package func tokens(at date: Timestamp) -> SigningChain { signer(among: tokens, at: date) }

    /// The signer of app receipts at a time.
    package func receipts(at date: Timestamp) -> SigningChain { signer(among: receipts, at: date) }

    /// The time range in which all certificates are valid.
    package var validity: Range<Timestamp> {
        get throws {
            let certificates = try Set((tokens + receipts).flatMap(\.certificates)).map {
                try Certificate(derEncoded: $0)
            }
            let start = certificates.map(\.notValidBefore).max() ?? .distantPast
            let end = certificates.map(\.notValidAfter).min() ?? .distantPast
            return Timestamp(start)..<max(Timestamp(start), Timestamp(end))
        }
    }

    private func signer(among chains: [SigningChain], at date: Timestamp) -> SigningChain {
        chains[Int(max(0, date.milliseconds) / turn % Int64(chains.count))]
    }
}

extension Timestamp {
    fileprivate init(_ date: Date) { self.init(milliseconds: Int64(date.timeIntervalSince1970 * 1000)) }
}

extension ChainPlan {
    /// The chain with a leaf that is valid as long as its intermediate.
    fileprivate var withLongLife: ChainPlan {
        var plan = self
        plan.leaf.until = intermediate.until
        return plan
    }

    /// The chain with a new leaf under the same intermediate.
    fileprivate func withLeaf(of key: SigningKey) -> ChainPlan {
        var plan = self
        plan.leaf.key = key
        return plan
    }

    /// The chain with a new intermediate under the same root.
    fileprivate func withIntermediate(of key: SigningKey) -> ChainPlan {
        var plan = self
        plan.intermediate.subject += " 2"
        plan.intermediate.key = key
        plan.leaf.issuer = plan.intermediate.subject
        plan.leaf.issuerKey = key
        return plan
    }
}
