// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel
import AppStoreTrust
package import HTTPTypes
import PurchaseLedger

/// What a backend and an operator may do: a route under `/v1`, a command with its help, and a row of `docs/api.md`.
/// All follow from one declaration.
package struct Operation: Sendable {
    package let method: HTTPRequest.Method
    /// The path, with the name of a field in braces for each part that is a field.
    package let path: String
    /// The purpose, as a predicate whose subject is the route, such as `returns a transaction`.
    package let summary: String
    /// The words of the command, such as `grants make`; empty if other commands do the same.
    package let command: String
    /// What the help says besides the fields: sentences, and indented examples.
    package let notes: String
    package let roles: Roles
    /// Whether its changes are on the audit list. Those of apps are submissions, not acts of the operator.
    package let isAudited: Bool
    /// The fields of its own and, if its changes are on the audit list, who asks for them and why.
    package let fields: [Field]
    /// The greatest length of a body in bytes; `nil` if a body has no members.
    package let bodyLimit: Int?
    package let statuses: [HTTPResponse.Status]
    /// The type of the bodies of successful answers.
    package let answer: any (Encodable & Sendable).Type
    package let errors: Set<ErrorCode>
    /// The answer for people: lines. `nil` if they too read the JSON.
    package let text: (@Sendable (JSONValue) -> String)?
    /// What people also read, but no script: a command prints it as an error.
    package let remark: (@Sendable (JSONValue) -> String)?
    /// Whether a command that has this answer failed all the same.
    package let isFailure: @Sendable (JSONValue) -> Bool
    /// Whether the body has any members, which the operation reads itself.
    package let readsBody: Bool
    /// Whether unknown members of the body are ignored, because apps in the store send them.
    private let isOpen: Bool
    /// What the refusal of a body that is no JSON object says besides.
    private let hint: (@Sendable (_ body: [UInt8]) -> String?)?
    /// The subject of the error message if `perform` returns `nil`.
    private let unknown: String?
    /// The question before a command that cannot be undone.
    private let question: (@Sendable (AuthenticatedRequest) async throws -> String)?
    private let perform: @Sendable (AuthenticatedRequest) async throws -> Reply?

    /// Whether it records documents or asks the App Store, and so needs all parts of a server.
    package var needsServer: Bool { errors.contains(.otherRoots) }

    /// Whether a server of ours may have given a successful answer.
    package func isAnswer(_ json: JSONValue, status: Int) -> Bool {
        let isWhole = member.map { json[$0] ?? .null != .null } ?? (json.members?.isEmpty == false)
        return isWhole && statuses.contains { $0.code == status }
    }

    /// A member of each successful answer; `nil` if a command prints the answer as it is.
    private var member: String? {
        let types: KeyValuePairs<String, [any Encodable.Type]> = [
            "id": [CustomerBody.self, GrantBody.self, ConsentBody.self, WebhookBody.self],
            "items": [GrantListBody.self, CustomerListBody.self, EventPageBody.self, SupportListBody.self],
            "items": [WebhookListBody.self, WebhookAttemptListBody.self, WebhookTestBody.self, AuditListBody.self],
            "originalTransactionId": [CorrectedPurchaseBody.self], "isActive": [EntitlementCheckBody.self],
            "attributes": [AttributesBody.self], "secret": [WebhookSecretBody.self],
            "deleted": [DeletionBody.self], "removed": [WebhookRemovalBody.self],
        ]
        return types.first { $0.value.contains { $0 == answer } }?.key
    }

    /// The word of the method.
    package var verb: String { method.rawValue }

    package var isRead: Bool { method == .get }

    /// The name of the operation, such as `makeGrant`.
    package var name: String {
        let type = Self.all.first { $0.operation.method == method && $0.operation.path == path }
        return type.map { "\($0)".prefix(1).lowercased() + "\($0)".dropFirst() } ?? ""
    }

    /// Whether a person must confirm the command.
    package var isConfirmed: Bool { question != nil }

    /// The question before the command; `nil` if the command asks none.
    func question(_ request: AuthenticatedRequest) async throws -> String? { try await question?(request) }

    /// Answers an authenticated request.
    func reply(to request: AuthenticatedRequest) async throws -> Reply {
        let request = request.noted(as: self)
        var reply: Reply?
        // The body of a DELETE must have no members: nobody would read them.
        if let limit = bodyLimit ?? (isAudited ? Field.auditLength : nil) {
            reply = try await request.withBody(upTo: limit) { request, bytes in
                try await perform(request.adding(bytes, readsBody ? nil : fields, isOpen: isOpen, hint))
            }
        } else {
            reply = try await perform(request)
        }
        if let later = reply?.later { reply = try await later() }
        guard let reply else { throw Refusal.notFound(unknown ?? "It") }
        return reply
    }
}

extension Operation {
    /// - Parameters:
    ///   - bodyLimit: May be `nil` for a change whose members are few and short.
    ///   - changes: Whether it changes anything, unless it is a GET.
    ///   - unknown: The subject of the error message for status 404, which is the answer if `perform` returns `nil`.
    ///   - question: Asks before the command does what cannot be undone.
    init<Body: Encodable & Sendable>(
        _ method: HTTPRequest.Method, _ path: String, _ summary: String, command: String = "", notes: String = "",
        roles: Roles = .backends, _ fields: [Field], upTo bodyLimit: Int? = nil, changes: Bool = true,
        readsBody: Bool = false, isOpen: Bool = false, hint: (@Sendable (_ body: [UInt8]) -> String?)? = nil,
        statuses: [HTTPResponse.Status] = [.ok],
        unknown: String? = nil, errors: Set<ErrorCode> = [], text: (@Sendable (JSONValue) -> String)? = nil,
        remark: (@Sendable (JSONValue) -> String)? = nil,
        isFailure: @escaping @Sendable (JSONValue) -> Bool = { _ in false },
        question: (@Sendable (AuthenticatedRequest) async throws -> String)? = nil,
        perform: @escaping @Sendable (AuthenticatedRequest) async throws -> Answer<Body>?
    ) {
        let asksAppStore = errors.contains(.appStoreUnavailable)
        let isAudited = changes && method != .get && roles.isDisjoint(with: .apps)
        // Proxies may drop the body of a DELETE.
        let takesAuthorInBody = isAudited && method != .delete
        let fields = fields + (isAudited ? Field.ofAudit(besides: fields, in: takesAuthorInBody ? .body : .query) : [])
        self.init(
            method: method, path: path, summary: summary, command: command, notes: notes, roles: roles,
            isAudited: isAudited, fields: fields,
            bodyLimit: takesAuthorInBody ? max(bodyLimit ?? 0, Field.auditLength) : bodyLimit, statuses: statuses,
            answer: Body.self,
            errors: unknown == nil ? errors : errors.union([.notFound]), text: text, remark: remark,
            isFailure: isFailure, readsBody: readsBody, isOpen: isOpen, hint: hint, unknown: unknown,
            question: question,
            perform: { request in
                do {
                    return try await perform(request)?.reply
                } catch let error as VerificationError where asksAppStore {
                    // Of a document in the App Store's answer: the operation verifies none of the client's.
                    var refusal = Refusal(error)
                    refusal.code = .appStoreUnavailable
                    refusal.status = refusal.code.status
                    throw refusal
                }
            })
    }
}

/// A type for each operation, because the commands of the program are types.
package protocol NamedOperation: Sendable {
    static var operation: Operation { get }
}
