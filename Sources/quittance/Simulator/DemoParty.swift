// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import Foundation
import Logging
import PurchaseLedger
import PurchaseServer
import ServiceLifecycle
import SimulatorServer
import Synchronization
import UnixSignals

/// A simulated App Store, a server with its time, and a guide that shows both to people: three services that end
/// together.
struct DemoParty: Sendable {
    let simulator: Simulator
    let simulatorServer: SimulatorServer
    /// The customer's name.
    let customer: String
    /// The folder of all files.
    let folder: String
    let isTemporary: Bool
    /// The server's port; 0 takes any free port.
    let port: Int
    /// The port of the server's console; 0 takes any free port.
    let consolePort: Int
    let logger: Logger
    /// Called if a second signal ends the process at once.
    let removeFiles: @Sendable () -> Void

    /// Runs the services until the process receives SIGTERM or SIGINT, or SIGHUP because its terminal is closed.
    ///
    /// - Throws: `SimulatorListeningError` or `ListeningError` if a port cannot be used; ``DemoFailure``.
    func run() async throws {
        let (storePorts, store) = AsyncStream<[SimulatorListener: Int]>.makeStream()
        let (guides, guide) = AsyncStream<DemoGuide>.makeStream()
        // A service group stops its services in reverse order, so each service stops before the services that it needs.
        let services: [any Service] = [
            DemoService {
                defer { store.finish() }
                var simulatorServer = simulatorServer
                simulatorServer.endsBySignal = false
                try await simulatorServer.run { store.yield($0) }
            },
            DemoService {
                defer { guide.finish() }
                // Without ports, the simulator has ended and reports the reason.
                guard let ports = await storePorts.first(where: { _ in true }) else { return }
                try await serve(beside: ports) { guide.yield($0) }
            },
            DemoService {
                guard let guide = await guides.first(where: { _ in true }) else { return }
                do {
                    try await cancelWhenGracefulShutdown { try await guide.show() }
                } catch {
                    guard Task.isShuttingDownGracefully else { throw error }
                }
                try await gracefulShutdown()
            },
        ]
        let configuration = ServiceGroupConfiguration(
            services: services.map {
                .init(
                    service: $0, successTerminationBehavior: .gracefullyShutdownGroup,
                    failureTerminationBehavior: .gracefullyShutdownGroup)
            },
            gracefulShutdownSignals: [.sigterm, .sigint, .sighup], logger: logger)
        try await ServiceGroup(configuration: configuration).run()
    }

    /// Runs the server.
    ///
    /// - Parameter onListening: Called with the guide once the server listens.
    private func serve(
        beside ports: [SimulatorListener: Int], onListening: @escaping @Sendable (DemoGuide) -> Void
    ) async throws {
        let composition = try composition(beside: ports)
        let app = try composition.configuration.bundleId(nil)
        try await composition.run(.serving, logger) { service, composition in
            let now = composition.now()
            try await revokeKeys(service.ledger, at: now)
            try await addCustomer(to: service.ledger, of: app, at: now)
            let key = try await newKey(.server, service.ledger, of: app, at: now)
            let supportKey = try await newKey(.support, service.ledger, of: app, at: now)
            var server = composition.server(service, logger)
            server.endsBySignal = false
            let found = Mutex<[ServerApplication.Listener: Int]>([:])
            try await server.run(hostname: "127.0.0.1", port: port, consolePort: consolePort) { listener, port in
                let found = found.withLock { found in
                    found[listener] = port
                    return found
                }
                guard let server = found[.requests], let console = found[.console] else { return }
                ServerSignals.handle(onHangup: {}, beforeExit: removeFiles)
                onListening(
                    DemoGuide(
                        customer: customer, control: ports[.control] ?? 0, server: server, console: console, key: key,
                        supportKey: supportKey, app: app, speed: simulator.clock.speed,
                        folder: isTemporary ? nil : folder))
            }
        }
    }

    /// Revokes the keys of earlier demos in this folder, because terminals have shown them.
    private func revokeKeys(_ ledger: Ledger, at now: Timestamp) async throws {
        for var key in try await ledger.apiKeys().items where key.name == "demo" && key.revokedAt == nil {
            key.revokedAt = now
            try await ledger.put(key)
        }
    }

    /// - Returns: The key's text.
    private func newKey(
        _ role: APIKey.Role, _ ledger: Ledger, of app: String, at now: Timestamp
    ) async throws -> String {
        var random = SystemRandomNumberGenerator()
        let (key, text) = APIKey.make(name: "demo", role: role, bundleId: app, at: now, using: &random)
        try await ledger.put(key)
        return text
    }

    private func composition(beside ports: [SimulatorListener: Int]) throws -> Composition {
        do {
            try FileManager.default.createDirectory(
                atPath: folder, withIntermediateDirectories: !isTemporary, attributes: [.posixPermissions: 0o700])
        } catch {
            throw SimulatorFolderError("\(folder.printable): The folder cannot be made: \(error.localizedDescription)")
        }
        var handout = SimulatorHandout(simulator, hostname: simulatorServer.hostname, ports: ports)
        handout.serverPort = port
        try handout.write(to: folder)
        let file = "\(folder)/\(SimulatorFolder.configurationFile)"
        // The process's environment variables are not read, because they are for a different server.
        var configuration = try ServerConfiguration(file: Input.read(file), variables: [:])
        configuration.file = file
        configuration.requestLog = .errors
        var composition = Composition(configuration: configuration)
        composition.simulatorClock = SimulatorClock(
            configuration.simulatorClock ?? "", now: simulatorServer.now)
        return composition
    }

    /// Adds a customer to the App Store, and to the ledger under the same name. In the ledger, the customer's id is the
    /// account token that the app attaches to purchases, and the name is an alias.
    private func addCustomer(to ledger: Ledger, of app: String, at now: Timestamp) async throws {
        let body = Array("{\"name\":\"\(customer)\"}".utf8)
        let response = await simulatorServer.host.update { $0.control("POST", "/customers", body, at: $1) }
        let answer = try JSONValue(parsing: response.body)
        let account = answer["customer"]?["appAccountToken"]?.string ?? ""
        let scope = LedgerScope(bundleId: app, environment: .production)
        // With the customer's consent, the server also answers consumption requests, which follow refund requests.
        _ = try await ledger.recordConsent(true, of: account, in: scope, at: now)
        _ = try await ledger.addAlias(customer, to: account, in: scope, at: now)
    }
}

/// A service that runs a closure until the closure ends or the service group stops it.
private struct DemoService: Service {
    let body: @Sendable () async throws -> Void

    func run() async throws { try await body() }
}
