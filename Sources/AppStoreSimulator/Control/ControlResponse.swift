// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// What the response to a command reports.
struct CommandReport: Hashable, Sendable {
    /// The numbers of the command's events, and of their notifications. Those of a turn of the clock have no end.
    var events: Range<Int>
    var notifications: Range<Int>
    /// The outbox before the command.
    var mark: Outbox.Mark
    /// The time to which the command turns the clock, if it does.
    var target: Timestamp?
    var customer: String?
    var transactionId: String?
}

/// A response of the control port.
public struct ControlResponse: Hashable, Sendable {
    /// The HTTP status.
    public var status: Int
    /// `Content-Type`.
    public var type: String
    /// The body.
    public var body: [UInt8]
    /// The command that waits for answers to its notifications, if this is not its final response.
    var waiting: CommandReport?

    init(_ status: Int, _ type: String, _ body: [UInt8]) {
        self.status = status
        self.type = type
        self.body = body
    }

    init(_ status: Int = 200, json value: JSONValue) {
        self.init(status, "application/json", Array((value.compactText + "\n").utf8))
    }
}
