// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import ReceiptCoding
import TestData
import Testing

@Suite struct AppReceiptTests {
    /// A set of one attribute in DER. `type` is the INTEGER of its type, by default 3.
    private static func payload(type: [UInt8] = [2, 1, 3], value: [UInt8]) -> [UInt8] {
        let attribute = type + [2, 1, 1, 4, UInt8(value.count)] + value
        let sequence = [0x30, UInt8(attribute.count)] + attribute
        return [0x31, UInt8(sequence.count)] + sequence
    }

    @Test func `four attributes are decoded into four properties`() throws {
        let payload = hex(
            """
            3167300b02010302010104030c0137301b02010002010104130c1150726f64756374696f6e53616e64626f78301b02010202010104\
            130c11636f6d2e6578616d706c652e6e6f746573301e02010c02010104161614323032342d30332d30315431323a30303a30305a
            """)
        let receipt = try AppReceipt(decoding: payload[...])
        #expect(receipt.applicationVersion == "7")
        #expect(receipt.receiptType == .productionSandbox)
        #expect(receipt.bundleId == "com.example.notes")
        #expect(receipt.receiptCreationDate?.iso8601 == "2024-03-01T12:00:00Z")
        #expect(receipt.inAppPurchases.isEmpty)
        #expect(receipt.otherAttributes.isEmpty)
        #expect(Array(receipt.bundleIdBytes) == hex("0c11636f6d2e6578616d706c652e6e6f746573"))
    }

    @Test(arguments: [
        (hex("020103"), hex("0c00")),  // an empty text
        (hex("020106"), hex("deadbeef")),  // an unknown type
        (hex("02084fffffffffffffff"), hex("00")),  // a type beyond 32 bits
        (hex("020114"), []),  // a value without a byte
        (hex("020101"), hex("020100")),  // an identifier 0
        (hex("020115"), hex("1614") + Array("4001-01-01T00:00:00Z".utf8)),  // Xcode's distant future
        (hex("02010a"), hex("020107")),  // an age rating in another form
        (hex("020117"), hex("0c02c328")),  // an organization that is not UTF-8
    ])
    func `an attribute that no property holds is kept as type, version and bytes`(type: [UInt8], value: [UInt8]) throws
    {
        let receipt = try AppReceipt(decoding: Self.payload(type: type, value: value)[...])
        #expect(receipt.otherAttributes.count == 1)
        #expect(receipt.otherAttributes.first?.version == 1)
        #expect(receipt.otherAttributes.first.map { Array($0.value) } == value)
        var empty = AppReceipt()
        empty.otherAttributes = receipt.otherAttributes
        #expect(receipt == empty)
    }

