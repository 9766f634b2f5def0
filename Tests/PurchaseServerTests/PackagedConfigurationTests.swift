// SPDX-License-Identifier: Apache-2.0

import Foundation
import PurchaseServer
import TestData
import Testing

/// Tests the configurations that the packages bring.
@Suite struct PackagedConfigurationTests {
    private static let packaging = Project.root.appendingPathComponent("packaging")

    private static func text(_ path: String) throws -> String {
        try String(contentsOf: packaging.appendingPathComponent(path), encoding: .utf8)
    }

    @Test func `the service's configuration is accepted, and its ledger is where the service may write`() throws {
        let text = try Self.text("service/quittance.json")
        let configuration = try ServerConfiguration(file: Array(text.utf8), variables: [:])
        #expect(configuration.database == .sqlite(path: "/var/lib/quittance/quittance.sqlite"))
        #expect(configuration.hostname == "127.0.0.1" && configuration.apps.count == 1)
        #expect(try Self.text("service/quittance.service").contains("\nStateDirectory=quittance\n"))
    }

    @Test func `the composition's configuration is accepted, and its database is reached without a network`() throws {
        let lines = try Self.text("compose.yaml").components(separatedBy: "\n")
        let content = try #require(lines.firstIndex { $0.hasSuffix("content: |") })
        let text = lines[(content + 1)...].prefix { $0.hasPrefix("      ") }.joined(separator: "\n")
        let configuration = try ServerConfiguration(file: Array(text.utf8), variables: [:])
        #expect(configuration.database == .postgresql(uri: "postgresql://quittance@/quittance?host=/run/postgresql"))
        #expect(configuration.simulatorClock == "http://simulator:9000" && configuration.apps.count == 1)
    }
}
