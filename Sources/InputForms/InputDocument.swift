// SPDX-License-Identifier: Apache-2.0

/// A signed document in its one canonical encoding, recognised by its shape but not verified.
package enum InputDocument: Hashable, Sendable {
    /// An app receipt: the bytes of its PKCS#7 container.
    case receipt([UInt8])
    /// An old transaction receipt: the bytes of its property list.
    case transactionReceipt([UInt8])
    /// A compact JWS of any kind: base64url without padding, and no white space.
    case token([UInt8])

    /// The kind, as used in ``InputForm/name``.
    var kind: String {
        switch self {
        case .receipt: "receipt"
        case .transactionReceipt: "transactionReceipt"
        case .token: "token"
        }
    }
}
