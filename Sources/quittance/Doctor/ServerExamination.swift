// SPDX-License-Identifier: Apache-2.0

// The questions of `quittance doctor` to a running server.

import AppStoreModel
import AsyncHTTPClient
import Foundation
import Listening
import NIOCore
import NIOHTTP1
import OutgoingHTTP
import PurchaseServer

extension Examination {
    private typealias ServerAnswer = (status: Int, version: String?, json: JSONValue)

    /// The timeout of a request: a load balancer rarely waits longer for a health check.
    private static let timeout = Duration.seconds(10)

    /// The maximum size of an answer in bytes: ten times the longest concern.
    private static let answerLimit = 64 << 10

    /// It follows no redirects, as Apple follows none in a circle, and a redirect is a finding.
    private static let client = PlainClient(timeout: TimeAmount(timeout))

    /// - Parameters:
    ///   - address: The address of the server; `nil` for its `healthPort`.
    ///   - publicAddress: The address that App Store Connect has.
    mutating func examineServer(_ address: String?, public publicAddress: String?, _ composition: Composition) async {
        let health = composition.configuration.healthAddress
        var server = address ?? health
        if let asked = server {
            if await examineHealth(of: asked) { await compareConfiguration(health, composition) } else { server = nil }
        } else {
            findings.skip(.server, because: "Pass --server, or set healthPort.")
        }
        guard let publicAddress else { return findings.skip(.server, because: "The public address: pass --public.") }
        // Each of several servers has a last notification of its own.
        if composition.configuration.servers > 1 { server = nil }
        await examinePublicAddress(publicAddress, of: server)
    }

    /// - Returns: Whether a server of ours answers.
    private mutating func examineHealth(of server: String) async -> Bool {
        guard let answer = await ask(server, "/health/ready", .serverSilent) else { return false }
        guard answer.json[answer.status == 200 ? "status" : "error"] != nil, [200, 503].contains(answer.status) else {
            findings.add(.serverSilent, "\(server) answers \(answer.status), and is no server of Quittance.")
            return false
        }
        if answer.json["status"]?.string != "ready" {
            let message = answer.json["error"]?["message"]?.string ?? answer.json["status"]?.string ?? ""
            findings.add(.serverNotReady, "\(server) answers \(answer.status): \(message)")
        }
        if let concern = answer.json["concern"]?.string {
            findings.add(.serverConcern, concern.hasSuffix(".") ? concern : "\(concern).")
        }
        let own = "quittance/\(ServerApplication.version)"
        if let version = answer.version, version.hasPrefix("quittance/"), version != own {
            findings.add(.otherVersion, "The server is \(version), and this program \(own).")
        }
        return true
    }

    private mutating func compareConfiguration(_ health: String?, _ composition: Composition) async {
        guard let health, let digests = composition.configurationDigests else {
            let lack = health == nil ? "healthPort" : "a journal of erasures that this user may read"
            return findings.skip(.server, because: "The configurations are compared only with \(lack).")
        }
        guard let answer = await ask(health, "/health/configuration", .serverSilent) else { return }
        let other = answer.json["digests"]
        let names = Set(digests.keys).union(other?.members?.map(\.name) ?? [])
        let changed = names.filter { other?[$0]?.string != digests[$0] }.sorted()
        guard !changed.isEmpty else { return }
        findings.add(
            .otherConfiguration,
            "Of the configuration examined here, the server has other values: \(changed.joined(separator: ", ")).")
    }

    /// - Parameter server: The server to which the address leads; `nil` for any.
    private mutating func examinePublicAddress(_ address: String, of server: String?) async {
        let route = "/notifications/v2"
        let base = address.hasSuffix(route) ? String(address.dropLast(route.count)) : address
        findings.url = base + route
        guard let answer = await ask(base, route, .publicAddress, body: "{}") else { return }
        guard answer.status == 400, answer.json["error"]?["code"]?.string == "invalidRequest" else {
            return findings.add(
                .publicAddress,
                "\(base)\(route) answers \(answer.status) to an empty notification, and Quittance answers 400.")
        }
        // A proxy need not pass on health checks. A notification may come between two answers.
        guard let server, let first = await lastNotification(of: server),
            let found = await lastNotification(of: base), let last = await lastNotification(of: server),
            found < first || found > last
        else { return }
        findings.add(.publicAddress, "\(base) leads to another server of Quittance, with other notifications.")
    }

    /// - Returns: When the server has accepted its last notification, or 0; `nil` if it does not say.
    private mutating func lastNotification(of server: String) async -> Int64? {
        guard let answer = await ask(server, "/health/ready", nil), answer.status == 200 else { return nil }
        return answer.json["lastNotificationAccepted"].map { $0.integer ?? 0 }
    }

    /// - Parameter kind: The finding if the server does not answer; `nil` for none.
    private mutating func ask(
        _ server: String, _ path: String, _ kind: FindingKind?, body: String? = nil
    ) async -> ServerAnswer? {
        var request = HTTPClientRequest(url: server + path)
        if let body {
            request.method = .POST
            request.body = .bytes(ByteBuffer(string: body))
        }
        do {
            let answer = try await Self.client.answer(to: request, within: Self.timeout, upTo: Self.answerLimit)
            let json = JSONValue(readable: Array(buffer: answer.body)) ?? .null
            return (Int(answer.status.code), answer.headers.first(name: "Server"), json)
        } catch {
            if let kind { findings.add(kind, "\(server)\(path) does not answer: \(reason(of: error)).") }
            return nil
        }
    }
}

extension ServerConfiguration {
    /// The address of `healthPort` on this machine; `nil` without one.
    fileprivate var healthAddress: String? {
        guard let healthPort, healthPort != 0 else { return nil }
        let hostname = healthHostname ?? hostname
        let own = ["0.0.0.0": "127.0.0.1", "::": "::1"][hostname] ?? hostname
        return "http://\(ListeningAddress(hostname: own, port: healthPort))"
    }
}
