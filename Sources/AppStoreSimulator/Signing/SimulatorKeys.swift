// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel
import Crypto
import CryptoExtras
import SwiftASN1
import X509

/// All private keys of a simulated App Store, with their certificates. If a simulator starts again with the same keys,
/// a server under test still trusts its signatures, and needs no new configuration.
public struct SimulatorKeys: Sendable {
    /// The simulated App Store's certificate authority, with the keys that sign tokens (compact JWS, such as signed
    /// transactions) and receipts. The server under test trusts its roots.
    public let authority: StoreAuthority
    /// The key with which clients sign their requests.
    public let key: StoreKey

    /// Combines the keys that sign documents with the key that signs requests.
    public init(_ authority: StoreAuthority, _ key: StoreKey) {
        self.authority = authority
        self.key = key
    }
}

// MARK: - As JSON

extension SimulatorKeys {
    /// The private keys and certificates. A reader of this JSON can sign for all servers that trust the roots.
    package var json: JSONValue {
        .object([
            .init("tokens", .array(authority.tokens.map(\.json))),
            .init("receipts", .array(authority.receipts.map(\.json))),
            .init(
                "client",
                .object([
                    .init("id", .string(key.id)), .init("issuer", .string(key.issuer)), .init("key", .string(key.pem)),
                ])),
        ])
    }

    /// Reads ``json``.
    ///
    /// - Throws: `SimulatorError`, with no part of the keys in its text.
    package init(_ json: JSONValue) throws(SimulatorError) {
        let tokens = try Self.chains(json, "tokens") { .p256(try P256.Signing.PrivateKey(rawRepresentation: $0)) }
        let receipts = try Self.chains(json, "receipts") { .rsa(try _RSA.Signing.PrivateKey(derRepresentation: $0)) }
        guard let id = json["client"]?["id"]?.string, let issuer = json["client"]?["issuer"]?.string,
            let pem = json["client"]?["key"]?.string
        else { throw SimulatorError("The key “client” is missing") }
        // The id and the issuer become parts of file names and of shell variables, so they must have only harmless
        // characters.
        guard id.utf8.count == 10, id.utf8.allSatisfy(Self.isOfID), issuer.utf8.count == 36,
            issuer.utf8.allSatisfy(Self.isOfUUID)
        else { throw SimulatorError("The key “client” has an id or an issuer that no key has") }
        self.init(
            StoreAuthority(tokens: tokens, receipts: receipts), try StoreKey(id: id, issuer: issuer, pem: pem))
    }

    private static func isOfID(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte) || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
    }

    private static func isOfUUID(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "a")...UInt8(ascii: "f")).contains(byte) || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
            || byte == UInt8(ascii: "-")
    }

    private static func chains(
        _ json: JSONValue, _ name: String, _ key: ([UInt8]) throws -> SigningKey
    ) throws(SimulatorError) -> [SigningChain] {
        let entries = json[name]?.array ?? []
        guard !entries.isEmpty else { throw SimulatorError("The keys “\(name)” are missing") }
        do {
            return try entries.map { try SigningChain($0, key) }
        } catch {
            throw SimulatorError("The keys “\(name)” are damaged")
        }
    }
}

extension SigningChain {
    fileprivate var json: JSONValue {
        .object([
            .init("key", .string(Base64.encode(key.bytes))),
            .init("certificates", .array(certificates.map { .string(Base64.encode($0)) })),
        ])
    }

    /// - Parameter read: Reads the key from its bytes.
    fileprivate init(_ json: JSONValue, _ read: ([UInt8]) throws -> SigningKey) throws {
        let certificates = (json["certificates"]?.array ?? []).map { Base64.decode(($0.string ?? "").utf8) ?? [] }
        let key = try read(Base64.decode((json["key"]?.string ?? "").utf8) ?? [])
        // Clients would refuse all signatures of a key that does not belong to its certificate.
        guard let leaf = certificates.first, certificates.count == 3,
            try Certificate(derEncoded: leaf).publicKey == key.publicKey
        else { throw SimulatorError("The key is not that of its certificate") }
        try self.init(certificates: certificates, key: key)
    }
}
