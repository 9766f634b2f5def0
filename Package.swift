// swift-tools-version:6.1
// SPDX-License-Identifier: Apache-2.0

import PackageDescription

let settings: [SwiftSetting] = [
    .enableUpcomingFeature("ExistentialAny"),  // SE-0335
    .enableUpcomingFeature("InternalImportsByDefault"),  // SE-0409
    .enableUpcomingFeature("MemberImportVisibility"),  // SE-0444
]

// A package that takes this one with `traits: []` downloads and builds neither a storage nor the server. A machine without
// libpq builds the program with `--traits Server`.
let postgres = TargetDependencyCondition.when(traits: ["PostgreSQL"])
let sqlite = TargetDependencyCondition.when(traits: ["SQLite"])
let server = TargetDependencyCondition.when(traits: ["Server"])

// The products of other packages.
let argumentParser = Target.Dependency.product(
    name: "ArgumentParser", package: "swift-argument-parser", condition: server)
let asn1 = Target.Dependency.product(name: "SwiftASN1", package: "swift-asn1")
let asyncHTTPClient = Target.Dependency.product(
    name: "AsyncHTTPClient", package: "async-http-client", condition: server)
let crypto = Target.Dependency.product(name: "Crypto", package: "swift-crypto")
let cryptoExtras = Target.Dependency.product(name: "CryptoExtras", package: "swift-crypto")
let grdb = Target.Dependency.product(name: "GRDB", package: "GRDB.swift", condition: sqlite)
let grdbSQLite = Target.Dependency.product(name: "GRDBSQLite", package: "GRDB.swift", condition: sqlite)
let httpTypes = Target.Dependency.product(name: "HTTPTypes", package: "swift-http-types", condition: server)
let hummingbird = Target.Dependency.product(name: "Hummingbird", package: "hummingbird", condition: server)
let hummingbirdCore = Target.Dependency.product(name: "HummingbirdCore", package: "hummingbird", condition: server)
let hummingbirdTesting = Target.Dependency.product(name: "HummingbirdTesting", package: "hummingbird")
let logging = Target.Dependency.product(name: "Logging", package: "swift-log", condition: server)
let nioCore = Target.Dependency.product(name: "NIOCore", package: "swift-nio", condition: server)
let nioHTTP1 = Target.Dependency.product(name: "NIOHTTP1", package: "swift-nio", condition: server)
let nioHTTPTypes = Target.Dependency.product(name: "NIOHTTPTypes", package: "swift-nio-extras", condition: server)
let nioPosix = Target.Dependency.product(name: "NIOPosix", package: "swift-nio", condition: server)
let nioSSL = Target.Dependency.product(name: "NIOSSL", package: "swift-nio-ssl", condition: server)
let serviceLifecycle = Target.Dependency.product(
    name: "ServiceLifecycle", package: "swift-service-lifecycle", condition: server)
let unixSignals = Target.Dependency.product(name: "UnixSignals", package: "swift-service-lifecycle", condition: server)
let x509 = Target.Dependency.product(name: "X509", package: "swift-certificates")
let certificates = [crypto, cryptoExtras, asn1, x509]
let network = [
    asyncHTTPClient, httpTypes, hummingbird, hummingbirdCore, logging, nioCore, nioHTTP1, nioPosix,
    serviceLifecycle, unixSignals,
]

