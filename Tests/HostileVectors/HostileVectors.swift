// SPDX-License-Identifier: Apache-2.0

/// All vectors, keyed by the name of their file.
public enum HostileVectors {
    /// Creates all vectors with new keys and signatures. Their faults are the same each time.
    public static func make() throws -> [String: VectorFile] {
        let world = try World()
        let trust = try world.trust
        let families: [(name: String, about: String, cases: [Case])] = [
            ("tokens", "Compact JWS, most of them verified as transactions.", TokenCases.all),
            ("notifications", "Version 2 notifications with the tokens inside of them.", NotificationCases.all),
            ("receipts", "PKCS#7 app receipts.", ReceiptCases.all),
            ("transaction-receipts", "Old transaction receipts.", TransactionReceiptCases.all),
        ]
        var files: [String: VectorFile] = [:]
        for family in families {
            let vectors = try family.cases.map { try $0.vector(world) }
            let used = Set(vectors.map(\.trust))
            files[family.name] = VectorFile(
                about: family.about + " Made by `make vectors`; nothing of Apple's is inside.",
                trust: trust.filter { used.contains($0.key) }, vectors: vectors)
        }
        return files
    }
}
