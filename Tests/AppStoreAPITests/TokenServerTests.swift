// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import AppStoreSimulator
import Crypto
import Foundation
import PurchaseServer
import TestData
import Testing

/// Every endpoint over HTTP, to a server that is not ours.
@Suite(.timeLimit(.minutes(60))) struct TokenServerTests {
    @Test(.takesLong)
    func `PyJWT accepts the token of every endpoint's request, and the request is as Apple's page says`()
        async throws
    {
        let store = try StoreKey(seed: 1)
        let publicKey = try P256.Signing.PrivateKey(pemRepresentation: store.pem).publicKey.pemRepresentation
        let key = try ClientFixture.key(of: store)
        try await TokenServer.run(["key.pem": publicKey], ["key.pem", key.id, key.issuer, "com.example"]) { server in
            let host = "http://127.0.0.1:\(server.port)"
            let transport = HTTPAppStoreTransport(
                hosts: [.production: host, .sandbox: host], clock: ContinuousClock())
            for sample in EndpointSample.all { try await sample.call(Self.client(transport, key)) }
            _ = try await transport.answer(to: Self.stop, in: .production, within: .seconds(3600))
            let requests = try JSONValue(parsing: try server.result()).array ?? []
            #expect(requests.count == EndpointSample.all.count)
            for (request, sample) in zip(requests, EndpointSample.all) { Self.compare(request, sample) }
        }
    }

    /// A client without a budget to wait for: each has one of its own.
    private static func client(_ transport: any AppStoreTransport, _ key: InAppPurchaseKey) -> AppStoreClient {
        AppStoreClient(
            bundleId: "com.example", key: key, transport: transport,
            now: { Timestamp(milliseconds: Int64(Date().timeIntervalSince1970 * 1000)) },
            sleep: { try await ContinuousClock().sleep(for: $0) }, random: SeededRandom(seed: 1))
    }

    private static let stop = APIRequest("GET", "/stop")

    private static func compare(_ request: JSONValue, _ sample: EndpointSample) {
        let line = sample.row.line
        #expect(request["line"]?.string == line)
        #expect(request["refusal"] == .null, "\(line): \(request["refusal"]?.string ?? "")")
        #expect(request["accept"]?.string == "application/json")
        #expect(request["agent"]?.string == "quittance")
        let hasBody = !sample.request.body.isEmpty
        let isImage = line.hasPrefix("PUT /inApps/v1/messaging/image/")
        #expect(request["type"]?.string == (hasBody ? isImage ? "image/png" : "application/json" : nil), "\(line)")
        #expect(request["body"]?.string == String(decoding: sample.request.body, as: UTF8.self), "\(line)")
    }
}
