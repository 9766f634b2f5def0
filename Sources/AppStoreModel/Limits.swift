// SPDX-License-Identifier: Apache-2.0

/// The limits on a document to verify, each with its reason. A document beyond a limit is refused, unless the limit
/// says otherwise.
///
/// Verifying a document within these limits takes less than 250 ms, and less than 64 MiB of memory. `make limits`
/// measures the worst document of each kind. The code for network requests has its own limits.
public enum Limits {
    // MARK: Documents

    /// Bytes of a verifyReceipt request. The limit is Apple's: Apple answers longer requests with HTTP 413.
    public static let verifyReceiptRequest = 3_145_728

    /// Bytes of a version 1 notification. A notification holds the whole receipt and the newest 100 transactions. The
    /// largest genuine receipt seen so far, with 187 purchases, makes a notification of some 250 KB.
    public static let notificationV1 = 1 << 20

    /// Bytes of an app receipt. The limit is Apple's limit on a whole verifyReceipt request, so no receipt that fits
    /// into a request is refused. The largest genuine receipt seen so far, with 187 purchases, has 79,104 bytes.
    public static let receipt = 3 << 20

    /// Bytes of an old transaction receipt, and of its purchase information. Genuine receipts have 3 KB.
    public static let transactionReceipt = 1 << 16

    /// Bytes of a compact JWS. Notifications with two inner tokens stay below 30 KB.
    public static let token = 1 << 20

    /// The number of nested wrappings removed from a document, such as JSON in base64 in gzip. No input with more than
    /// three was ever seen.
    package static let wrappings = 3

    /// Bytes decompressed from gzip in an input. The limit is the length of the longest receipt as base64.
    package static let inflated = receipt / 3 * 4

    /// The highest ratio of the decompressed bytes to the bytes of the input. A receipt in base64 compresses to a tenth
    /// of its length. The limit keeps an input of a few bytes from costing as much as an input of millions.
    package static let inflation = 32

    // MARK: Inside documents

    /// Levels of JSON. Apple's deepest answer has 6 levels.
    public static let jsonDepth = 64

    /// Values in a JSON document: strings, numbers, arrays and so on. A value of 2 bytes in the text may take 80 bytes
    /// of memory. A verifyReceipt answer about as many purchases as fit into a receipt has 250,000 values.
    public static let jsonValues = 400_000

    /// Values in a token's header or payload. The limit is lower than for other JSON, because the properties decoded
    /// from the values take additional memory. Apple's largest payload has some 100 values.
    public static let tokenValues = 40_000

    /// Bytes of a certificate. Apple's certificates have 1,500 bytes at most. Parsing a certificate takes some 60 times
    /// its size in memory.
    public static let certificate = 1 << 14

    /// Certificates in a receipt or in `x5c`. The App Store sends 3 certificates, Xcode sends 1.
    public static let certificates = 10

    /// Bits of an RSA key in a chain. Apple's keys have 2048 bits, and the key of one Apple root has 4096. A signature
    /// check with 16,384 bits takes a hundred times as long as with Apple's keys.
    package static let rsaKey = 4096

    /// Pairs of a signer's certificate and its issuer's certificate in a receipt. Any number of pairs is accepted, but
    /// the signatures of at most this many are checked. Genuine receipts have a single pair: Apple's two intermediates
    /// of equal name and key were never seen in the same receipt.
    package static let paths = 4

    /// Levels of constructed elements of indefinite length. Only Xcode's receipts have such elements, in 6 levels.
    public static let indefiniteLengths = 32

    /// Attributes in a set: the attributes of a purchase, or the attributes of a receipt. In a receipt each purchase is
    /// an attribute, and the App Store writes 25 others. Some 8,000 purchases fit into 3 MiB.
    public static let attributes = 20_000

    // MARK: Caches and messages

    /// Signers in each of a verifier's two caches: a cache for tokens and a cache for receipts. The App Store changes
    /// its signer about every two years, and only Apple can create a signer. A full cache drops the least recently used
    /// signer. The chain of a dropped signer is verified again, with the same result.
    public static let knownSigners = 64

    /// Unicode scalars of an error's message. The message may quote a document.
    public static let message = 400
}