    @Test(arguments: [
        ("a number instead of a text", hex("020102"), hex("020107")),
        ("a text instead of a date", hex("02010c"), hex("160454756573")),
        ("a text instead of a number", hex("020111"), hex("310e300c020206a502010104030c0137")),
        (
            "a number of nine bytes", hex("020111"), hex("31163014020206a5020101040b0209010000000000000000")
        ),
        ("a text that is not UTF-8", hex("020102"), hex("0c02c328")),
        ("a text that is cut off", hex("020102"), hex("0c0537")),
        ("a purchase that is no set", hex("020111"), hex("020100")),
        ("a trial that is neither true nor false", hex("020111"), hex("310e300c020206b10201010403020102")),
        ("no text at all", hex("020102"), []),
    ])
    func `a value of another form is an error that names its attribute`(
        name: String, type: [UInt8], value: [UInt8]
    ) throws {
        let error = try #require(throws: ReceiptDecodingError.self) {
            try AppReceipt(decoding: Self.payload(type: type, value: value)[...])
        }
        #expect(error.description.contains("ttribute"))
    }

    @Test(
        arguments: [
            [], hex("30"), hex("31"), hex("3180"), hex("31800000ff").dropLast(2), hex("3184ffffffff"),
            hex("3189010101010101010101"),
            hex("310130"), hex("31023000"), hex("31053003020103"), hex("1f"), hex("3f8101"),
            [0x31, 0x80] + Array(repeating: 0x30, count: 64),
        ] as [[UInt8]])
    func `bytes that are no payload are an error`(bytes: [UInt8]) {
        #expect(throws: ReceiptDecodingError.self) { try AppReceipt(decoding: bytes[...]) }
    }

    /// An attribute with a value in DER, and the text of its property after decoding.
    struct AttributeCase<Subject>: Sendable, CustomTestStringConvertible {
        var type: Int
        var value: String
        var expected: String
        var property: @Sendable (Subject) -> String
        var testDescription: String { "\(type)" }

        init(_ type: Int, _ value: String, _ expected: String, _ property: @escaping @Sendable (Subject) -> String) {
            (self.type, self.value, self.expected, self.property) = (type, value, expected, property)
        }
    }

    static let attributeCases: [AttributeCase<AppReceipt>] = [
        AttributeCase(0, "0c0a50726f64756374696f6e", "Production") { "\($0.receiptType?.rawValue ?? "")" },
        AttributeCase(1, "02040102030f", "16909071") { "\($0.appItemId ?? 0)" },
        AttributeCase(2, "0c0161", "a") { $0.bundleId ?? "" },
        AttributeCase(3, "0c0137", "7") { $0.applicationVersion ?? "" },
        AttributeCase(4, "0102", "[1, 2]") { "\(Array($0.opaqueValue))" },
        AttributeCase(5, "0304", "[3, 4]") { "\(Array($0.deviceHash))" },
        AttributeCase(8, date, instant) { $0.downloadDate?.iso8601 ?? "" },
        AttributeCase(9, "020450333032", "P302") { $0.fulfillmentToolVersion ?? "" },
        AttributeCase(10, "1602342b", "4+") { $0.ageRating ?? "" },
        AttributeCase(11, "020107", "7") { "\($0.developerId ?? 0)" },
        AttributeCase(12, date, instant) { $0.receiptCreationDate?.iso8601 ?? "" },
        AttributeCase(13, "020301fd61", "130401") { "\($0.clientVersion ?? 0)" },
        AttributeCase(15, "020806fc1fe967426ff2", "503312345678901234") { "\($0.downloadId ?? 0)" },
        AttributeCase(16, "020107", "7") { "\($0.versionExternalIdentifier ?? 0)" },
        AttributeCase(18, date, instant) { $0.originalPurchaseDate?.iso8601 ?? "" },
        AttributeCase(19, "0c03312e30", "1.0") { $0.originalApplicationVersion ?? "" },
        AttributeCase(21, date, instant) { $0.expirationDate?.iso8601 ?? "" },
        AttributeCase(23, "0c0161", "a") { $0.organizationDisplayName ?? "" },
        AttributeCase(25, "020103", "3") { "\($0.platform ?? 0)" },
        AttributeCase(32, date, instant) { $0.preorderDate?.iso8601 ?? "" },
    ]

    @Test(arguments: attributeCases)
    func `an attribute sets its property`(attribute: AttributeCase<AppReceipt>) throws {
        let payload = Self.payload(type: [2, 1, UInt8(attribute.type)], value: hex(attribute.value))
        let receipt = try AppReceipt(decoding: payload[...])
        #expect(attribute.property(receipt) == attribute.expected)
        #expect(receipt.otherAttributes.isEmpty)
    }

    static let purchaseCases: [AttributeCase<InAppPurchase>] = [
        AttributeCase(1701, "020103", "3") { "\($0.quantity ?? 0)" },
        AttributeCase(1702, "0c0161", "a") { $0.productId ?? "" },
        AttributeCase(1703, "0c0131", "1") { $0.transactionId ?? "" },
        AttributeCase(1704, date, instant) { $0.purchaseDate?.iso8601 ?? "" },
        AttributeCase(1705, "0c0131", "1") { $0.originalTransactionId ?? "" },
        AttributeCase(1706, date, instant) { $0.originalPurchaseDate?.iso8601 ?? "" },
        AttributeCase(1707, "020103", "3") { "\($0.productType?.rawValue ?? 0)" },
        AttributeCase(1708, date, instant) { $0.expiresDate?.iso8601 ?? "" },
        AttributeCase(1710, "020107", "7") { "\($0.productItemId ?? 0)" },
        AttributeCase(1711, "0207071afd4cdc0d19", "2000000055512345") { "\($0.webOrderLineItemId ?? 0)" },
        AttributeCase(1712, date, instant) { $0.cancellationDate?.iso8601 ?? "" },
        AttributeCase(1713, "020101", "true") { "\($0.isTrialPeriod ?? false)" },
        AttributeCase(1719, "020100", "false") { "\($0.isInIntroOfferPeriod ?? true)" },
        AttributeCase(1720, "020101", "1") { "\($0.cancellationReason?.rawValue ?? 0)" },
        AttributeCase(1720, "0c0131", "1") { "\($0.cancellationReason?.rawValue ?? 0)" },
        AttributeCase(1721, "0c0161", "a") { $0.promotionalOfferId ?? "" },
    ]

    @Test(arguments: purchaseCases)
    func `an attribute of a purchase sets its property`(attribute: AttributeCase<InAppPurchase>) throws {
        let type: [UInt8] = [2, 2, UInt8(attribute.type >> 8), UInt8(attribute.type & 0xff)]
        let purchase = Self.payload(type: type, value: hex(attribute.value))
        let receipt = try AppReceipt(decoding: Self.payload(type: [2, 1, 17], value: purchase)[...])
        #expect(receipt.inAppPurchases.map(attribute.property) == [attribute.expected])
        #expect(receipt.inAppPurchases.first?.otherAttributes.isEmpty == true)
    }

    /// A value in each form that an attribute has: a date, a text, an ASCII text, four characters, 0, 1, bytes.
    private static let forms = [date, "0c0161", "1602342b", "020450333032", "020100", "020101", "0102"]

    /// A receipt with one attribute, or one purchase with it; `nil` if no property takes the value.
    private static func receipt(type: Int, value: String, inPurchase: Bool) -> AppReceipt? {
        let attribute = payload(type: [2, 2, UInt8(type >> 8), UInt8(type & 0xff)], value: hex(value))
        let bytes = inPurchase ? payload(type: [2, 1, 17], value: attribute) : attribute
        guard let receipt = try? AppReceipt(decoding: bytes[...]) else { return nil }
        let left = inPurchase ? receipt.inAppPurchases.flatMap(\.otherAttributes) : receipt.otherAttributes
        return left.isEmpty ? receipt : nil
    }

    @Test(arguments: forms, [false, true])
    func `a property's value is encoded so that it decodes to the same value`(value: String, inPurchase: Bool) throws {
        for type in 0..<2000 {
            guard let receipt = Self.receipt(type: type, value: value, inPurchase: inPurchase) else { continue }
            #expect(try AppReceipt(decoding: receipt.encoded[...]) == receipt, "attribute \(type)")
        }
    }

    @Test(arguments: forms, [false, true])
    func `a property's value is in a verifyReceipt answer or a leftover`(value: String, inPurchase: Bool) {
        var empty = AppReceipt()
        if inPurchase { empty.inAppPurchases = [InAppPurchase()] }
        for type in 0..<2000 where inPurchase || type != 17 {
            guard let receipt = Self.receipt(type: type, value: value, inPurchase: inPurchase),
                Receipt(receipt, requestDate: nil) == Receipt(empty, requestDate: nil)
            else { continue }
            let conversion = receipt.modern()
            let isConverted = conversion.value != empty.modern().value
            #expect(isConverted || !conversion.leftovers.isEmpty, "attribute \(type)")
        }
    }

    private static let instant = "2024-03-01T12:00:00Z"
    private static let date = "1614323032342d30332d30315431323a30303a30305a"

    @Test(arguments: [20_000, 20_001])
    func `a set is read up to its limit of attributes`(count: Int) {
        let attributes = Array(repeatElement(hex("3009020106020101040100"), count: count).joined())
        let length = [16, 8, 0].map { UInt8(attributes.count >> $0 & 0xff) }
        let payload = [0x31, 0x83] + length + attributes
        #expect((try? AppReceipt(decoding: payload[...])) != nil ? count == 20_000 : count == 20_001)
    }

    @Test(arguments: ["0402aabb", "2406040 1aa0401bb", "24800401aa0401bb0000", "240a24080401aa24030401bb"])
    func `an octet string is read whole or in chunks`(encoded: String) throws {
        let value = hex(encoded)
        let attribute = hex("020106020101") + value
        let payload = [0x31, UInt8(attribute.count + 2), 0x30, UInt8(attribute.count)] + attribute
        let receipt = try AppReceipt(decoding: payload[...])
        #expect(receipt.otherAttributes.first.map { Array($0.value) } == [0xaa, 0xbb])
    }

    @Test(arguments: [
        "24800401aa0401bb", "24800401aa00", "24800401aa000401bb", "24030402aa", "248002010a0000", "248024800401aa0000",
        "24042480040100", "2480",
    ])
    func `an octet string whose chunks do not end where it does is refused`(encoded: String) {
        let attribute = hex("020106020101") + hex(encoded)
        let payload = [0x31, UInt8(attribute.count + 2), 0x30, UInt8(attribute.count)] + attribute
        #expect(throws: ReceiptDecodingError.self) { try AppReceipt(decoding: payload[...]) }
    }

    @Test(arguments: [30, 32, 33, 100_000]) func `chunks nest to the limit and no deeper`(depth: Int) {
        let opened = Array(repeatElement([0x24, 0x80] as [UInt8], count: depth).joined())
        let value = opened + [0x04, 0x01, 0xaa] + [UInt8](repeating: 0, count: 2 * depth)
        let attribute = hex("3080020106020101") + value + [0, 0]
        let receipt = try? AppReceipt(decoding: ([0x31, 0x80] + attribute + [0, 0])[...])
        #expect((receipt?.otherAttributes.first?.value == [0xaa]) == (depth == 30))
    }

    @Test func `an object identifier of any length is described in a line`() throws {
        let identifier = [0x06, 0x83, 0x01, 0x00, 0x00] + [UInt8](repeating: 1, count: 1 << 16)
        let bytes = [0x30, 0x83, 0x01, 0x00, 0x05] + identifier
        let error = try #require(throws: ReceiptDecodingError.self) { try SignedReceipt(decoding: bytes) }
        #expect(error.description.count < 200)
    }

    @Test func `indefinite lengths nest to the limit and no deeper`() throws {
        for depth in [30, 100, 1_000_000] {
            let value =
                Array(repeating: [0x30, 0x80] as [UInt8], count: depth).joined() + Array(repeating: 0, count: 2 * depth)
            let bytes = [0x31, 0x80] + Array(value) + [0, 0]
            let error = try #require(throws: ReceiptDecodingError.self) { try AppReceipt(decoding: bytes[...]) }
            #expect(error.description.contains("deeper") == (depth > 31), "\(depth): \(error)")
        }
    }
}

