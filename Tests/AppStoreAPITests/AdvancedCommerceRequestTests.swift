// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import Testing

/// Advanced Commerce requests as JSON: valid ones, and each with one member changed.
@Suite struct AdvancedCommerceRequestTests {
    private static let head =
        #""version":"1","requestInfo":{"requestReferenceId":"0d6e5c0a-6a52-4a0b-9d4b-0f1f4e3a9b11"}"#
    private static let charge = """
        {"operation":"CREATE_ONE_TIME_CHARGE",\(head),"currency":"USD","item":{"description":"A book","displayName":"Book",\
        "SKU":"book","price":1990},"taxCode":"C003-00-2"}
        """
    private static let creation = """
        {"operation":"CREATE_SUBSCRIPTION",\(head),"currency":"JPY","descriptors":{"description":"All","displayName":"Plus"},\
        "items":[{"SKU":"plus","description":"All","displayName":"Plus","price":300000,\
        "offer":{"period":"P1W","periodCount":1,"price":0,"reason":"ACQUISITION"}}],"period":"P1M","taxCode":"S021-07-1"}
        """
    private static let change = """
        {"operation":"MODIFY_SUBSCRIPTION",\(head),"transactionId":"42","retainBillingCycle":true,"currency":"USD",\
        "changeItems":[{"currentSKU":"plus","SKU":"max","description":"More","displayName":"Max","effective":"IMMEDIATELY",\
        "price":2990,"reason":"UPGRADE"}]}
        """
    private static let reactivation = """
        {"operation":"REACTIVATE_SUBSCRIPTION",\(head),"transactionId":"42","items":[{"SKU":"plus"}]}
        """

    private static func sign(_ text: String) throws -> String {
        try StoreKitSignerTests.signer().advancedCommerce(
            AdvancedCommerceInAppRequest(try JSONValue(parsing: text.utf8)), nonce: StoreKitSignerTests.nonce,
            at: StoreKitSignerTests.now)
    }

    @Test(arguments: [charge, creation, change, reactivation])
    func `a valid request is signed with all of its members, even unknown ones`(text: String) throws {
        let text = text.dropLast() + #","newMember":[1]}"#
        let claims = try JSONValue(parsing: JWS(try Self.sign(String(text)).utf8).payload)
        let encoded = try #require(claims["request"]?.string)
        let request = try #require(Base64.decode(encoded.utf8))
        func members(_ json: JSONValue) -> Set<JSONValue.Member> { Set(json.members ?? []) }
        #expect(try members(JSONValue(parsing: request)).count == members(JSONValue(parsing: text.utf8)).count)
        #expect(try JSONValue(parsing: request)["newMember"] == .array([.number("1")]))
        #expect(claims["aud"]?.string == "advanced-commerce-api")
    }

    @Test(arguments: [
        (charge, #""CREATE_ONE_TIME_CHARGE""#, #""REFUND""#, "unknownOperation operation"),
        (charge, #""operation":"CREATE_ONE_TIME_CHARGE","#, "", "missing operation"),
        (charge, #""version":"1""#, #""version":"2""#, "invalid version"),
        (charge, #""version":"1","#, "", "invalid version"),
        (charge, "0d6e5c0a-", "", "invalid requestInfo.requestReferenceId"),
        (
            charge, #""requestReferenceId":"#, #""appAccountToken":"x","requestReferenceId":"#,
            "invalid requestInfo.appAccountToken"
        ),
        (charge, #""USD""#, #""""#, "missing currency"), (charge, #""C003-00-2""#, #""""#, "missing taxCode"),
        (charge, #""taxCode":"C003-00-2""#, #""x":1"#, "invalid "), (charge, "1990", "-10", "invalid item.price"),
        (charge, "1990", "1995", "invalid item.price"), (charge, "1990", #""1990""#, "invalid "),
        (charge, "A book", String(repeating: "b", count: 46), "invalid item.description"),
        (charge, "\"Book\"", "\"\(String(repeating: "b", count: 31))\"", "invalid item.displayName"),
        (charge, "\"book\"", "\"\(String(repeating: "b", count: 129))\"", "invalid item.SKU"),
        (creation, "300000", "300500", "invalid items[0].price"),
        (creation, #""periodCount":1"#, #""periodCount":2"#, "invalid items[0].offer.periodCount"),
        (
            creation, #""periodCount":1,"price":0"#, #""periodCount":13,"price":1000"#,
            "invalid items[0].offer.periodCount"
        ),
        (creation, #""periodCount":1,"#, "", "missing items[0].offer"),
        (
            creation, #""description":"All","displayName":"Plus"},"#, #""displayName":"Plus"},"#,
            "missing descriptors.description"
        ),
        (change, #""changeItems""#, #""oldItems""#, "missing "),
        (change, #""currentSKU":"plus""#, #""currentSKU":"""#, "missing changeItems[0].currentSKU"),
        (change, "2990", "2995", "invalid changeItems[0].price"), (change, #""42""#, #""""#, "missing transactionId"),
        (reactivation, #""plus""#, #""""#, "missing items[0].SKU"), (reactivation, #""42""#, "42", "invalid "),
    ])
    func `a request with one wrong member is refused, and the error names the member`(
        text: String, old: String, new: String, refusal: String
    ) throws {
        let changed = text.replacing(old, with: new)
        #expect(changed != text)
        #expect(StoreKitSignerTests.refusal { _ = try Self.sign(changed) } == refusal)
    }

    @Test(arguments: ["12345678901234567890123456789é", String(repeating: "👩‍👩‍👧‍👦", count: 30)])
    func `characters are counted as people count them`(name: String) throws {
        _ = try Self.sign(Self.charge.replacing("\"Book\"", with: "\"\(name)\""))
    }
}
