// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel
import AppStoreSimulator
import AsyncHTTPClient
import Logging
import NIOCore
import NIOHTTP1
import OutgoingHTTP
import ServiceLifecycle

/// Moves the virtual clock, and sends the due notifications of an environment as Apple's servers do: POST, with JSON,
/// and a status from 200 to 206 is a success.
package struct NotificationDeliverer: Service, CustomStringConvertible {
    /// The log shows services, and must not show the store.
    package var description: String { "the delivery of notifications in \(environment)" }
    let host: SimulatorHost
    let environment: Environment
    let clock: any Clock<Duration>
    let logger: Logger

    private static let client = PlainClient(
        timeout: TimeAmount(SimulatorBounds.delivery), redirects: SimulatorBounds.redirects)

    /// An event of the delivery loop.
    private enum Event {
        /// It is time to look for due notifications again.
        case tick
        /// The delivery with this ticket was answered, or failed.
        case end(Int)
        /// The delivery with this ticket may be overtaken.
        case late(Int)
    }

    package func run() async throws {
        await cancelWhenGracefulShutdown {
            await withTaskGroup(of: Event.self) { group in
                var queue = DeliveryQueue()
                group.addTask { .tick }
                while let event = await group.next(), !Task.isCancelled {
                    switch event {
                    case .tick: group.addTask { await self.after(SimulatorBounds.tick, .tick) }
                    case .end(let ticket): queue.end(ticket)
                    case .late(let ticket): queue.overtake(ticket)
                    }
                    // An answer may let the clock go on to the next notifications.
                    if queue.isEmpty { queue.add(await due()) }
                    await send(from: &queue, in: &group)
                }
                group.cancelAll()
            }
        }
    }

    private func after(_ duration: Duration, _ event: Event) async -> Event {
        // A cancelled sleep needs no handling, because the loop checks for cancellation.
        try? await clock.sleep(for: duration)
        return event
    }

    private func due() async -> [Outbox.Delivery] {
        do {
            return try await host.update { try $0.takeDeliveries(in: environment, at: $1) }
        } catch {
            logger.error("Notifications could not be signed", metadata: ["error": .string("\(error)")])
            return []
        }
    }

    /// Sends all notifications that the queue permits now.
    private func send(from queue: inout DeliveryQueue, in group: inout TaskGroup<Event>) async {
        guard !queue.isEmpty else { return }
        let (url, keepsOrder) = await host.target(of: environment)
        while let (ticket, delivery) = queue.next(keepsOrder: keepsOrder) {
            group.addTask {
                await send(delivery, to: url)
                return .end(ticket)
            }
            if keepsOrder { group.addTask { await self.after(SimulatorBounds.orderTimeout, .late(ticket)) } }
        }
    }

    private func send(_ delivery: Outbox.Delivery, to url: String?) async {
        var result: SendAttemptResult?
        if let url { result = await Self.post(delivery.body, to: url) }
        guard !Task.isCancelled else { return }
        do {
            try await host.update { [result] in try $0.record(result, of: delivery, at: $1) }
        } catch {
            logger.error("Notifications could not be signed", metadata: ["error": .string("\(error)")])
        }
        guard let url, let result else { return }
        logger.log(
            level: result == .success ? .debug : .info, "Notification sent",
            metadata: ["url": .string(url), "attempt": "\(delivery.attempt)", "result": .string(result.rawValue)])
    }

    /// Sends the body of a notification, and returns the result that the App Store records for the outcome.
    package static func post(
        _ body: [UInt8], to url: String, timeout: Duration = SimulatorBounds.delivery
    ) async -> SendAttemptResult {
        var request = HTTPClientRequest(url: url)
        request.method = .POST
        request.headers.add(name: "Content-Type", value: "application/json")
        request.body = .bytes(ByteBuffer(bytes: body))
        do {
            let answer = try await client.answer(to: request, within: timeout, upTo: SimulatorBounds.answer)
            return SendAttemptResult(httpStatus: Int(answer.status.code))
        } catch let error as BrokenBody {
            return SendAttemptResult(error.reason, isSecure: url.hasPrefix("https:"), hasHead: true)
        } catch {
            return SendAttemptResult(error, isSecure: url.hasPrefix("https:"), hasHead: false)
        }
    }
}
