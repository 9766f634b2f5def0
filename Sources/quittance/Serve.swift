// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import ArgumentParser
import Logging
import PurchaseServer

struct Serve: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Run the server: verifyReceipt, answered locally.",
        discussion: """
            POST /verifyReceipt            Apple's request, answer and status codes, for --environment
            POST /sandbox/verifyReceipt    the same for sandbox receipts
            GET  /health/live              200 while the server runs

            As with Apple's endpoint, any app's receipt is answered: compare bundle_id in the answer. SIGTERM lets running \
            requests finish, then ends the server.
            """)

    @Option(help: "The port to listen on; 0 takes any free one.")
    var port = 8080

    @Option(help: "The address to listen on.")
    var hostname = "127.0.0.1"

    @Option(
        help:
            "What /verifyReceipt stands for: production or sandbox. It answers 21007 or 21008 to the other's receipts.",
        transform: Environment.option)
    var environment: Environment = .production

    func validate() throws {
        guard environment == .production || environment == .sandbox else {
            throw ValidationError("--environment takes production or sandbox: Apple signs for no other.")
        }
        guard (0...65535).contains(port) else { throw ValidationError("--port takes a number from 0 to 65535.") }
    }

    func run() async throws {
        let server = PurchaseServer(environment: environment, now: Clock.now, logger: Logger(label: "quittance"))
        try await server.run(hostname: hostname, port: port) { [hostname] port in
            let address = "http://\(hostname):\(port)"
            // Serving goes on where nobody can be told.
            try? Terminal.print(
                """
                Quittance listens on \(address). A first request, with something that is no receipt:

                  curl -s \(address)/verifyReceipt -d '{"receipt-data": "bm90IGEgcmVjZWlwdA=="}'

                """)
        }
    }
}
