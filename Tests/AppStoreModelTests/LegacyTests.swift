// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation
import TestData
import Testing

@Suite struct LegacyTests {
    private static func json(_ text: String) throws -> JSONValue { try JSONValue(parsing: text.utf8) }

    /// Forms that have been seen on the wire, and the form that is written.
    @Test(arguments: [
        (#"{"quantity":2}"#, #"{"quantity":"2"}"#), (#"{"quantity":"2"}"#, #"{"quantity":"2"}"#),
        (#"{"is_trial_period":true}"#, #"{"is_trial_period":"true"}"#),
        (#"{"is_trial_period":"TRUE"}"#, #"{"is_trial_period":"true"}"#),
        (#"{"is_trial_period":"0"}"#, #"{"is_trial_period":"false"}"#),
        (#"{"is_trial_period":1}"#, #"{"is_trial_period":"true"}"#),
        (#"{"original_transaction_id":1000000000000001}"#, #"{"original_transaction_id":"1000000000000001"}"#),
        (#"{"web_order_line_item_id":null}"#, #"{}"#), (#"{"later":[1]}"#, #"{"later":[1]}"#),
        (#"{"cancellation_reason":7}"#, #"{"cancellation_reason":"7"}"#),
        (#"{"in_app_ownership_type":"BORROWED"}"#, #"{"in_app_ownership_type":"BORROWED"}"#),
        (
            #"{"purchase_date_ms":1614582000000}"#,
            #"{"purchase_date":"2021-03-01 07:00:00 Etc/GMT","purchase_date_ms":"1614582000000","purchase_date_pst":"2021-02-28 23:00:00 America/Los_Angeles"}"#
        ),
        (
            #"{"cancellation_date_ms":"1614582000586"}"#,
            #"{"cancellation_date":"2021-03-01 07:00:00 Etc/GMT","cancellation_date_ms":"1614582000586","cancellation_date_pst":"2021-02-28 23:00:00 America/Los_Angeles"}"#
        ),
        (
            #"{"expires_date":"1614582000000"}"#,
            #"{"expires_date":"2021-03-01 07:00:00 Etc/GMT","expires_date_ms":"1614582000000","expires_date_pst":"2021-02-28 23:00:00 America/Los_Angeles"}"#
        ),
        (
            #"{"expires_date":"2021-03-01 07:00:00 Etc/GMT"}"#,
            #"{"expires_date":"2021-03-01 07:00:00 Etc/GMT","expires_date_ms":"1614582000000","expires_date_pst":"2021-02-28 23:00:00 America/Los_Angeles"}"#
        ),
        (
            #"{"expires_date_pst":"2021-02-28 23:00:00 America/Los_Angeles"}"#,
            #"{"expires_date":"2021-03-01 07:00:00 Etc/GMT","expires_date_ms":"1614582000000","expires_date_pst":"2021-02-28 23:00:00 America/Los_Angeles"}"#
        ),
    ])
    func `every form seen on the wire is read, and only one form is written`(read: String, written: String) throws {
        #expect(String(decoding: try LatestReceiptInfo(Self.json(read)).json, as: UTF8.self) == written)
    }

    @Test(arguments: [
        #"{"quantity":"two"}"#, #"{"quantity":1.5}"#, #"{"quantity":"99999999999999999999"}"#, #"{"quantity":true}"#,
        #"{"is_trial_period":"yes"}"#, #"{"product_id":{}}"#, #"{"purchase_date_ms":"soon"}"#,
        #"{"purchase_date":"2021-02-30 07:00:00 Etc/GMT"}"#, #"{"purchase_date":"2021-03-01 07:00:00"}"#,
        #"{"purchase_date":"10000-01-01 00:00:00 Etc/GMT"}"#, #"{"purchase_date":"2021-03-01 07:00:00 Europe/Berlin"}"#,
        #"{"purchase_date_ms":"99999999999999999999"}"#, #"{"purchase_date_ms":"9223372036854775807"}"#, "[]", "1",
    ])
    func `a member in an unknown form is an error`(text: String) throws {
        let json = try Self.json(text)
        let error = #expect(throws: DecodingError.self) { try LatestReceiptInfo(json) }
        if let name = json.members?.first?.name { #expect("\(String(describing: error))".contains(name)) }
    }

    @Test func `an error inside a nested object names its path`() throws {
        let json = try Self.json(#"{"receipt":{"in_app":[{},{"quantity":"x"}]}}"#)
        guard
            case .dataCorrupted(let context) = #expect(
                throws: DecodingError.self, performing: { try VerifyReceiptResponse(json) })
        else {
            Issue.record("another error")
            return
        }
        #expect(context.codingPath.map(\.stringValue) == ["receipt", "in_app", "[1]", "quantity"])
    }

    @Test(
        arguments: [
            (#"{"status":21199,"is_retryable":true}"#, true, true),
            (#"{"status":21199,"is-retryable":"1"}"#, true, true),
            (#"{"status":21100,"is_retryable":0}"#, false, false), (#"{"status":"21150"}"#, nil, true),
            (#"{"status":21010,"is_retryable":false}"#, false, false), (#"{"status":21005}"#, nil, true),
            (#"{"status":21002}"#, nil, false), (#"{"status":"OK"}"#, nil, false), (#"{"status":0}"#, nil, false),
            (#"{"status":21200}"#, nil, false),
        ] as [(String, Bool?, Bool)])
    func `an error answer says whether the request may be retried`(text: String, flag: Bool?, mayBeRetried: Bool) throws
    {
        let response = try VerifyReceiptResponse(Self.json(text))
        #expect(response.isRetryable == flag)
        #expect(response.mayBeRetried == mayBeRetried)
        #expect(response.unknownMembers.members.isEmpty)
    }

    @Test func `the iOS 6 style is recognised, and its date members are read`() throws {
        let json = try Self.json(
            """
            {"receipt":{"bid":"com.example.notes","bvrs":"12","item_id":"1090000001","product_id":"yearly","quantity":"1",
            "transaction_id":"7","original_transaction_id":"1","expires_date":"1456893581000",
            "expires_date_formatted":"2016-03-02 04:39:41 Etc/GMT",
            "expires_date_formatted_pst":"2016-03-01 20:39:41 America/Los_Angeles"},
            "latest_expired_receipt_info":{"bid":"com.example.notes","expires_date":"1456893581000",
            "expires_date_formatted":"2016-03-02 04:39:41 Etc/GMT",
            "expires_date_formatted_pst":"2016-03-01 20:39:41 America/Los_Angeles"},
            "auto_renew_status":0,"expiration_intent":"1","is_in_billing_retry_period":"0",
            "auto_renew_product_id":"yearly","status":21006}
            """)
        #expect(VerifyTransactionReceiptResponse.isTransactionReceiptStyle(json))
        let response = try VerifyTransactionReceiptResponse(json)
        #expect(response.status == .expiredSubscription)
        #expect(response.receipt?.expiresDate?.milliseconds == 1_456_893_581_000)
        #expect(response.autoRenewStatus == .off)
        #expect(try JSONValue(parsing: response.json).sorted == json.sorted)
        #expect(
            try !VerifyTransactionReceiptResponse.isTransactionReceiptStyle(Self.json(#"{"receipt":{},"status":0}"#)))
    }

    @Test func `some members of a version 1 notification have other types than in a receipt`() throws {
        let text = """
            {"notification_type":"DID_CHANGE_RENEWAL_STATUS","password":"secret","environment":"PROD",\
            "auto_renew_status":"false","expiration_intent":1,"original_transaction_id":1000000000000001,\
            "unified_receipt":{"environment":"Production","latest_receipt_info":[],"pending_renewal_info":[],"status":0},\
            "new":{"a":1}}
            """
        let notification = try ResponseBodyV1(Self.json(text))
        #expect(notification.modernEnvironment == .production)
        #expect(notification.autoRenewStatus == false)
        #expect(notification.originalTransactionId == "1000000000000001")
        #expect(String(decoding: notification.json, as: UTF8.self) == text)
    }

    /// Documents in which a member occurs twice, has escapes or has an unexpected type.
    @Test(arguments: [
        #"{"unified_receipt":{"latest_receipt":"AAAA"}}"#, #"{"latest_receipt":"AAAA"}"#, "[]", "1", "{}",
        #" { "a" : [ 1.5e3 , {"b":[[]]} , true , false , null , "x" ] , "unified_receipt" : { "latest_receipt" : "AAAA" } } "#,
        #"{"unified_receipt":{"latest_receipt":"AAAA"},"unified_receipt":{"latest_receipt":"BBBB"}}"#,
        #"{"unified_receipt":{"latest_receipt":"AAAA"},"unified_receipt":{}}"#,
        #"{"unified_receipt":{"latest_receipt":"AAAA","latest_receipt":"BBBB"}}"#,
        #"{"unified_receipt":{"latest_receipt":"AAAA","latest_receipt":7}}"#,
        #"{"unified_receipt":{"x":{"latest_receipt":"BBBB"},"latest_receipt":"A\u0041A\/"}}"#,
        #"{"unified\u005freceipt":{"latest_receipt":"AAAA"}}"#, #"{"unified_receipt":"AAAA"}"#,
        #"{"unified_receipt":["AAAA"]}"#, #"{"unified_receipt":{"latest_receipt":{"latest_receipt":"AAAA"}}}"#,
        #"{"x":{"unified_receipt":{"latest_receipt":"AAAA"}}}"#, #"{"unified_receipt":{"latest_receipt":"A A"}}"#,
        #"{"unified_receipt":{"latest_receipt":"AAAA"}} {}"#, #"{"unified_receipt":{"latest_receipt":"AAAA"},}"#,
        #"{"unified_receipt":{"latest_receipt":"AAAA"}"#, #"{"x":[1,],"unified_receipt":{"latest_receipt":"AAAA"}}"#,
        #"{"x":tru,"unified_receipt":{"latest_receipt":"AAAA"}}"#, #"{"x" "y"}"#, #"{x:1}"#, "",
        #"{"x":\#(String(repeating: "[", count: 63) + String(repeating: "]", count: 63)),"unified_receipt":{"latest_receipt":"AAAA"}}"#,
        #"{"x":\#(String(repeating: "[", count: 64) + String(repeating: "]", count: 64)),"unified_receipt":{"latest_receipt":"AAAA"}}"#,
    ])
    func `the search for the receipt of a notification finds what the JSON parser finds`(text: String) {
        let json = try? Self.json(text)
        let expected = json?["unified_receipt"]?["latest_receipt"]?.string.flatMap { Base64.decode($0.utf8) }
        #expect(ResponseBodyV1.latestReceipt(in: Array(text.utf8)) == expected)
    }

    @Test(.takesLong)
    func `both date texts of an instant are read as that instant, for every hour from 2006 to 2040`() {
        for hour in stride(from: Int64(1_136_073_600_000), to: 2_240_611_200_000, by: 3_600_000) {
            let instant = Timestamp(milliseconds: hour)
            let gmt = Self.text { LegacyDate.appendGMT(instant, to: &$0) }
            let pacific = Self.text { LegacyDate.appendPacific(instant, to: &$0) }
            // When Pacific clocks are set back, one hour occurs twice. Its text is read as the first of the two.
            let expected = Self.isRepeated(hour) ? Timestamp(milliseconds: hour - 3_600_000) : instant
            guard LegacyDate.instant(of: gmt) != instant || LegacyDate.instant(of: pacific) != expected else {
                continue
            }
            Issue.record("\(hour) is \(gmt) and \(pacific)")
            return
        }
    }

    private static func text(_ append: (inout [UInt8]) -> Void) -> String {
        var text: [UInt8] = []
        append(&text)
        return String(decoding: text, as: UTF8.self)
    }

    private static let pacific = TimeZone(identifier: "America/Los_Angeles")

    /// Whether Pacific clocks were set back within the hour before this instant.
    private static func isRepeated(_ milliseconds: Int64) -> Bool {
        let date = Date(timeIntervalSince1970: Double(milliseconds) / 1000)
        guard let pacific else { return false }
        return pacific.secondsFromGMT(for: date) == pacific.secondsFromGMT(for: date - 3600) - 3600
    }
}
