// swift-tools-version:6.1
// SPDX-License-Identifier: Apache-2.0

import PackageDescription

// Limits, ManyLines, PostgresLoad and ServerLoad use declarations that are `package` in the library, so they count as part of the package beside them.
// SwiftPM calls that package by its folder's name.
let folder = Context.packageDirectory.split(separator: "/").dropLast().last ?? ""
let packageName = String(folder.lowercased().map { $0.isLetter || $0.isNumber ? $0 : "_" })
let settings: [SwiftSetting] = [.unsafeFlags(["-package-name", packageName])]

// A package of its own, so that users of the library do not download what only measuring needs.
let package = Package(
    name: "QuittanceBenchmarks",
    platforms: [.macOS(.v15)],
    dependencies: [
        .package(name: "quittance", path: ".."),
        .package(url: "https://github.com/apple/swift-asn1", from: "1.7.0"),
        .package(url: "https://github.com/apple/swift-certificates", from: "1.21.0"),
        .package(url: "https://github.com/apple/swift-crypto", from: "4.5.0"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.0"),
        // Without its traits, which replace the allocator: the benchmarks measure the system's.
        .package(url: "https://github.com/ordo-one/benchmark", from: "1.38.1", traits: []),
    ],
    targets: [
        // Its folder must stand in one called Benchmarks: that is how the plugin finds it.
        .executableTarget(
            name: "Verification",
            dependencies: [
                "Allocator",
                "Goals",
                .product(name: "AppStoreModel", package: "quittance"),
                .product(name: "AppStoreSimulator", package: "quittance"),
                .product(name: "AppStoreTrust", package: "quittance"),
                .product(name: "Benchmark", package: "benchmark"),
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "CryptoExtras", package: "swift-crypto"),
                .product(name: "ReceiptCoding", package: "quittance"),
                .product(name: "X509", package: "swift-certificates"),
            ],
            path: "Verification",
            plugins: [.plugin(name: "BenchmarkPlugin", package: "benchmark")]
        ),
        .executableTarget(name: "RatioTable", dependencies: ["Goals"]),
        .executableTarget(
            name: "WorldLoad",
            dependencies: [
                .product(name: "AppStoreModel", package: "quittance"),
                .product(name: "AppStoreSimulator", package: "quittance"),
            ]
        ),
        .executableTarget(
            name: "Limits",
            dependencies: [
                "Allocator",
                .product(name: "AppStoreModel", package: "quittance"),
                .product(name: "AppStoreSimulator", package: "quittance"),
                .product(name: "AppStoreTrust", package: "quittance"),
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "CryptoExtras", package: "swift-crypto"),
                .product(name: "LedgerSQLite", package: "quittance"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "PurchaseLedger", package: "quittance"),
                .product(name: "PurchaseServer", package: "quittance"),
                .product(name: "ReceiptCoding", package: "quittance"),
                .product(name: "SwiftASN1", package: "swift-asn1"),
                .product(name: "X509", package: "swift-certificates"),
            ],
            packageAccess: false, swiftSettings: settings
        ),
        .executableTarget(
            name: "ServerLoad",
            dependencies: [
                "Goals",
                .product(name: "AppStoreModel", package: "quittance"),
                .product(name: "AppStoreSimulator", package: "quittance"),
                .product(name: "AppStoreTrust", package: "quittance"),
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "LedgerSQLite", package: "quittance"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "PurchaseLedger", package: "quittance"),
                .product(name: "PurchaseServer", package: "quittance"),
                .product(name: "X509", package: "swift-certificates"),
            ],
            packageAccess: false, swiftSettings: settings
        ),
        .executableTarget(
            name: "PostgresLoad",
            dependencies: [
                .product(name: "AppStoreModel", package: "quittance"),
                .product(name: "LedgerPostgres", package: "quittance"),
                .product(name: "PurchaseLedger", package: "quittance"),
            ],
            packageAccess: false, swiftSettings: settings
        ),
        .executableTarget(
            name: "ManyLines",
            dependencies: [
                .product(name: "AppStoreModel", package: "quittance"),
                .product(name: "AppStoreSimulator", package: "quittance"),
                .product(name: "AppStoreTrust", package: "quittance"),
            ],
            packageAccess: false, swiftSettings: settings
        ),
        .target(name: "Goals"),
        .target(name: "Allocator"),
    ],
    swiftLanguageModes: [.v6]
)
