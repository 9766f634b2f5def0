// SPDX-License-Identifier: Apache-2.0

// Checks that a receipt was issued to a given device: the check that an app makes on the device itself.

import AppStoreModel
import Crypto
public import ReceiptCoding

/// The identifier of a device in its receipts: on iOS the 16 bytes of `identifierForVendor`, on macOS the 6 bytes of
/// the primary MAC address.
public struct DeviceIdentifier: Hashable, Sendable {
    let bytes: [UInt8]

    /// Reads a UUID or a MAC address in hexadecimal, with or without `-` or `:`. `nil` for any other text.
    public init?(_ text: String) {
        var digits: [UInt8] = []
        for character in text where character != "-" && character != ":" {
            guard character.isASCII, let digit = character.hexDigitValue else { return nil }
            digits.append(UInt8(digit))
        }
        guard digits.count == 32 || digits.count == 12 else { return nil }
        bytes = stride(from: 0, to: digits.count, by: 2).map { digits[$0] << 4 | digits[$0 + 1] }
    }
}

extension Verified<AppReceipt> {
    /// Checks that the receipt was issued to `device`. The hash is SHA-1 over device id, opaque value and bundle id, as
    /// described in Apple's “Validating receipts on the device”. The hash is SHA-1 even if the receipt is signed with
    /// SHA-256.
    ///
    /// - Throws: ``VerificationError`` with `otherDevice`. The error is no proof of fraud: a restored device has a new
    ///   identifier, but its receipt still fits the old one until the app refreshes the receipt.
    public func requireDevice(_ device: DeviceIdentifier) throws(VerificationError) {
        var hash = Insecure.SHA1()
        hash.update(data: device.bytes)
        hash.update(data: payload.opaqueValue)
        hash.update(data: payload.bundleIdBytes)
        // Constant-time comparison.
        guard hash.finalize() == Array(payload.deviceHash) else {
            throw VerificationError(.otherDevice, "The receipt was not issued to this device.")
        }
    }
}
