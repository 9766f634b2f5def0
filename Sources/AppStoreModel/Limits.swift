// SPDX-License-Identifier: Apache-2.0

/// How much of a document is read before it is refused: every bound on what is to be verified, with its reason. What the
/// network may do is bounded where it is done.
///
/// What is inside of these bounds is verified in less than 250 ms and 64 MiB; `make limits` measures the worst of each kind.
public enum Limits {
    // MARK: Documents

    /// Bytes of a verifyReceipt request. Apple's own limit: longer ones it answers with HTTP 413.
    public static let verifyReceiptRequest = 3_145_728

    /// Bytes of a version 1 notification. It has the whole receipt and the newest 100 transactions: with the largest genuine
    /// receipt at hand, of 187 purchases, some 250 KB.
    public static let notificationV1 = 1 << 20

    /// Bytes of an app receipt: no longer one fits into a verifyReceipt request. The largest genuine one at hand, of 187
    /// purchases, has 79,104.
    public static let receipt = 3 << 20

    /// Bytes of an old transaction receipt, and of the purchase in it. Genuine ones have 3 KB.
    public static let transactionReceipt = 1 << 16

    /// Bytes of a compact JWS. Notifications with two tokens inside stay below 30 KB.
    public static let token = 1 << 20

    // MARK: Inside of documents

    /// Levels of JSON. Apple's deepest answer has 6.
    public static let jsonDepth = 64

    /// Values in a JSON document: texts, numbers, arrays and so on. One may take 80 bytes of memory where it takes 2 of text.
    /// An answer about as many purchases as fit into a receipt has 250,000.
    public static let jsonValues = 400_000

    /// The same in a token's header or payload, whose values are read into properties, which takes more again. Apple's
    /// largest has some 100.
    public static let tokenValues = 40_000

    /// Bytes of a certificate. Apple's have 1,500 at most; to read one takes some sixty times as many bytes of memory.
    public static let certificate = 1 << 14

    /// Certificates in a receipt or in `x5c`. The App Store sends 3, Xcode 1.
    public static let certificates = 10

    /// Levels of constructed elements of indefinite length. Only Xcode's receipts have them, and nest 6.
    public static let indefiniteLengths = 32

    /// Attributes in one set: of a purchase, or of a receipt, where each purchase is one. The App Store writes 25 into a
    /// receipt and one for each purchase; as many purchases as fit into 3 MiB, some 8,000, are far from this.
    public static let attributes = 20_000

    // MARK: What is kept

    /// Signers whose chain a verifier remembers, of tokens and of receipts each. The App Store takes a new one every two
    /// years or so, and only Apple can make one. With more, the least recently used is checked anew, with the same outcome.
    public static let knownSigners = 64

    /// Unicode scalars of an error's message, which may quote a document.
    public static let message = 400
}
