// SPDX-License-Identifier: Apache-2.0

package import HTTPTypes

/// The bounds on the connections, the memory and the time that clients may use. `docs/configuration.md` names the
/// setting of each.
public struct ServerBounds: Sendable {
    /// The most connections open at once. A further one gets the place of the one that has waited longest for a
    /// request, or, if none waits, 503.
    public var connections = 1000
    /// The most connections of one client, which is an IPv4 address or an IPv6 network of 64 bits. ``trustedProxies``
    /// are exempt.
    public var connectionsPerPeer = 100
    /// Proxies, which are exempt from the bounds on one client: their `X-Forwarded-For` names the client. Loopback is
    /// always trusted.
    public var trustedProxies: [IPNetwork] = []
    /// The most bytes of long request bodies and long responses in memory at once.
    public var bodyBytesInFlight = 256 << 20
    /// The longest time from the last response, or from the start of the connection, to the end of a request's head.
    public var idleTimeout = Duration.seconds(30)
    /// The longest time from the end of a request's head to the end of its body: 3 MiB need 10 seconds over 2.5 Mbit/s.
    public var bodyTimeout = Duration.seconds(30)
    /// The longest time from the end of a request's head until the client has received the whole response.
    public var requestTimeout = Duration.seconds(60)
    /// The longest time for which a client may receive no byte of a response that is being sent.
    public var writeTimeout = Duration.seconds(20)

    /// Whether loopback is a trusted proxy; `false` only in tests.
    package var trustsLoopback = true

    /// Creates the default bounds.
    public init() {}

    // MARK: Not configured

    /// The most connections open at once to the port for health: several monitors and load balancers have a few each.
    /// They need file descriptors and hardly any memory, and do not count toward ``connections``.
    package static let healthConnections = 50

    /// The most connections beyond ``connections`` that are told so at once, each for a second at most. Further ones
    /// are closed without an answer.
    package static let refusedConnections = 50

    /// How long shutdown may take: as long as a running request may, and 5 seconds for everything else.
    package var shutdown: Duration { requestTimeout + .seconds(5) }

    /// The most bytes of a short body or response. Short ones do not count toward the budget, nor do as many bytes of a
    /// long body. The thread of the connection handles short bodies itself: its other connections wait some
    /// milliseconds for the worst one. The App Store sends nothing longer, and most receipts are shorter.
    package static let shortBody = 64 << 10

    /// What a row of an answer counts for, in bytes: it has some 1,100, and its facts are in memory while it is made.
    /// So answers of up to 32 rows are short, as most are.
    package static let answerRow = 2 << 10

    /// The most bytes of a request's head. Ordinary ones have less than 1 KB.
    static let head = 16 << 10

    /// The most fields of a request's head.
    static let headFields = 100

    /// The most bytes read from a connection at once: a genuine notification with its head is below 30 KB.
    static let readSize = 32 << 10

    /// The most bytes that frame each byte of a chunked body, besides 16 KiB in all: a chunk of one byte has five.
    static let chunkFraming = 8

    /// The size in bytes of the kernel's buffer for each direction of a connection. The kernel doubles it.
    static let socketBuffer = 128 << 10

    /// The most bytes of an unread body that are discarded after the response, so that the client reads the response
    /// before the connection is reset.
    static let discardedBody = 64 << 10

    /// How long such bytes are discarded.
    static let closingTime = Duration.seconds(1)

    /// The most long bodies that wait for a thread. This many of the worst take 16 seconds on one thread, longer than
    /// clients wait.
    package static let waitingBodies = 64

    /// The seconds after which a client should retry a request that was refused because of overload.
    static let retryAfter: Int64 = 5

    /// The longest customer id, in bytes: longer than any usual identifier.
    package static let customerID = 256
}

extension ServerBounds {
    /// The bounds of the port for health. One monitor may use all of its connections.
    var ofHealth: ServerBounds {
        var bounds = self
        bounds.connections = Self.healthConnections
        bounds.connectionsPerPeer = Self.healthConnections
        return bounds
    }

    /// Whether this address is a trusted proxy's, and so exempt from the bounds on one client.
    func trusts(_ address: IPAddress) -> Bool {
        trustedProxies.contains { $0.contains(address) }
            || trustsLoopback && IPNetwork.loopback.contains { $0.contains(address) }
    }

    /// The client that a request counts for: the peer of the connection, or, behind trusted proxies, the last other
    /// address in `X-Forwarded-For`. `nil` if all are trusted proxies.
    package func client(_ peer: IPAddress?, _ headers: HTTPFields) -> IPAddress? {
        guard let peer else { return nil }
        guard trusts(peer) else { return peer.client }
        let fields = HTTPField.Name("X-Forwarded-For").map { headers[values: $0] } ?? []
        for text in fields.joined(separator: ",").split(separator: ",").reversed() {
            guard let address = IPAddress(forwarded: text.filter { $0 != " " }) else { return nil }
            guard trusts(address) else { return address.client }
        }
        return nil
    }
}
