// SPDX-License-Identifier: Apache-2.0

/// The limits on a document to verify, each with its reason. A document beyond a limit is refused.
///
/// A document within these limits is verified in less than 250 ms and 64 MiB; `make limits` measures the worst document
/// of each kind. The code that uses the network has limits of its own.
public enum Limits {
    // MARK: Documents

    /// Bytes of a verifyReceipt request. Apple's own limit: it answers longer ones with HTTP 413.
    public static let verifyReceiptRequest = 3_145_728

    /// Bytes of a version 1 notification. It holds the whole receipt and the newest 100 transactions: some 250 KB with
    /// the largest genuine receipt at hand, of 187 purchases.
    public static let notificationV1 = 1 << 20

    /// Bytes of an app receipt. A longer one does not fit into a verifyReceipt request. The largest genuine one at
    /// hand, of 187 purchases, has 79,104.
    public static let receipt = 3 << 20

    /// Bytes of an old transaction receipt, and of the purchase in it. Genuine ones have 3 KB.
    public static let transactionReceipt = 1 << 16

    /// Bytes of a compact JWS. Notifications with two tokens inside stay below 30 KB.
    public static let token = 1 << 20

    /// Wrappings around a document that are undone, one after the other: JSON in base64 in gzip, and so on. More than
    /// three were seen nowhere.
    package static let wrappings = 3

    /// Bytes that gzip in one input expands to: the longest receipt as base64.
    package static let inflated = receipt / 3 * 4

    /// How many times its length gzip in an input expands to, at most. A receipt as base64 compresses to a tenth; a few
    /// bytes must not cost what millions do.
    package static let inflation = 32

    // MARK: Inside documents

    /// Levels of JSON. Apple's deepest answer has 6.
    public static let jsonDepth = 64

    /// Values in a JSON document: strings, numbers, arrays and so on. A value that is written in 2 bytes may take 80
    /// bytes of memory. A verifyReceipt answer about as many purchases as fit into a receipt has 250,000.
    public static let jsonValues = 400_000

    /// Values in a token's header or payload. Decoding them into properties takes additional memory. Apple's largest
    /// payload has some 100.
    public static let tokenValues = 40_000

    /// Bytes of a certificate. Apple's have 1,500 at most. Parsing one takes some 60 times its size in memory.
    public static let certificate = 1 << 14

    /// Certificates in a receipt or in `x5c`. The App Store sends 3, Xcode 1.
    public static let certificates = 10

    /// Bits of an RSA key in a chain. Apple's have 2048, one of its roots 4096. A signature check with 16,384 takes a
    /// hundred times as long as with Apple's.
    package static let rsaKey = 4096

    /// Pairs of a signer's certificate and its issuer's in a receipt whose signatures are checked. Genuine receipts
    /// have one: Apple's two intermediates of one name and key were never seen in one receipt.
    package static let paths = 4

    /// Levels of constructed elements of indefinite length. Only Xcode's receipts have them, in 6 levels.
    public static let indefiniteLengths = 32

    /// Attributes in one set: those of a purchase, or those of a receipt. In a receipt each purchase is one attribute;
    /// the App Store writes 25 others. Some 8,000 purchases fit into 3 MiB.
    public static let attributes = 20_000

    // MARK: Caches and messages

    /// Signers in each of a verifier's two caches, one for tokens and one for receipts. The App Store changes its
    /// signer every two years or so, and only Apple can create one. A full cache drops the least recently used signer.
    /// Its chain is then verified again, with the same result.
    public static let knownSigners = 64

    /// Unicode scalars of an error's message, which may quote a document.
    public static let message = 400
}
