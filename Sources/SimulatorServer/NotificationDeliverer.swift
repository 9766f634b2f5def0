// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel
import AppStoreSimulator
import AsyncHTTPClient
import Logging
package import NIOCore
import NIOHTTP1
package import ServiceLifecycle

/// Moves the virtual clock, and sends the notifications that are due, as Apple's servers do: POST, JSON, 200 to 206 is
/// a success.
package struct NotificationDeliverer: Service {
    let host: SimulatorHost
    let urls: [Environment: String]
    let clock: any Clock<Duration>
    let logger: Logger

    private static let client: HTTPClient = {
        var configuration = HTTPClient.Configuration(
            redirectConfiguration: .follow(max: SimulatorBounds.redirects, allowCycles: false))
        // If no server listens there, the attempt fails at once, as one of Apple's would.
        configuration.connectionPool.retryConnectionEstablishment = false
        return HTTPClient(eventLoopGroup: HTTPClient.defaultEventLoopGroup, configuration: configuration)
    }()

    package func run() async throws {
        await cancelWhenGracefulShutdown {
            while !Task.isCancelled {
                await deliver()
                try? await clock.sleep(for: SimulatorBounds.tick)
            }
        }
    }

    private func deliver() async {
        do {
            let (deliveries, atOnce) = try await host.takeDeliveries()
            await send(deliveries, atOnce: atOnce)
        } catch {
            logger.error("Notifications could not be signed", metadata: ["error": .string("\(error)")])
        }
    }

    /// Sends notifications in order, each without waiting for the answer to all before it.
    private func send(_ deliveries: [Outbox.Delivery], atOnce: Int) async {
        await withTaskGroup(of: Void.self) { group in
            for (index, delivery) in deliveries.enumerated() {
                if index >= atOnce { await group.next() }
                guard let url = urls[delivery.environment] else { continue }
                group.addTask { await send(delivery, to: url) }
            }
        }
    }

    private func send(_ delivery: Outbox.Delivery, to url: String) async {
        let result = await Self.post(delivery.body, to: url)
        guard !Task.isCancelled else { return }
        await host.record(result, of: delivery)
        logger.log(
            level: result == .success ? .debug : .info, "Notification sent",
            metadata: ["url": .string(url), "attempt": "\(delivery.attempt)", "result": .string(result.rawValue)])
    }

    /// Sends the body of a notification, and says what the App Store's word for the outcome is.
    package static func post(
        _ body: [UInt8], to url: String, timeout: TimeAmount = SimulatorBounds.delivery
    ) async -> SendAttemptResult {
        var request = HTTPClientRequest(url: url)
        request.method = .POST
        request.headers.add(name: "Content-Type", value: "application/json")
        request.body = .bytes(ByteBuffer(bytes: body))
        var hasHead = false
        do {
            let response = try await client.execute(request, timeout: timeout)
            hasHead = true
            let result = SendAttemptResult(httpStatus: Int(response.status.code))
            // The connection can be used again only after the end of the body.
            for try await _ in response.body {}
            return result
        } catch {
            return SendAttemptResult(error, isSecure: url.hasPrefix("https:"), hasHead: hasHead)
        }
    }
}
