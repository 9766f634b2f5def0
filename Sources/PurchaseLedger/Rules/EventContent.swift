// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// The members of an event's body: all that an event says, except the members by which it is found, see
/// ``LedgerEvent/body``.
///
/// A new member is a property here, a line in ``body`` and, if it follows from the reports of the chain, a line in
/// `init(_:from:to:at:)`. Bodies that were stored before lack it.
public struct EventContent: Hashable, Sendable, Decodable {
    /// When the change took effect: the instant of a change by time, otherwise when the App Store signed the document.
    public var effectiveAt: Timestamp
    /// The transaction that the event is about.
    public var transactionId: String?
    /// The product that the event is about.
    public var productId: String?
    /// Further information, such as the type of a notification.
    public var detail: String?
    /// The state that was published before; `nil` if there was none, or if the customer did not own the chain.
    public var before: ChainState?
    /// The present state; `nil` if the customer no longer owns the chain, or if the event is not about a chain.
    public var after: ChainState?

    public init(
        effectiveAt: Timestamp, transactionId: String? = nil, productId: String? = nil, detail: String? = nil,
        before: ChainState? = nil, after: ChainState? = nil
    ) {
        self.effectiveAt = effectiveAt
        self.transactionId = transactionId
        self.productId = productId
        self.detail = detail
        self.before = before
        self.after = after
    }
}

extension EventContent {
    /// The content of an event about a change of a chain.
    ///
    /// - Parameters:
    ///   - old: The report that was published before; `nil` if none was.
    ///   - new: The report that is published.
    ///   - effectiveAt: When the change took effect.
    init(_ change: ChainReport.Change, from old: ChainReport?, to new: ChainReport, at effectiveAt: Timestamp) {
        self.init(
            effectiveAt: effectiveAt, transactionId: change.transactionId, productId: change.productId,
            before: old?.state, after: new.state)
    }
}

// MARK: - The body

extension EventContent {
    /// Reads a body. Members that this version does not know are passed over.
    ///
    /// - Throws: `JSONError` or `DecodingError` if the body is not a JSON object with these members.
    public init(reading body: [UInt8]) throws {
        self = try JSONValue(parsing: body).decode(Self.self)
    }

    /// The body: a JSON object in one line. It is written member by member, since every intake writes one.
    public var body: [UInt8] {
        var writer = JSONWriter(reservingCapacity: Self.usualSize)
        writer.object { writer in
            writer.member("effectiveAt", number: effectiveAt.milliseconds)
            writer.member("transactionId", transactionId)
            writer.member("productId", productId)
            writer.member("detail", detail)
            writer.name("before")
            writer.state(before)
            writer.name("after")
            writer.state(after)
        }
        return writer.bytes
    }

    /// Most bodies are shorter.
    private static let usualSize = 512
}

extension JSONWriter {
    fileprivate mutating func state(_ state: ChainState?) {
        guard let state else { return null() }
        object { writer in
            writer.member("status", state.status.rawValue)
            writer.name("productId")
            if let productId = state.productId { writer.string(productId) } else { writer.null() }
            writer.name("until")
            if let until = state.until { writer.number(until.milliseconds) } else { writer.null() }
            writer.name("willRenew")
            if let willRenew = state.willRenew { writer.bool(willRenew) } else { writer.null() }
            guard let commitmentWillRenew = state.commitmentWillRenew else { return }
            writer.name("commitmentWillRenew")
            writer.bool(commitmentWillRenew)
        }
    }
}

// MARK: - Events

extension LedgerEvent {
    /// Makes an event of this version's kinds.
    ///
    /// - Parameter content: What the event says; `nil` for a change that took effect when it was recorded.
    public init(
        _ kind: Kind, in scope: LedgerScope, at recordedAt: Timestamp, customer: Customer? = nil,
        chainName: String? = nil, _ content: EventContent? = nil
    ) {
        self.init(
            Open(kind), in: scope, at: recordedAt, customer: customer, chainName: chainName,
            body: (content ?? EventContent(effectiveAt: recordedAt)).body)
    }

    /// What the body says; `nil` if the body cannot be read. Each call reads the body again.
    public var content: EventContent? {
        // Readers of a feed go on without what is damaged; `Ledger.check` says why it cannot be read.
        try? EventContent(reading: body)
    }
}
