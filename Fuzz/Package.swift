// swift-tools-version:6.1
// SPDX-License-Identifier: Apache-2.0

import PackageDescription

// What is `package` is fuzzed too, so these targets count as part of the package beside them: SwiftPM calls that by its
// folder's name.
let folder = Context.packageDirectory.split(separator: "/").dropLast().last ?? ""
let packageName = String(folder.lowercased().map { $0.isLetter || $0.isNumber ? $0 : "_" })
let settings: [SwiftSetting] = [.unsafeFlags(["-package-name", packageName])]

let targets = [
    "FuzzReceipt", "FuzzTransactionReceipt", "FuzzJWS", "FuzzVerifyReceiptRequest", "FuzzNotificationBody",
    "FuzzDateText", "FuzzOCSPResponse",
]
/// Targets that need more of the package, and see what is internal to it.
let inside: [String: [String]] = [
    "FuzzCustomerToken": ["PurchaseServer"], "FuzzStoreKitFile": ["AppStoreSimulator"],
    "FuzzStoredChain": ["PurchaseLedger", "LedgerPostgres"],
]
let underTest: [Target.Dependency] = ["AppStoreModel", "AppStoreTrust", "ReceiptCoding"].map {
    .product(name: $0, package: "quittance")
}

// A separate package, since it needs other build flags: `make fuzz`.
let package = Package(
    name: "QuittanceFuzz",
    platforms: [.macOS(.v15)],
    dependencies: [.package(name: "quittance", path: "..")],
    targets: [
        .target(
            name: "FuzzSupport",
            dependencies: underTest + [.product(name: "AppStoreSimulator", package: "quittance")],
            packageAccess: false, swiftSettings: settings)
    ]
        + (targets + inside.keys.sorted()).map { name in
            .executableTarget(
                name: name,
                dependencies: ["FuzzSupport"] + underTest
                    + (inside[name] ?? []).map { .product(name: $0, package: "quittance") },
                packageAccess: false, swiftSettings: settings)
        },
    swiftLanguageModes: [.v6]
)
