// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// A command of the control port: a line of ``all``.
struct ControlRoute: Sendable {
    var method: String
    /// The pattern of the path, with parameters in braces.
    var path: String
    /// The command's effect, for the list of `GET /commands`.
    var summary: String
    /// The members of the body, each with its meaning.
    var members: [(name: String, meaning: String)]
    var act: @Sendable (inout Simulator, ControlArguments, _ wall: Timestamp) throws -> ControlResult

    init(
        _ method: String, _ path: String, _ summary: String, _ members: [(name: String, meaning: String)] = [],
        _ act: @escaping @Sendable (inout Simulator, ControlArguments, _ wall: Timestamp) throws -> ControlResult
    ) {
        self.method = method
        self.path = path
        self.summary = summary
        self.members = members
        self.act = act
        if notifies { self.members.append(("deliver", "whether to answer once the server has; true by default")) }
    }

    /// Whether the command can cause notifications, so that its response can say what became of them.
    var notifies: Bool {
        method == "POST" && (path.hasPrefix("/customers/") || ["/clock/advance", "/notifications/test"].contains(path))
    }
}

/// The result of a command.
enum ControlResult {
    /// The command changed the simulator. The response shows the resulting notifications, and the customer afterwards.
    case done(customer: String?, transactionId: String? = nil)
    /// The command turns the clock to a time.
    case turn(to: Timestamp)
    case json(JSONValue)
    case file([UInt8], type: String)

    static func json(_ value: some Encodable) throws -> ControlResult { .json(try JSONValue(encoding: value)) }
}