@Suite(.enabled(if: TestData.isThere, "\(TestData.whyNot)")) struct GenuineReceiptTests {
    struct Genuine: Sendable, CustomTestStringConvertible {
        var file: String
        var type: ReceiptType
        var bundleId: String
        var created: String
        var purchases: Int
        var digest: OID
        var certificates = 3
        var testDescription: String { file }
    }

    static let genuine = [
        Genuine(
            file: "receipts/sandbox-2025-sha256-2-purchases.b64", type: .productionSandbox,
            bundleId: "dev.bonzer.weeka.app",
            created: "2025-12-26T18:39:47Z", purchases: 2, digest: .sha256),
        Genuine(
            file: "receipts/sandbox-2020-sha1-187-purchases.b64", type: .productionSandbox,
            bundleId: "com.nutcall.alert",
            created: "2020-05-06T18:28:49Z", purchases: 187, digest: .sha1),
        Genuine(
            file: "receipts/sandbox-2018-sha1-120-purchases.b64", type: .productionSandbox,
            bundleId: "com.sumiapp.GridDiary",
            created: "2018-01-05T02:55:39Z", purchases: 120, digest: .sha1),
        Genuine(
            file: "receipts/sandbox-2014-sha1-2-purchases.b64", type: .productionSandbox,
            bundleId: "com.sumiapp.GridDiary",
            created: "2014-09-02T03:29:06Z", purchases: 2, digest: .sha1),
        Genuine(
            file: "receipts/ios-production-2016-sha1-1-purchase.b64", type: .production, bundleId: "com.devsisters.gb",
            created: "2016-09-27T11:55:36Z", purchases: 1, digest: .sha1),
        Genuine(
            file: "receipts/mac-production-2017-sha1.der", type: .production, bundleId: "com.ideasoncanvas.MindNodeMac",
            created: "2017-09-04T09:01:20Z", purchases: 0, digest: .sha1),
        Genuine(
            file: "receipts/mac-production-2023-sha1-g7.der", type: .production,
            bundleId: "com.ideasoncanvas.MindNodeMac",
            created: "2023-02-22T12:56:25Z", purchases: 0, digest: .sha1),
        Genuine(
            file: "receipts/xcode-ber.b64", type: .xcode, bundleId: "net.zachariadis.cyclemaps",
            created: "2020-07-22T17:33:15Z", purchases: 1, digest: .sha256,
            certificates: 1),
    ]

    @Test(arguments: genuine)
    func `a genuine receipt has the properties known for it`(genuine: Genuine) throws {
        let container = try SignedReceipt(decoding: TestData.receipt(genuine.file))
        let receipt = try AppReceipt(decoding: container.payload)
        #expect(receipt.receiptType?.known == genuine.type)
        #expect(receipt.bundleId == genuine.bundleId)
        #expect(receipt.receiptCreationDate?.iso8601 == genuine.created)
        #expect(receipt.inAppPurchases.count == genuine.purchases)
        #expect(container.signer.digestAlgorithm == genuine.digest)
        #expect(container.certificates.count == genuine.certificates)
    }

    @Test(arguments: genuine)
    func `a genuine receipt is encoded as the App Store encoded it`(genuine: Genuine) throws {
        let payload = try SignedReceipt(decoding: TestData.receipt(genuine.file)).payload
        let receipt = try AppReceipt(decoding: payload)
        // Xcode writes attributes in another order than DER demands, and the year 4001 for a missing date.
        guard genuine.type != .xcode else {
            #expect(try AppReceipt(decoding: receipt.encoded[...]).inAppPurchases == receipt.inAppPurchases)
            return
        }
        #expect(receipt.encoded == Array(payload))
    }
}

func hex(_ text: String) -> [UInt8] {
    let digits = text.compactMap { $0.hexDigitValue.map(UInt8.init) }
    return stride(from: 0, to: digits.count, by: 2).map { digits[$0] << 4 | digits[$0 + 1] }
}
