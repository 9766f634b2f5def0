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
        .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
        .package(url: "https://github.com/hummingbird-project/hummingbird", from: "2.28.0"),
        .package(url: "https://github.com/swift-server/async-http-client", from: "1.37.0"),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
    ],
    targets: [
        .target(name: "AppStoreModel"),
        .target(name: "ReceiptCoding", dependencies: ["AppStoreModel"]),
        .target(
            name: "AppStoreTrust",
            dependencies: [
                "AppStoreModel",
                "ReceiptCoding",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "CryptoExtras", package: "swift-crypto"),
                .product(name: "SwiftASN1", package: "swift-asn1"),
                .product(name: "X509", package: "swift-certificates"),
            ]
        ),
        .target(
            name: "PurchaseLedger",
            dependencies: [
                "AppStoreModel", "AppStoreTrust", "ReceiptCoding", .product(name: "Crypto", package: "swift-crypto"),
            ]
        ),
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
            ]
        ),
        .target(
            name: "LedgerSQLite",
            dependencies: [
                "AppStoreModel", "DocumentPacking", "PurchaseLedger",
                .product(name: "GRDB", package: "GRDB.swift", condition: sqlite),
                .product(name: "GRDBSQLite", package: "GRDB.swift", condition: sqlite),
            ]
        ),
        .target(
            name: "AppStoreAPI",
            dependencies: ["AppStoreModel", .product(name: "Crypto", package: "swift-crypto")]
        ),
        .target(
            name: "AppStoreSimulator",
            dependencies: [
                "AppStoreAPI",
                "AppStoreModel",
                "ReceiptCoding",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "CryptoExtras", package: "swift-crypto"),
                .product(name: "SwiftASN1", package: "swift-asn1"),
                .product(name: "X509", package: "swift-certificates"),
            ]
        ),
        .target(
            name: "Reconciliation",
            dependencies: [
                "AppStoreAPI", "AppStoreModel", "AppStoreTrust", "InputForms", "PurchaseLedger", "ReceiptCoding",
            ]
        ),
        .target(
            name: "LedgerSimulation",
            dependencies: [
                "AppStoreAPI", "AppStoreModel", "AppStoreSimulator", "AppStoreTrust", "PurchaseLedger",
                "PurchaseLedgerTesting", "Reconciliation",
            ]
        ),
        .target(
            name: "OutgoingHTTP",
            dependencies: [
                .product(name: "AsyncHTTPClient", package: "async-http-client", condition: server),
                .product(name: "NIOCore", package: "swift-nio", condition: server),
                .product(name: "NIOPosix", package: "swift-nio", condition: server),
            ]
        ),
        .target(
            name: "PurchaseServer",
            dependencies: [
                "AppStoreAPI",
                "AppStoreModel",
                "AppStoreTrust",
                "InputForms",
                "OutgoingHTTP",
                "PurchaseLedger",
                "ReceiptCoding",
                "Reconciliation",
                .product(name: "AsyncHTTPClient", package: "async-http-client", condition: server),
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "HTTPTypes", package: "swift-http-types", condition: server),
                .product(name: "Hummingbird", package: "hummingbird", condition: server),
                .product(name: "HummingbirdCore", package: "hummingbird", condition: server),
                .product(name: "Logging", package: "swift-log", condition: server),
                .product(name: "NIOCore", package: "swift-nio", condition: server),
                .product(name: "NIOHTTP1", package: "swift-nio", condition: server),
                .product(name: "NIOHTTPTypes", package: "swift-nio-extras", condition: server),
                .product(name: "NIOPosix", package: "swift-nio", condition: server),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle", condition: server),
                .product(name: "UnixSignals", package: "swift-service-lifecycle", condition: server),
            ]
        ),
        .target(
            name: "SimulatorServer",
            dependencies: [
                "AppStoreModel",
                "AppStoreSimulator",
                "OutgoingHTTP",
                .product(name: "AsyncHTTPClient", package: "async-http-client", condition: server),
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "HTTPTypes", package: "swift-http-types", condition: server),
                .product(name: "Hummingbird", package: "hummingbird", condition: server),
                .product(name: "HummingbirdCore", package: "hummingbird", condition: server),
                .product(name: "Logging", package: "swift-log", condition: server),
                .product(name: "NIOCore", package: "swift-nio", condition: server),
                .product(name: "NIOHTTP1", package: "swift-nio", condition: server),
                .product(name: "NIOPosix", package: "swift-nio", condition: server),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle", condition: server),
                .product(name: "UnixSignals", package: "swift-service-lifecycle", condition: server),
            ]
        ),
        .target(name: "CBuildCommit"),
        .executableTarget(
            name: "quittance",
            dependencies: [
                "AppStoreAPI",
                "AppStoreModel",
                "AppStoreSimulator",
                "AppStoreTrust",
                "CBuildCommit",
                "InputForms",
                .target(name: "LedgerPostgres", condition: postgres),
                "LedgerSQLite",
                "LedgerSimulation",
                "OutgoingHTTP",
                "PurchaseLedger",
                "PurchaseServer",
                "ReceiptCoding",
                "Reconciliation",
                "SimulatorServer",
                .product(name: "ArgumentParser", package: "swift-argument-parser", condition: server),
                .product(name: "AsyncHTTPClient", package: "async-http-client", condition: server),
                .product(name: "Logging", package: "swift-log", condition: server),
                .product(name: "NIOCore", package: "swift-nio", condition: server),
                .product(name: "NIOHTTP1", package: "swift-nio", condition: server),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle", condition: server),
                .product(name: "UnixSignals", package: "swift-service-lifecycle", condition: server),
            ]
        ),
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
            dependencies: [
                "AppStoreModel",
                "AppStoreSimulator",
                "AppStoreTrust",
                "ReceiptCoding",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "CryptoExtras", package: "swift-crypto"),
                .product(name: "SwiftASN1", package: "swift-asn1"),
                .product(name: "X509", package: "swift-certificates"),
            ],
            path: "Tests/HostileVectors"
        ),
        .executableTarget(name: "make-vectors", dependencies: ["HostileVectors"], path: "Tests/MakeVectors"),
        .executableTarget(
            name: "make-signing-fixture", dependencies: ["AppStoreModel", "AppStoreSimulator"],
            path: "Tests/MakeSigningFixture"),
        .testTarget(name: "TidyTests"),
        .testTarget(
            name: "ArticleTests",
            dependencies: [
                "AppStoreAPI", "AppStoreModel", "AppStoreSimulator", "AppStoreTrust", "LedgerSQLite", "PurchaseLedger",
                "PurchaseLedgerTesting", "PurchaseServer", "ReceiptCoding", "Reconciliation", "TestWorld",
            ]
        ),
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
                "AppStoreModel",
                "AppStoreSimulator",
                "AppStoreTrust",
                "HostileVectors",
                "ReceiptCoding",
                "TestData",
                "TestProcess",
                "TestWorld",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "CryptoExtras", package: "swift-crypto"),
                .product(name: "SwiftASN1", package: "swift-asn1"),
                .product(name: "X509", package: "swift-certificates"),
            ]
        ),
        .testTarget(
            name: "AppStoreAPITests",
            dependencies: [
                "AppStoreAPI", "AppStoreModel", "AppStoreSimulator", "PurchaseServer", "TestData", "TestProcess",
                .product(name: "Crypto", package: "swift-crypto"),
            ]
        ),
        .testTarget(
            name: "AppStoreSimulatorTests",
            dependencies: [
                "AppStoreModel", "AppStoreSimulator", "AppStoreTrust", "PurchaseLedger", "ReceiptCoding", "TestData",
                "TestWorld",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "SwiftASN1", package: "swift-asn1"),
                .product(name: "X509", package: "swift-certificates"),
            ]
        ),
        .testTarget(
            name: "PurchaseLedgerTests",
            dependencies: [
                "AppStoreModel", "AppStoreSimulator", "AppStoreTrust", "HostileVectors", "PurchaseLedger",
                "PurchaseLedgerTesting",
                "ReceiptCoding",
                "TestData",
                "TestProcess",
                "TestWorld",
            ]
        ),
        .testTarget(
            name: "LedgerPostgresTests",
            dependencies: [
                "AppStoreModel", "AppStoreSimulator", "AppStoreTrust", "DocumentPacking", "LedgerPostgres",
                "LedgerSQLite", "LedgerSimulation", "PurchaseLedger", "PurchaseLedgerTesting", "TestData",
                "TestPostgres", "TestProcess", "TestWorld", .product(name: "GRDB", package: "GRDB.swift"),
            ]
        ),
        .testTarget(
            name: "LedgerSQLiteTests",
            dependencies: [
                "AppStoreModel",
                "AppStoreSimulator",
                "AppStoreTrust",
                "LedgerSQLite",
                "PurchaseLedger",
                "PurchaseLedgerTesting",
                "ReceiptCoding",
                "TestData",
                "TestProcess",
                "TestWorld",
                .product(name: "GRDB", package: "GRDB.swift"),
            ]
        ),
        .testTarget(
            name: "ReconciliationTests",
            dependencies: [
                "AppStoreAPI", "AppStoreModel", "AppStoreSimulator", "AppStoreTrust", "LedgerSimulation",
                "PurchaseLedger", "PurchaseLedgerTesting", "ReceiptCoding", "Reconciliation", "TestData", "TestWorld",
            ]
        ),
        .testTarget(
            name: "PurchaseServerTests",
            dependencies: [
                "AppStoreAPI",
                "AppStoreModel",
                "AppStoreSimulator",
                "AppStoreTrust",
                "LedgerSQLite",
                "PurchaseLedger",
                "PurchaseLedgerTesting",
                "PurchaseServer",
                "ReceiptCoding",
                "Reconciliation",
                "TestData",
                "TestProcess",
                "TestWorld",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "HTTPTypes", package: "swift-http-types"),
                .product(name: "Hummingbird", package: "hummingbird"),
                .product(name: "HummingbirdTesting", package: "hummingbird"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "SwiftASN1", package: "swift-asn1"),
                .product(name: "X509", package: "swift-certificates"),
            ]
        ),
        .testTarget(
            name: "SimulatorServerTests",
            dependencies: [
                "AppStoreAPI",
                "AppStoreModel",
                "AppStoreSimulator",
                "AppStoreTrust",
                "PurchaseLedger",
                "PurchaseServer",
                "ReceiptCoding", "Reconciliation",
                "SimulatorServer",
                .product(name: "AsyncHTTPClient", package: "async-http-client"),
                .product(name: "Hummingbird", package: "hummingbird"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
            ]
        ),
        .testTarget(
            name: "QuittanceTests",
            dependencies: [
                "AppStoreModel",
                "AppStoreSimulator",
                "AppStoreTrust",
                "LedgerSQLite",
                "PurchaseLedger",
                "TestData",
                "TestPostgres",
                "TestProcess",
                "TestWorld",
                "quittance",
                .product(name: "AsyncHTTPClient", package: "async-http-client"),
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
            ]
        ),
    ],
    swiftLanguageModes: [.v6]
)

for target in package.targets where target.type != .system {
    target.swiftSettings = settings
}
