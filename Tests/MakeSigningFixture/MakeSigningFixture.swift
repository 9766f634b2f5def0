// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import Foundation

/// Prints the source of `SigningFixture` with new keys: `make signing-fixture`.
@main
struct MakeSigningFixture {
    static func main() throws {
        guard let start = Timestamp(iso8601: "2020-01-01T00:00:00Z") else { return }
        let authority = try StoreAuthority(from: start)
        print(
            """
            // SPDX-License-Identifier: Apache-2.0

            import AppStoreModel

            /// The bytes of the committed signers, in base64: see `StoreAuthority.fixture()`. `make signing-fixture`
            /// writes this file with new keys.
            enum SigningFixture {
                struct Entry {
                    /// The private key of the first certificate.
                    let key: String
                    /// Leaf, intermediate, root, as DER.
                    let certificates: [String]
                }

                static func bytes(_ text: String) -> [UInt8] { Base64.decode(text.utf8) ?? [] }

                static let tokens = [
            \(entries(authority.tokens))
                ]

                static let receipts = [
            \(entries(authority.receipts))
                ]
            }
            """)
    }

    private static func entries(_ chains: [SigningChain]) -> String {
        chains.map { chain in
            let certificates = chain.certificates.map { "                \"\(base64($0))\"," }.joined(separator: "\n")
            return """
                        Entry(
                            key: "\(base64(chain.key.bytes))",
                            certificates: [
                \(certificates)
                            ]),
                """
        }.joined(separator: "\n")
    }

    private static func base64(_ bytes: [UInt8]) -> String { Data(bytes).base64EncodedString() }
}
