// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import ArgumentParser
import Foundation
import PurchaseServer

// The verifier of a configuration, with its roots and intermediate certificates.

extension Composition {
    /// A verifier for any app, with the configured roots.
    func verifier(checkingRevocation: Bool = true) throws -> AppStoreVerifier {
        let roots = try TrustRoots(
            at: configuration.roots, besidesApple: configuration.alsoAppleRoots,
            setting: configuration.reference(to: "roots"))
        try asUsage { try configuration.requireSimulatorAlone(roots) }
        var verifier = AppStoreVerifier(apps: .any, environments: Set(Environment.allCases), roots: roots)
        if let intermediates = configuration.intermediates {
            verifier.intermediates = try Intermediates(
                at: intermediates, setting: configuration.reference(to: "intermediates"))
        }
        if checkingRevocation, configuration.revocation != .off {
            let checker = RevocationChecker(transport: HTTPOCSPTransport(), clock: clock)
            verifier.revocation = .checked(by: checker, acceptsUnknown: configuration.revocation == .ask)
        }
        return verifier
    }
}

extension TrustRoots {
    /// The roots in the files, together with Apple's if `besidesApple` is true. Without files, only Apple's roots.
    ///
    /// - Parameter setting: The setting or option that has the paths.
    fileprivate init(at paths: [String], besidesApple: Bool, setting: String) throws {
        var trusted: TrustRoots? = besidesApple || paths.isEmpty ? .apple : nil
        for path in paths {
            let root = try asUsage("\(setting) \(path): ") { try TrustRoots(reading: Input.read(path)) }
            trusted = trusted?.union(root) ?? root
        }
        self = trusted ?? .apple
    }
}

extension Intermediates {
    /// Reads a file, or all certificate files in a folder.
    ///
    /// - Parameter setting: The setting or option that has the path.
    fileprivate init(at path: String, setting: String) throws {
        let endings = [".cer", ".crt", ".der", ".pem"]
        var paths = [path]
        // If the path is no folder, the path is read as a file, and the reader reports any fault.
        if let names = try? FileManager.default.contentsOfDirectory(atPath: path) {
            paths = names.filter { name in endings.contains { name.lowercased().hasSuffix($0) } }.sorted()
                .map { "\(path)/\($0)" }
            guard !paths.isEmpty else {
                throw ValidationError("\(setting) \(path): It has no \(endings.joined(separator: ", ")) file.")
            }
        }
        self.init()
        for path in paths {
            self = union(try asUsage("\(setting) \(path): ") { try Intermediates(reading: Input.read(path)) })
        }
    }
}
