// swift-tools-version:6.1
// SPDX-License-Identifier: Apache-2.0

import PackageDescription

// A package of its own, because it needs no other: its tests run within a minute, long before the suite is built.
let package = Package(
    name: "tidy-tests",
    platforms: [.macOS(.v15)],
    targets: [
        .target(
            name: "TestProcess", path: "TestProcess",
            swiftSettings: [.enableUpcomingFeature("InternalImportsByDefault")]),
        .testTarget(name: "TidyTests", dependencies: ["TestProcess"], path: "TidyTests"),
    ],
    swiftLanguageModes: [.v6]
)
