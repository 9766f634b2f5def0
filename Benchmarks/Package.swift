// swift-tools-version:6.1
// SPDX-License-Identifier: Apache-2.0

import PackageDescription

// A package of its own, so that nobody who uses the library downloads what only measuring needs.
let package = Package(
    name: "QuittanceBenchmarks",
    platforms: [.macOS(.v15)],
    dependencies: [
        .package(name: "quittance", path: ".."),
        .package(url: "https://github.com/apple/swift-certificates", from: "1.21.0"),
        .package(url: "https://github.com/apple/swift-crypto", from: "4.5.0"),
    ],
    targets: [
        .executableTarget(
            name: "VerificationBenchmark",
            dependencies: [
                .product(name: "AppStoreModel", package: "quittance"),
                .product(name: "AppStoreTrust", package: "quittance"),
                .product(name: "ReceiptCoding", package: "quittance"),
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "CryptoExtras", package: "swift-crypto"),
                .product(name: "X509", package: "swift-certificates"),
            ])
    ],
    swiftLanguageModes: [.v6]
)
