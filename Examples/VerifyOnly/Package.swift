// swift-tools-version:6.1
// SPDX-License-Identifier: Apache-2.0

import PackageDescription

// `traits: []` leaves out the server and the SQLite storage: only what verification needs is downloaded and built.
// In your own package, name the repository's URL instead of `path`.
let package = Package(
    name: "verify-only",
    platforms: [.macOS(.v15)],
    dependencies: [.package(name: "quittance", path: "../..", traits: [])],
    targets: [
        .executableTarget(
            name: "verify-only",
            dependencies: [
                .product(name: "AppStoreModel", package: "quittance"),
                .product(name: "AppStoreTrust", package: "quittance"),
                .product(name: "PurchaseLedger", package: "quittance"),
            ]
        )
    ],
    swiftLanguageModes: [.v6]
)
