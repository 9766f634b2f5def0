// SPDX-License-Identifier: Apache-2.0

import AppStoreTrust
import PurchaseLedger
import PurchaseServer
import Testing

@Suite struct AppsFileTests {
    @Test func `a file says which apps there are and what their products stand for`() throws {
        let text = """
            {"apps": [
              {"bundleId": "com.example", "appAppleId": 7, "sharedSecret": "s", "staleLeewaySeconds": 60,
               "products": {"pro": {"entitlements": ["a", "b"], "level": 2}, "season": {"durationDays": 90}}},
              {"bundleId": "com.example.two"}
            ]}
            """
        let file = try AppsFile(parsing: Array(text.utf8))
        #expect(file.apps.map(\.bundleId) == ["com.example", "com.example.two"])
        #expect(file.apps.map(\.appAppleId) == [7, nil])
        #expect(file.sharedSecrets == ["com.example": "s"])
        let catalogue = file.catalogues["com.example"]
        #expect(catalogue?.staleLeeway == .seconds(60))
        #expect(catalogue?.products["pro"] == Catalogue.Product(entitlements: ["a", "b"], level: 2))
        #expect(catalogue?.products["season"]?.duration == .seconds(90 * 86_400))
    }

    @Test(arguments: [
        ("{", 1, "no JSON"), ("[]", 1, "An object was expected"), ("{}", 1, "names no app"),
        ("{\"apps\":\n 1}", 1, "apps: An array"),
        ("{\"apps\":[{\"bundle\":\n\"x\"}]}", 1, "apps.bundle: There is no such"),
        ("{\"apps\":[\n{}]}", 1, "bundleId is missing"),
        ("{\"apps\":[{\"bundleId\":\"x\",\n\"appAppleId\":\"7\"}]}", 2, "apps.appAppleId: A whole number"),
        (
            "{\"apps\":[{\"bundleId\":\"x\",\n\"products\":{\n\"pro\":{\n\"level\":0}}}]}", 4,
            "apps.products.pro.level: A whole number from 1 to 10000"
        ),
        ("{\"apps\":[{\"bundleId\":\"x\"},\n{\"bundleId\":\"x\"}]}", 1, "twice"),
        (
            "{\"apps\":[{\"bundleId\":\"x\",\"products\":{\"p\":{\"entitlements\":[1]}}}]}", 1,
            "An entitlement is a name"
        ),
    ])
    func `a wrong file is refused by name and line`(text: String, line: Int, message: String) {
        let error = #expect(throws: AppsFileError.self) { try AppsFile(parsing: Array(text.utf8)) }
        #expect(error?.line == line)
        #expect(error?.message.contains(message) == true, "\(error?.message ?? "")")
    }
}
