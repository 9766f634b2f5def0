// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import Foundation
import PurchaseLedger
import PurchaseServer
import TestData
import Testing

/// Settings from the file and the environment, and the errors about them.
@Suite struct ConfigurationTests {
    private static func read(_ text: String?, _ variables: [String: String] = [:]) throws -> ServerConfiguration {
        try ServerConfiguration(file: text.map { Array($0.utf8) }, variables: variables)
    }

    @Test func `a file configures apps and their products`() throws {
        let text = """
            {"apps": [
              {"bundleId": "com.example", "appAppleId": 7, "sharedSecret": "s", "staleLeewaySeconds": 60, "refusedPurchases": ["1"],
               "products": {"pro": {"entitlements": ["a", "b"], "level": 2}, "season": {"durationDays": 90}}},
              {"bundleId": "com.example.two"}
            ]}
            """
        let apps = try Self.read(text).apps
        #expect(apps.map(\.identity.bundleId) == ["com.example", "com.example.two"])
        #expect(apps.map(\.identity.appAppleId) == [7, nil])
        #expect(apps.map(\.sharedSecret) == ["s", nil])
        #expect(apps.map(\.refusedPurchases) == [["1"], []])
        let catalogue = apps.first?.catalogue
        #expect(catalogue?.staleLeeway == .seconds(60))
        #expect(catalogue?.products["pro"] == Catalogue.Product(entitlements: ["a", "b"], level: 2))
        #expect(catalogue?.products["season"]?.duration == .seconds(90 * 86_400))
    }