let package = Package(
    name: "quittance",
    platforms: [.macOS(.v15), .iOS(.v18), .tvOS(.v18), .watchOS(.v11), .visionOS(.v2)],
    products: [
        .library(name: "AppStoreModel", targets: ["AppStoreModel"]),
        .library(name: "ReceiptCoding", targets: ["ReceiptCoding"]),
        .library(name: "AppStoreTrust", targets: ["AppStoreTrust"]),
        .library(name: "AppStoreAPI", targets: ["AppStoreAPI"]),
        .library(name: "AppStoreSimulator", targets: ["AppStoreSimulator"]),
        .library(name: "PurchaseLedger", targets: ["PurchaseLedger"]),
        .library(name: "PurchaseLedgerTesting", targets: ["PurchaseLedgerTesting"]),
        .library(name: "LedgerPostgres", targets: ["LedgerPostgres"]),
        .library(name: "LedgerSQLite", targets: ["LedgerSQLite"]),
        .library(name: "Reconciliation", targets: ["Reconciliation"]),
        .library(name: "PurchaseServer", targets: ["PurchaseServer"]),
        .library(name: "SimulatorServer", targets: ["SimulatorServer"]),
        .executable(name: "quittance", targets: ["quittance"]),
    ],
    traits: [
        .trait(name: "PostgreSQL", description: "LedgerPostgres in the program, on libpq."),
        .trait(name: "SQLite", description: "LedgerSQLite, on GRDB."),
        .trait(
            name: "Server", description: "PurchaseServer and the program, on Hummingbird.", enabledTraits: ["SQLite"]),
        .default(enabledTraits: ["PostgreSQL", "Server"]),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.0"),
        .package(url: "https://github.com/apple/swift-asn1", from: "1.7.0"),
        .package(url: "https://github.com/apple/swift-certificates", from: "1.21.0"),
        .package(url: "https://github.com/apple/swift-crypto", from: "4.5.0"),
        .package(url: "https://github.com/apple/swift-http-types", from: "1.8.0"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.0"),
        .package(url: "https://github.com/apple/swift-nio", from: "2.101.0"),
        .package(url: "https://github.com/apple/swift-nio-extras", from: "1.35.0"),
        .package(url: "https://github.com/apple/swift-nio-ssl", from: "2.37.0"),
        .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
        .package(url: "https://github.com/hummingbird-project/hummingbird", from: "2.28.0"),
        .package(url: "https://github.com/swift-server/async-http-client", from: "1.37.0"),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
    ],
    targets: [
        .target(name: "AppStoreModel"),
        .target(name: "ReceiptCoding", dependencies: ["AppStoreModel"]),
        .target(name: "AppStoreTrust", dependencies: ["AppStoreModel", "ReceiptCoding"] + certificates),
        .target(name: "PurchaseLedger", dependencies: ["AppStoreModel", "AppStoreTrust", "ReceiptCoding", crypto]),
        .target(name: "PurchaseLedgerTesting", dependencies: ["AppStoreModel", "PurchaseLedger"]),
        .systemLibrary(name: "CZlib", providers: [.apt(["zlib1g-dev"])]),
        .target(name: "DeflateCoding", dependencies: ["CZlib"]),
        .target(
            name: "DocumentPacking",
            dependencies: ["AppStoreModel", "DeflateCoding", "PurchaseLedger", "ReceiptCoding"]),
        .target(name: "InputForms", dependencies: ["AppStoreModel", "DeflateCoding", "ReceiptCoding"]),
        .systemLibrary(name: "CLibPQ", providers: [.apt(["libpq-dev"])]),
        .target(
            name: "LedgerPostgres",
            dependencies: [
                "AppStoreModel", .target(name: "CLibPQ", condition: postgres), "DocumentPacking", "PurchaseLedger",
            ]),
        .target(
            name: "LedgerSQLite",
            dependencies: ["AppStoreModel", "DocumentPacking", "PurchaseLedger", grdb, grdbSQLite]),
        .target(name: "AppStoreAPI", dependencies: ["AppStoreModel", crypto]),
        .target(
            name: "AppStoreSimulator",
            dependencies: ["AppStoreAPI", "AppStoreModel", "ReceiptCoding"] + certificates),
        .target(
            name: "Reconciliation",
            dependencies: [
                "AppStoreAPI", "AppStoreModel", "AppStoreTrust", "InputForms", "PurchaseLedger", "ReceiptCoding",
            ]),
        .target(
            name: "LedgerSimulation",
            dependencies: [
                "AppStoreAPI", "AppStoreModel", "AppStoreSimulator", "AppStoreTrust", "PurchaseLedger",
                "PurchaseLedgerTesting", "Reconciliation",
            ]),
        .target(name: "Listening", dependencies: [logging, nioCore, serviceLifecycle]),
        .target(name: "OutgoingHTTP", dependencies: [asyncHTTPClient, nioCore, nioHTTP1, nioPosix, nioSSL]),
        .target(name: "CConsole", exclude: ["files"]),
        .target(name: "COpenAPI"),
        .target(
            name: "PurchaseServer",
            dependencies: [
                "AppStoreAPI", "AppStoreModel", "AppStoreTrust", "CConsole", "COpenAPI", "InputForms",
                "Listening", "OutgoingHTTP", "PurchaseLedger", "ReceiptCoding", "Reconciliation", crypto, nioHTTPTypes,
                nioSSL,
            ] + network),
        .target(
            name: "SimulatorServer",
            dependencies: [
                "AppStoreModel", "AppStoreSimulator", "Listening", "OutgoingHTTP", crypto, nioHTTPTypes,
            ] + network),
        .target(name: "CBuildCommit"),
        .executableTarget(
            name: "quittance",
            dependencies: [
                "AppStoreAPI", "AppStoreModel", "AppStoreSimulator", "AppStoreTrust", "CBuildCommit", "InputForms",
                .target(name: "LedgerPostgres", condition: postgres), "LedgerSQLite", "Listening", "OutgoingHTTP",
                "PurchaseLedger", "PurchaseServer", "ReceiptCoding", "Reconciliation", "SimulatorServer",
                argumentParser, asyncHTTPClient, logging, nioCore, nioHTTP1, serviceLifecycle, unixSignals,
            ]),
        .target(name: "TestData", path: "Tests/TestData"),
        .target(name: "TestPostgres", dependencies: ["TestProcess"], path: "Tests/TestPostgres"),
        .target(name: "TestProcess", path: "Tests/TestProcess"),
        .target(
            name: "TestWorld",
            dependencies: [
                "AppStoreModel", "AppStoreSimulator", "AppStoreTrust", "DeflateCoding", "PurchaseLedger",
                "ReceiptCoding",
            ],
            path: "Tests/TestWorld"),
        .target(
            name: "HostileVectors",
            dependencies: ["AppStoreModel", "AppStoreSimulator", "AppStoreTrust", "ReceiptCoding"] + certificates,
            path: "Tests/HostileVectors"),
        .executableTarget(name: "make-vectors", dependencies: ["HostileVectors"], path: "Tests/MakeVectors"),
        .executableTarget(
            name: "make-signing-fixture",
            dependencies: ["AppStoreModel", "AppStoreSimulator"],
            path: "Tests/MakeSigningFixture"),
        .executableTarget(
            name: "simulate-check", dependencies: ["LedgerSQLite", "LedgerSimulation", argumentParser],
            path: "Tests/SimulateCheck"),
        .testTarget(name: "AppExampleTests", dependencies: ["TestData"], path: "Examples/App"),
        .testTarget(
            name: "ArticleTests",
            dependencies: [
                "AppStoreAPI", "AppStoreModel", "AppStoreSimulator", "AppStoreTrust", "LedgerSQLite", "PurchaseLedger",
                "PurchaseLedgerTesting", "PurchaseServer", "ReceiptCoding", "Reconciliation", "TestWorld",
            ]),
        .testTarget(name: "AppStoreModelTests", dependencies: ["AppStoreModel", "AppStoreSimulator", "TestData"]),
        .testTarget(
            name: "ReceiptCodingTests",
            dependencies: ["AppStoreModel", "AppStoreSimulator", "ReceiptCoding", "TestData"]),
        .testTarget(
            name: "InputFormsTests",
            dependencies: [
                "AppStoreModel", "AppStoreSimulator", "InputForms", "ReceiptCoding", "TestData", "TestWorld",
            ]),
        .testTarget(
            name: "AppStoreTrustTests",
            dependencies: [
                "AppStoreModel", "AppStoreSimulator", "AppStoreTrust", "HostileVectors", "ReceiptCoding", "TestData",
                "TestProcess", "TestWorld",
            ] + certificates),
        .testTarget(
            name: "AppStoreAPITests",
            dependencies: [
                "AppStoreAPI", "AppStoreModel", "AppStoreSimulator", "PurchaseServer", "TestData", "TestProcess",
                crypto,
            ]),
        .testTarget(
            name: "AppStoreSimulatorTests",
            dependencies: [
                "AppStoreModel", "AppStoreSimulator", "AppStoreTrust", "PurchaseLedger", "ReceiptCoding", "TestData",
                "TestWorld", crypto, asn1, x509,
            ]),
        .testTarget(
            name: "PurchaseLedgerTests",
            dependencies: [
                "AppStoreModel", "AppStoreSimulator", "AppStoreTrust", "HostileVectors", "PurchaseLedger",
                "PurchaseLedgerTesting", "ReceiptCoding", "TestData", "TestProcess", "TestWorld",
            ]),
        .testTarget(
            name: "LedgerPostgresTests",
            dependencies: [
                "AppStoreModel", "AppStoreSimulator", "AppStoreTrust", "DocumentPacking", "LedgerPostgres",
                "LedgerSQLite", "LedgerSimulation", "PurchaseLedger", "PurchaseLedgerTesting", "TestData",
                "TestPostgres", "TestProcess", "TestWorld", grdb,
            ]),
        .testTarget(
            name: "LedgerSQLiteTests",
            dependencies: [
                "AppStoreModel", "AppStoreSimulator", "AppStoreTrust", "LedgerSQLite", "PurchaseLedger",
                "PurchaseLedgerTesting", "ReceiptCoding", "TestData", "TestProcess", "TestWorld", grdb,
            ]),
        .testTarget(
            name: "ReconciliationTests",
            dependencies: [
                "AppStoreAPI", "AppStoreModel", "AppStoreSimulator", "AppStoreTrust", "LedgerSimulation",
                "PurchaseLedger", "PurchaseLedgerTesting", "ReceiptCoding", "Reconciliation", "TestData", "TestWorld",
            ]),
        .testTarget(
            name: "PurchaseServerTests",
            dependencies: [
                "AppStoreAPI", "AppStoreModel", "AppStoreSimulator", "AppStoreTrust", "LedgerPostgres", "LedgerSQLite",
                "Listening", "PurchaseLedger", "PurchaseLedgerTesting", "PurchaseServer", "ReceiptCoding",
                "Reconciliation",
                "TestData", "TestPostgres", "TestProcess", "TestWorld", crypto, httpTypes, hummingbird,
                hummingbirdTesting, logging, nioCore, nioPosix, serviceLifecycle,
                asn1, x509,
            ]),
        .testTarget(
            name: "SimulatorServerTests",
            dependencies: [
                "AppStoreAPI", "AppStoreModel", "AppStoreSimulator", "AppStoreTrust", "OutgoingHTTP", "PurchaseLedger",
                "PurchaseServer", "ReceiptCoding", "Reconciliation", "SimulatorServer", "TestData", asyncHTTPClient,
                hummingbird, logging, nioCore, nioHTTP1, nioPosix, serviceLifecycle,
            ]),
        .testTarget(
            name: "QuittanceTests",
            dependencies: [
                "AppStoreAPI", "AppStoreModel", "AppStoreSimulator", "AppStoreTrust", "LedgerSQLite", "PurchaseLedger",
                "PurchaseLedgerTesting", "PurchaseServer", "Reconciliation", "TestData", "TestPostgres", "TestProcess",
                "TestWorld", "quittance", "simulate-check",
                argumentParser, asyncHTTPClient, grdb, nioCore, nioHTTP1, nioPosix,
            ]),
    ],
    swiftLanguageModes: [.v6]
)

for target in package.targets where target.type != .system {
    target.swiftSettings = settings
    // In release the code under test is optimised. To optimise the tests too took a third of the build's time.
    if target.type == .test { target.swiftSettings?.append(.unsafeFlags(["-Onone"], .when(configuration: .release))) }
}
