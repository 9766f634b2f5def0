// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import CryptoExtras
import Foundation
import SwiftASN1
import X509

/// The signers of all vectors. They have new keys every time, which nobody keeps: the committed signers of simulated
/// App Stores would let anybody sign more. A vector breaks the plan of a certificate or a document, which no App Store
/// does.
struct World {
    /// The trusted authority.
    let authority: CertificateAuthority
    /// An untrusted authority with the same names and other keys.
    let other: CertificateAuthority
    /// Self-signed certificates, as Xcode's, for tokens and for receipts.
    let xcode: (token: SelfSigned, receipt: SelfSigned)

    struct SelfSigned {
        var plan: CertificatePlan
        var certificate: Certificate

        init(_ name: String, _ key: SigningKey) throws {
            plan = CertificatePlan(
                subject: name, issuer: name, from: issued,
                until: Timestamp(milliseconds: issued.milliseconds + 365 * day),
                constraints: .isCertificateAuthority(maxPathLength: 0), key: key, issuerKey: key)
            plan.keyUsage = KeyUsage(digitalSignature: true, keyCertSign: true)
            certificate = try plan.issue()
        }
    }

    /// When the certificates of all signers become valid: for 730 days those that an authority issued, for 365 the
    /// self-signed ones.
    static let issued = Timestamp(milliseconds: 1_700_000_000_000)
    static let day: Int64 = 86_400_000
    /// An instant after the signers' certificates have expired.
    static let time = "2030-03-17T17:46:40Z"

    init() throws {
        authority = try CertificateAuthority(from: Self.issued)
        other = try CertificateAuthority(from: Self.issued)
        xcode = (
            try SelfSigned("Simulated StoreKit Testing", .newP256()), try SelfSigned("Simulated StoreKit", .newRSA())
        )
    }

    /// The configurations of verifiers that vectors refer to, keyed by name.
    var trust: [String: VectorTrust] {
        get throws {
            let app = VectorTrust.App(bundleId: "com.example", appAppleId: 7)
            let two = VectorTrust.App(bundleId: "com.example.two", appAppleId: 8)
            let roots = try authority.roots.map { Data($0).base64EncodedString() }
            let intermediates = try authority.intermediates.map { Data($0).base64EncodedString() }
            let xcodeRoots = try [xcode.token, xcode.receipt].map {
                Data(try [UInt8](der: $0.certificate)).base64EncodedString()
            }
            /// The intermediate after `breaking` has changed it.
            func broken(_ breaking: (inout CertificatePlan) -> Void) throws -> [String] {
                var plan = authority.purchases.intermediate
                breaking(&plan)
                return [Data(try [UInt8](der: plan.issue())).base64EncodedString()]
            }
            func purchases(_ intermediates: [String]) -> VectorTrust {
                VectorTrust(roots: roots, intermediates: intermediates, apps: [app], environments: ["Sandbox"])
            }
            return [
                "intermediate without authority": purchases(
                    try broken { $0.constraints = .notCertificateAuthority }),
                "intermediate for documents": purchases(try broken { $0.keyUsage = .signer }),
                "intermediate without key usage": purchases(try broken { $0.keyUsage = nil }),
                "intermediate marked as WWDR": purchases(
                    try broken { $0.markerOIDs = [.worldwideDeveloperRelations] }),
                "expired intermediate": purchases(
                    try broken { $0.until = Timestamp(milliseconds: Self.issued.milliseconds - Self.day) }),
                "intermediate of another authority": purchases(
                    [Data(try [UInt8](der: other.purchases.intermediate.issue())).base64EncodedString()]),
                "root as intermediate": purchases(roots),
                "roots that issue nothing": VectorTrust(
                    roots: try [authority.tokens.root, authority.receipts.root].map { root in
                        var root = root
                        root.keyUsage = KeyUsage(cRLSign: true)
                        return Data(try [UInt8](der: root.issue())).base64EncodedString()
                    }, intermediates: intermediates, apps: [app], environments: ["Sandbox"]),
                "production": VectorTrust(
                    roots: roots, intermediates: intermediates, apps: [app], environments: ["Production"]),
                "app": VectorTrust(roots: roots, intermediates: intermediates, apps: [app], environments: ["Sandbox"]),
                "two apps": VectorTrust(
                    roots: roots, intermediates: [], apps: [app, two], environments: ["Production", "Sandbox"]),
                "no intermediates": VectorTrust(
                    roots: roots, intermediates: [], apps: [app], environments: ["Sandbox"]),
                "xcode": VectorTrust(
                    roots: roots + xcodeRoots, intermediates: [], apps: [app],
                    environments: ["LocalTesting", "Production", "Sandbox", "Xcode"]),
            ]
        }
    }
}

/// A vector whose document is not created yet.
struct Case: Sendable {
    var id: String
    var description: String
    var kind = Vector.Kind.token
    var expected: VerificationError.Code?
    var trust = "app"
    var source: String
    var conflicts: [Vector.Conflict] = []
    var input: @Sendable (World) throws -> String

    func vector(_ world: World) throws -> Vector {
        Vector(
            id: id, description: description, kind: kind, input: try input(world), time: World.time, trust: trust,
            expected: expected?.rawValue ?? "verified", source: source, conflictsWith: conflicts)
    }
}