    @Test func `a file configures rules for the purchase of the app`() throws {
        let text = """
            {"apps": [{"bundleId": "com.example", "appPurchase": [
                {"beforeVersion": "2.0.1", "platform": "macOS", "entitlements": ["a", "b"]},
                {"beforeDate": "2026-05-01", "entitlements": ["c"]},
                {"beforeDate": "2026-05-01T02:00:00+02:00", "entitlements": ["c"]}]}]}
            """
        let date = Timestamp(milliseconds: 1_777_593_600_000)
        #expect(
            try Self.read(text).apps.first?.catalogue.appPurchase == [
                AppPurchaseRule(
                    beforeVersion: AppVersion("2.0.1"), platform: Open(.macOS), entitlements: ["a", "b"]),
                AppPurchaseRule(beforeDate: date, entitlements: ["c"]),
                AppPurchaseRule(beforeDate: date, entitlements: ["c"]),
            ])
    }

    @Test(arguments: [
        (#"{"beforeVersion": "2b", "entitlements": ["a"]}"#, "beforeVersion: Expected numbers"),
        (#"{"beforeVersion": 2, "entitlements": ["a"]}"#, "beforeVersion: Expected a string"),
        (#"{"beforeDate": "2026-02-30", "entitlements": ["a"]}"#, "beforeDate: Expected a date"),
        (#"{"platform": "watchOS", "entitlements": ["a"]}"#, "platform: Expected one of iOS, macOS, tvOS, visionOS"),
        (#"{"entitlements": ["a"]}"#, "appPurchase[0]: Expected a condition"),
        (#"{"platform": "iOS"}"#, "appPurchase[0]: entitlements needs a name"),
        (#"{"platform": "iOS", "entitlements": [""]}"#, "entitlements[0]: Expected the name"),
        (#"{"version": "1", "entitlements": ["a"]}"#, "version: Unknown setting"), ("1", "Expected an object"),
    ])
    func `an invalid rule for the purchase of the app is refused`(rule: String, message: String) {
        let text = #"{"apps": [{"bundleId": "x", "appPurchase": [\#(rule)]}]}"#
        let error = #expect(throws: ConfigurationError.self) { try Self.read(text) }
        #expect(error?.message.contains(message) == true, "\(error?.message ?? "")")
    }

    @Test(arguments: [
        ("{", 1, "not JSON"), ("[]", 1, "Expected an object"), ("{\n\"port\":}", 2, "Not a JSON value"),
        ("{\n\"port\": 1,\n}", 2, "A comma before “}”."), ("{\"roots\": [\n\"a\", \n\n]}", 2, "A comma before “]”."),
        ("{\n\"port\": 1,\n,}", 3, "Two commas."), ("{\n\"port\": 1, // a\n}", 2, "JSON has no comments."),
        ("{\n\"port\": 1 # a\n}", 2, "JSON has no comments."),
        ("{\n\"prot\": 1}", 2, "prot: Unknown setting"),
        ("{\n\"port\": 65536}", 2, "port: Expected a number from 0 to"),
        ("{\"apps\": [],\n\n\"port\": [[]]}", 3, "port: Expected a string"),
        ("{\"apps\":\n 1}", 1, "apps: Expected an array"), ("{\"port\": 1, \"port\": 2}", 1, "port: It occurs twice"),
        ("{\"apps\":[{\"bundle\":\n\"x\"}]}", 1, "apps[0].bundle: Unknown setting"),
        ("{\"apps\":[\n{}]}", 2, "bundleId is missing"),
        ("{\"apps\":[{\"bundleId\":\"x\",\n\"appAppleId\":\"7\"}]}", 2, "apps[0].appAppleId: Expected a whole number"),
        (
            "{\"apps\":[{\"bundleId\":\"x\",\n\"products\":{\n\"pro\":{\n\"level\":0}}}]}", 4,
            "apps[0].products.pro.level: Expected a whole number from 1 to 10000"
        ),
        ("{\"apps\":[{\"bundleId\":\"x\"},\n{\"bundleId\":\"x\"}]}", 2, "apps[1]: bundleId x occurs twice"),
        (
            "{\"apps\":[{\"sharedSecret\":\"},[\\\"\",\"bundleId\":\"x\",\n\"appAppleId\":1},\n{\"bundleId\":\"y\",\n\"appAppleId\":0}]}",
            4,
            "apps[1].appAppleId: Expected a whole number"
        ),
        (
            "{\"apps\":[{\"bundleId\":\"x\",\"products\":{\"p\":{\"entitlements\":[1]}}}]}", 1,
            "Expected the name of an entitlement"
        ),
        (
            "{\"apps\":[\n{\"bundleId\":\"com.example \"}]}", 2,
            "apps[0].bundleId: U+0020 at position 12 is not allowed. A bundle id has 1 to 255 letters"
        ),
        (
            "{\"apps\":[{\"bundleId\":\"x\",\n\"refusedPurchases\":[\"1\",5],\n\"products\":{\n\"p\":{}}}]}", 2,
            "apps[0].refusedPurchases[1]: Expected"
        ),
        ("{\"port\": 1,\n\"hostname\": \"x\",\n\"port\": 2}", 3, "port: It occurs twice"),
        ("{\"apps\":[{\"bundleId\":\"port\"},\n{\"bundleId\":\"y\"}],\n\"port\": \"x\"}", 3, "port: Expected a number"),
        ("{\"apps\":[{\"bundleId\":\"x\",\n\"refusedPurchases\":[\n\"1\",\n5]}]}", 4, "refusedPurchases[1]: Expected"),
        ("{\n\"hostname\": null}", 2, "hostname: null is no value: leave the setting out"),
        ("{\n\"hostname\": \"[::1]\"}", 2, "hostname: Expected an address or a name, an IPv6 address without brackets"),
        ("{\n\"healthHostname\": \"[::1]\"}", 2, "healthHostname: Expected an address or a name"),
        ("{\n\"requestLog\": 1}", 2, "requestLog: Expected all, errors, off, or a number"),
        ("{\n\"logFormat\": \"xml\"}", 2, "logFormat: Expected text, json"),
    ])
    func `an invalid file is refused with the setting's name and line`(text: String, line: Int, message: String) {
        let error = #expect(throws: ConfigurationError.self) { try Self.read(text) }
        #expect(error?.line == line)
        #expect(error?.message.contains(message) == true, "\(error?.message ?? "")")
    }

    @Test(arguments: [
        (#"["a,b.cer", "c.cer"]"#, ["a,b.cer", "c.cer"]), (#"["a\\,b\\.cer"]"#, [#"a\,b\.cer"#]),
        (#""a.cer, b.cer""#, ["a.cer", "b.cer"]), (#""a\\,b.cer,c.cer""#, ["a,b.cer", "c.cer"]),
        (#"["a\\", "b"]"#, [#"a\"#, "b"]),
    ])
    func `the name of a root file may contain a comma`(roots: String, expected: [String]) throws {
        #expect(try Self.read("{\"roots\": \(roots)}").roots == expected)
    }

    @Test func `in a variable a backslash before a comma keeps the comma`() throws {
        #expect(try Self.read(nil, ["QUITTANCE_ROOTS": #"a\,b.cer,c d.cer"#]).roots == ["a,b.cer", "c d.cer"])
    }

    @Test func `the key of commands that ask a server is no unknown setting`() throws {
        #expect(try Self.read(nil, ["QUITTANCE_KEY": "qt_x"]).port == 8080)
        #expect(throws: ConfigurationError.self) { try Self.read(nil, ["QUITTANCE_KEYS": "qt_x"]) }
    }

    @Test func `the environment overrides the file, and the file overrides the defaults`() throws {
        let text = """
            {"port": 1, "hostname": "::1", "environments": ["sandbox", "xcode"], "keepEvidence": true, "claimPolicy": "keep"}
            """
        let variables = ["QUITTANCE_PORT": "2", "QUITTANCE_CLAIM_POLICY": "share", "PATH": "x"]
        let configuration = try Self.read(text, variables)
        #expect(configuration.port == 2)
        #expect(configuration.hostname == "::1")
        #expect(configuration.environments == [.sandbox, .xcode])
        #expect(configuration.keepEvidence)
        #expect(configuration.claimPolicy == .share)
        #expect(try Self.read(nil).claimPolicy == .accountTokenWins)
        #expect(configuration.environment == .production)
        #expect(
            try Self.read(nil, ["QUITTANCE_ENVIRONMENTS": "production, Sandbox"]).environments == [
                .production, .sandbox,
            ])
    }

    @Test(arguments: [
        (#"{"deliveryStatus":"DELIVERED","sampleContentProvided":false,"refundPreference":"DECLINE"}"#, nil),
        (#"{"consumptionPercentage":50000}"#, nil),
        (#"{"customerConsented":true}"#, "consumption.customerConsented: Unknown setting"),
        (#"{"deliveryStatus":"LOST"}"#, "consumption.deliveryStatus: Expected one of DELIVERED, UNDELIVERED_"),
        (#"{"sampleContentProvided":"no"}"#, "consumption.sampleContentProvided: Expected true or false"),
        (#"{"consumptionPercentage":100001}"#, "consumption.consumptionPercentage: Expected a whole number"),
        (
            #"{"deliveryStatus":"UNDELIVERED_OTHER","consumptionPercentage":1}"#,
            "consumption: “consumptionPercentage” must be 0"
        ),
    ])
    func `a product may have a default for consumption requests, but not for consent`(
        consumption: String, message: String?
    ) throws {
        let text = #"{"apps":[{"bundleId":"x","products":{"p":{"consumption":\#(consumption)}}}]}"#
        guard let message else {
            let information = try Self.read(text).apps.first?.consumption["p"]
            #expect(try JSONValue(encoding: #require(information)).compactText == consumption)
            return
        }
        let error = #expect(throws: ConfigurationError.self) { try Self.read(text) }
        #expect(error?.message.contains("products.p.\(message)") == true, "\(error?.message ?? "")")
    }

    @Test(
        arguments: [
            (#"{"secret": "a secret of enough bytes: 0123456789"}"#, nil),
            (#"{"publicKey": "MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE="}"#, nil),
            (#"{"secret": "hunter2"}"#, "customerProof.secret: Expected at least 32 bytes"),
            (#"{"publicKey": "hunter2"}"#, "customerProof.publicKey: Expected an Ed25519 public key"),
            (#"{"secret": "hunter2", "publicKey": "hunter2"}"#, "customerProof: Expected either secret or publicKey"),
            ("{}", "customerProof: Expected either secret or publicKey"),
            (#""hunter2""#, "customerProof: Expected an object"),
            (#"{"secret": 7}"#, "customerProof.secret: Expected a string"),
            (#"{"algorithm": "none"}"#, "customerProof.algorithm: Unknown setting"),
        ] as [(String, String?)])
    func `an app may require customer proof by a secret or a public key, and no secret is shown`(
        proof: String, message: String?
    ) throws {
        let text = #"{"apps":[{"bundleId":"x","customerProof":\#(proof)}]}"#
        guard let message else {
            let configuration = try Self.read(text)
            #expect(configuration.apps.first?.customerProof != nil)
            #expect(!"\(configuration)".contains("0123456789"))
            return
        }
        let error = #expect(throws: ConfigurationError.self) { try Self.read(text) }
        #expect(error?.description.contains(message) == true, "\(error?.description ?? "")")
        #expect(error?.description.contains("hunter2") == false)
    }

    private static let message = "0d6e5c0a-6a52-4a0b-9d4b-0f1f4e3a9b11"
    private static let key = #""inAppPurchaseKey":{"file":"k.p8","keyId":"ABCDEF1234","issuerId":"\#(message)"}"#

    @Test func `an app may have a key, offers for clients, and rules for retention messages`() throws {
        let text = """
            {"apps": [{"bundleId": "x", "appAppleId": 7, \(Self.key),
              "products": {"year": {"clientOffers": ["stay3"]}, "month": {}},
              "retention": {"defaultMessage": "\(Self.message)", "rules": [
                {"products": ["month"], "locales": ["de"], "message": "\(Self.message)", "promotionalOffer": "stay3"},
                {"message": "\(Self.message)", "alternateProduct": "year", "billingPlanType": "MONTHLY"}]}}]}
            """
        let app = try #require(try Self.read(text).apps.first)
        #expect(app.inAppPurchaseKey == InAppPurchaseKeyFile(file: "k.p8", keyId: "ABCDEF1234", issuerId: Self.message))
        #expect(app.clientOffers == ["year": ["stay3"], "month": []])
        let rules = try #require(app.retention)
        #expect(rules.defaultMessage == Self.message)
        #expect(rules.rules.map(\.products) == [["month"], []] && rules.rules.map(\.locales) == [["de"], []])
        #expect(
            rules.rules.map(\.addition) == [
                .promotionalOffer("stay3"), .alternateProduct("year", billingPlanType: Open(.monthly)),
            ])
    }

    @Test(arguments: [
        (#""inAppPurchaseKey":{"file":"k.p8","keyId":"A"}"#, "inAppPurchaseKey: Expected file, keyId and issuerId"),
        (
            #""inAppPurchaseKey":{"file":"k.p8","keyId":"ABCDEF1234","issuerId":"B"}"#,
            "inAppPurchaseKey.issuerId: Expected a UUID"
        ),
        (
            #""inAppPurchaseKey":{"file":"k.p8","keyId":"ABCDEF123","issuerId":"\#(message)"}"#,
            "inAppPurchaseKey.keyId: Expected ten capital letters and digits"
        ),
        (
            #""inAppPurchaseKey":{"file":"k.p8","keyId":"abcdef1234","issuerId":"\#(message)"}"#,
            "inAppPurchaseKey.keyId: Expected ten capital letters and digits"
        ),
        (
            #""inAppPurchaseKey":{"file":"k.p8","keyId":"ÄBCDEF123","issuerId":"\#(message)"}"#,
            "inAppPurchaseKey.keyId: Expected ten capital letters and digits"
        ),
        (#""inAppPurchaseKey":{"key":"-----BEGIN"}"#, "inAppPurchaseKey.key: Unknown setting"),
        (#""products":{"p":{"clientOffers":[1]}}"#, "clientOffers[0]: Expected the name of an offer"),
        (#""retention":{"defaultMessage":"x"}"#, "retention.defaultMessage: Expected a UUID"),
        (#""retention":{"rules":[{}]}"#, "retention.rules[0]: message is missing"),
        (
            #""retention":{"rules":[{"message":"\#(message)","alternateProduct":"a","promotionalOffer":"b"}]}"#,
            "retention.rules[0]: Expected either alternateProduct or promotionalOffer"
        ),
        (
            #""retention":{"rules":[{"message":"\#(message)","billingPlanType":"MONTHLY"}]}"#,
            "retention.rules[0].billingPlanType: A billing plan is for an alternateProduct"
        ),
        (
            #""retention":{"rules":[{"message":"\#(message)","promotionalOffer":"b"}]}"#,
            "retention: A promotionalOffer needs the app's inAppPurchaseKey"
        ),
        (#""retention":{},"appAppleId":null"#, "appAppleId: Expected"),
    ])
    func `an invalid key or rule is refused with its place, and a retention message needs the Apple ID`(
        members: String, message: String
    ) throws {
        let id = members.contains("appAppleId") ? "" : #""appAppleId":7,"#
        let error = #expect(throws: ConfigurationError.self) {
            try Self.read(#"{"apps":[{"bundleId":"x",\#(id)\#(members)}]}"#)
        }
        #expect(error?.message.contains(message) == true, "\(error?.message ?? "")")
        let unnamed = #expect(throws: ConfigurationError.self) {
            try Self.read(#"{"apps":[{"bundleId":"x","retention":{}}]}"#)
        }
        #expect(unnamed?.message == "apps[0].retention: Retention messages need the app's appAppleId.")
    }

    @Test(arguments: [(nil, 100), (1, 100), (2, 50), (3, 33), (60, 1), (100, 1)] as [(Int?, Int)])
    func `each of several servers uses its part of Apple's rate limits, and all together no more`(
        servers: Int?, share: Int
    ) throws {
        let configuration = try Self.read(servers.map { #"{"servers": \#($0)}"# } ?? "{}")
        #expect(configuration.shareOfServer == share)
        #expect(configuration.shareOfServer * (servers ?? 1) <= 100)
    }

    @Test(arguments: [
        ("https://example.com", true), ("http://127.0.0.1:9001", true), ("http://127.8.9.1", true),
        ("http://localhost:9001", true), ("http://LOCALHOST", true), ("http://[::1]:9001", true),
        ("http://example.com", false), ("http://10.0.0.1:9001", false), ("http://localhost.example.com", false),
        ("http://127.0.0.1.example.com", false), ("http://[::2]:9001", false), ("http://simulator:9001", false),
    ])
    func `an App Store server without TLS is refused unless it is this machine, and the error has setting and cure`(
        address: String, isSecure: Bool
    ) throws {
        for setting in ["appStoreServer", "sandboxAppStoreServer"] {
            let configuration = try Self.read(#"{"\#(setting)": "\#(address)"}"#)
            guard !isSecure else {
                try configuration.requireSecureAppStoreServers()
                continue
            }
            let error = #expect(throws: ConfigurationError.self) { try configuration.requireSecureAppStoreServers() }
            let message = error?.message ?? ""
            #expect(message.contains("\(setting): \(address) ") && message.contains("--insecure"), "\(message)")
        }
    }

    @Test(arguments: [
        ("QUITTANCE_PORT", "x", "Expected a number"), ("QUITTANCE_DATABSE", "x", "Unknown setting"),
        ("QUITTANCE_DATABASE", "quittance.sqlite", "Expected sqlite:PATH"),
        ("QUITTANCE_DATABASE", "sqlite:", "Expected sqlite:PATH"),
        ("QUITTANCE_EVENT_RETENTION_DAYS", "0", "Expected a number of days from 1 to 3650"),
        ("QUITTANCE_EVENT_RETENTION_DAYS", "3651", "Expected a number of days from 1 to 3650"),
        ("QUITTANCE_ENVIRONMENT", "xcode", "Expected production or sandbox"),
        ("QUITTANCE_ENVIRONMENTS", "", "Expected one or more of production"),
        ("QUITTANCE_REVOCATION", "maybe", "Expected off, ask, require"),
        ("QUITTANCE_ALSO_APPLE_ROOTS", "yes", "Expected true or false"),
        ("QUITTANCE_TRUSTED_PROXIES", "10.0.0.0/8,proxy", "Expected one or more addresses"),
        ("QUITTANCE_MAX_CONNECTIONS", "0", "Expected a number from 1"),
        ("QUITTANCE_SERVERS", "0", "Expected a number from 1 to 100"),
        ("QUITTANCE_SERVERS", "101", "Expected a number from 1 to 100"),
        ("QUITTANCE_BODY_BYTES_IN_FLIGHT", "1000000", "Expected a number of bytes of at least 16777216"),
        ("QUITTANCE_IDLE_TIMEOUT_SECONDS", "0.5", "Expected a number of seconds"),
    ])
    func `the error about an invalid variable begins with its name`(name: String, value: String, message: String) {
        let error = #expect(throws: ConfigurationError.self) { try Self.read(#"{"port": 3}"#, [name: value]) }
        #expect(error?.line == nil)
        #expect(error?.message.hasPrefix("\(name): \(message)") == true, "\(error?.message ?? "")")
    }

    @Test(arguments: [
        "postgresql:///ledger", "postgres://a@b,c/d?x=y", "postgresql://a:secret@b/c",
        "postgresql:///c?user=a&password=secret", "postgresql://a:se@cret@b/c",
    ])
    func `the address of a database is taken without the blanks around it, and not shown`(address: String) throws {
        let database = try Self.read(nil, ["QUITTANCE_DATABASE": " \(address)\n"]).database
        #expect(database == .postgresql(uri: address))
        #expect(database?.description == "postgresql://…")
    }

    @Test(arguments: [
        ("postgre://u:secret@h/l", "another scheme"), ("host=h password=secret", "with host=…"),
        ("u:secret@h", "neither sqlite: nor postgresql://"), ("", "nothing"), ("sqlite:", "no path"),
        ("sqlite:postgresql://u:secret@h/l", "not an address"), ("sqlite://u:secret@h/l", "not an address"),
    ])
    func `a database that is not understood is not repeated, and the allowed forms are named`(
        text: String, reason: String
    ) throws {
        let files: [(String?, [String: String])] = [
            (nil, ["QUITTANCE_DATABASE": text]), (#"{"database": "\#(text)"}"#, [:]),
        ]
        for (file, variables) in files {
            let error = try #require(throws: ConfigurationError.self) { try Self.read(file, variables) }
            #expect(error.message.contains("Expected sqlite:PATH or postgresql://USER@HOST/DATABASE."), "\(error)")
            #expect(error.message.contains(reason) && !error.message.contains("secret"), "\(error)")
        }
    }

    @Test func `no other setting repeats a value that may have a password`() throws {
        for setting in ["QUITTANCE_PORT", "QUITTANCE_APP_STORE_SERVER", "QUITTANCE_LOG_LEVEL"] {
            let error = try #require(throws: ConfigurationError.self) {
                try Self.read(nil, [setting: "https://u:secret@h"])
            }
            #expect(error.message.hasPrefix("\(setting): Expected ") && !error.message.contains("secret"), "\(error)")
        }
    }

    /// As Kubernetes makes them for services called quittance, quittance-health and quittance-db.
    private static let ofServices = [
        "QUITTANCE_SERVICE_HOST": "10.0.0.1", "QUITTANCE_SERVICE_PORT": "8080", "QUITTANCE_SERVICE_PORT_HTTP": "8080",
        "QUITTANCE_PORT": "tcp://10.0.0.1:8080", "QUITTANCE_PORT_8080_TCP": "tcp://10.0.0.1:8080",
        "QUITTANCE_PORT_8080_TCP_PROTO": "tcp", "QUITTANCE_PORT_8080_TCP_PORT": "8080",
        "QUITTANCE_PORT_8080_TCP_ADDR": "10.0.0.1", "QUITTANCE_HEALTH_PORT": "udp://[fd00::1]:9090",
        "QUITTANCE_HEALTH_PORT_9090_UDP_ADDR": "fd00::1", "QUITTANCE_DB_SERVICE_HOST": "fd00::2",
    ]

    @Test func `variables that Kubernetes makes for services are passed over, and named`() throws {
        let variables = Self.ofServices.merging(["QUITTANCE_CLAIM_POLICY": "keep"]) { $1 }
        let read = try Self.read(#"{"port": 3}"#, variables)
        #expect(read.passedOver == Self.ofServices.keys.sorted())
        #expect((read.port, read.healthPort, read.claimPolicy) == (3, nil, .keep))
    }

    @Test(arguments: [
        ("QUITTANCE_PORT", "8080 "), ("QUITTANCE_PORT", "tcp://"), ("QUITTANCE_PORT", "http://10.0.0.1:8080"),
        ("QUITTANCE_PORT", "tcp://10.0.0.1"), ("QUITTANCE_SERVICE_HOST", "notes"), ("QUITTANCE_SERVICE_PORT", "x"),
        ("QUITTANCE_PORT_8080", "8080"), ("QUITTANCE_PORT_8080_TCP_ADDR", "x"), ("QUITTANCE_PORT_X_TCP_PORT", "8080"),
        ("QUITTANCE_PORT_8080_TCP_PORT", "8081"), ("QUITTANCE_PORTS", "tcp://10.0.0.1:8080"),
        ("QUITTANCE_HOST", "10.0.0.1"), ("QUITTANCE_DATABASE", "tcp://10.0.0.1:8080"),
    ])
    func `a variable that only resembles those of Kubernetes is refused`(name: String, value: String) {
        let error = #expect(throws: ConfigurationError.self) { try Self.read(nil, [name: value]) }
        #expect(error?.message.hasPrefix("\(name): ") == true)
    }

    @Test func `a file may begin with a byte-order mark, and lines are counted as without`() throws {
        let mark: [UInt8] = [0xef, 0xbb, 0xbf]
        #expect(try ServerConfiguration(file: mark + Array(#"{"port": 3}"#.utf8), variables: [:]).port == 3)
        let error = #expect(throws: ConfigurationError.self) {
            try ServerConfiguration(file: mark + Array("{\n\"prot\": 3}".utf8), variables: [:])
        }
        #expect(error?.line == 2)
        #expect(throws: ConfigurationError.self) {
            try ServerConfiguration(file: mark + mark + Array("{}".utf8), variables: [:])
        }
    }

    @Test func `a setting has the name by which the operator gave it`() throws {
        let read = try Self.read(#"{"port": 8080, "healthPort": 1}"#, ["QUITTANCE_HEALTH_PORT": "8080"])
        let names = ["port", "healthPort", "hostname"].map(read.givenName)
        #expect(names == ["port", "QUITTANCE_HEALTH_PORT", "hostname"])
        let error = #expect(throws: ConfigurationError.self) { try read.requireDifferentAddresses() }
        #expect(
            error?.message == """
                port and QUITTANCE_HEALTH_PORT are both 127.0.0.1:8080: choose a different QUITTANCE_HEALTH_PORT.
                """)
    }

    @Test(arguments: [
        ("com.example.notes", true), ("x", true), ("com.d--buzz.gag-plus.ios.001", true), ("COM.Example", true),
        (String(repeating: "a", count: 255), true), (String(repeating: "a", count: 256), false), ("", false),
        ("com.example.*", false), ("com example", false), ("com.example\n", false), ("com_example", false),
        ("cöm", false),
        ("com.example\u{0}", false), ("sqlite:x", false),
    ])
    func `a bundle id that no app can have is refused`(id: String, isValid: Bool) throws {
        #expect(TextForm.bundleID.allows(id) == isValid)
        let json = JSONValue.object([.init("apps", .array([.object([.init("bundleId", .string(id))])]))])
        #expect(((try? Self.read(json.compactText)) != nil) == isValid)
    }

    @Test(arguments: [
        ("\"errors\"", RequestLogPolicy.errors), ("100", .oneIn(100)), ("\"2\"", .oneIn(2)), ("\"off\"", .off),
    ])
    func `requestLog is a word, or a number n that logs one request in n`(
        value: String, policy: RequestLogPolicy
    ) throws {
        #expect(try Self.read("{\"requestLog\": \(value), \"logFormat\": \"json\"}").requestLog == policy)
    }

    @Test func `the bounds on connections and requests can be configured`() throws {
        let text = """
            {"healthPort": 9090, "healthHostname": "::1", "consolePort": 9091, "maxConnections": 50, "maxConnectionsPerPeer": 5, "trustedProxies": ["10.0.0.0/8", "::2"],
             "bodyBytesInFlight": 33554432, "idleTimeoutSeconds": 1, "bodyTimeoutSeconds": 2, "requestTimeoutSeconds": 3}
            """
        let read = try Self.read(text, ["QUITTANCE_WRITE_TIMEOUT_SECONDS": "4"])
        let bounds = read.bounds
        #expect(read.healthPort == 9090 && read.healthHostname == "::1" && read.consolePort == 9091)
        #expect((bounds.connections, bounds.connectionsPerPeer, bounds.bodyBytesInFlight) == (50, 5, 32 << 20))
        #expect(bounds.trustedProxies == ["10.0.0.0/8", "::2"].compactMap { IPNetwork($0) })
        #expect([bounds.idleTimeout, bounds.bodyTimeout] == [.seconds(1), .seconds(2)])
        #expect([bounds.requestTimeout, bounds.writeTimeout] == [.seconds(3), .seconds(4)])
    }

    @Test func `the secret file and the networks of webhooks can be configured`() throws {
        let text = #"{"webhookSecretFile": "/etc/q/secret", "webhookNetworks": ["10.1.2.0/24", "::1"]}"#
        let read = try Self.read(text)
        #expect(read.webhookSecretFile == "/etc/q/secret")
        #expect(read.webhookNetworks == ["10.1.2.0/24", "::1"].compactMap { IPNetwork($0) })
        let variable = try Self.read(text, ["QUITTANCE_WEBHOOK_NETWORKS": "192.168.0.0/16"])
        #expect(variable.webhookNetworks == ["192.168.0.0/16"].compactMap { IPNetwork($0) })
        #expect(try Self.read("{}").webhookSecretFile == nil && Self.read("{}").webhookNetworks.isEmpty)
        for networks in [#"["10.0.0.0/33"]"#, #""localhost""#, "[]", #"["10.0.0.0/8", "x"]"#] {
            let error = #expect(throws: ConfigurationError.self) {
                try Self.read("{\n\"webhookNetworks\": \(networks)}")
            }
            #expect(error?.line == 2 && error?.message.contains("blocks such as 10.0.0.0/8") == true, "\(networks)")
        }
    }

    @Test(arguments: [
        (8080, 8080, nil, false), (8080, 8080, "127.0.0.1", false), (8080, 8080, "127.0.0.2", true),
        (8080, 8081, nil, true), (0, 0, nil, true), (8080, nil, nil, true),
    ])
    func `two listeners need two addresses`(port: Int, healthPort: Int?, healthHostname: String?, isValid: Bool) {
        var configuration = ServerConfiguration()
        (configuration.port, configuration.healthPort) = (port, healthPort)
        configuration.healthHostname = healthHostname
        var message: String?
        do { try configuration.requireDifferentAddresses() } catch { message = error.message }
        let refusal = "port and healthPort are both 127.0.0.1:8080: choose a different healthPort."
        #expect(message == (isValid ? nil : refusal))
    }

    @Test(arguments: [
        (8080, nil, nil, "port"), (8081, nil, nil, nil), (8081, 8081, nil, "healthPort"), (8081, 8081, "::1", nil),
        (0, 0, nil, nil),
    ])
    func `the console needs an address of its own`(
        consolePort: Int, healthPort: Int?, healthHostname: String?, other: String?
    ) {
        var configuration = ServerConfiguration()
        (configuration.consolePort, configuration.healthPort) = (consolePort, healthPort)
        configuration.healthHostname = healthHostname
        var message: String?
        do { try configuration.requireDifferentAddresses() } catch { message = error.message }
        let address = "127.0.0.1:\(consolePort)"
        #expect(message == other.map { "\($0) and consolePort are both \(address): choose a different consolePort." })
    }

    @Test func `every setting is documented, with its variable`() throws {
        let text = try Project.text("docs/configuration.md")
        for setting in ServerConfiguration.settings {
            #expect(text.contains("| `\(setting.name)` | `\(setting.variable)` |"), "\(setting.name)")
        }
        for name in [
            "bundleId", "appAppleId", "sharedSecret", "staleLeewaySeconds", "products", "refusedPurchases",
            "customerProof", "inAppPurchaseKey", "retention", "clientOffers", "appPurchase",
        ] {
            #expect(text.contains("| `\(name)` |"), "\(name)")
        }
    }
}
