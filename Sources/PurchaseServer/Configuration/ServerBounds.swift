// SPDX-License-Identifier: Apache-2.0

package import HTTPTypes

/// What clients may take of a server. `docs/configuration.md` names the setting of each.
public struct ServerBounds: Sendable {
    /// Connections that are open at once. More wait until one is closed.
    public var connections = 1000
    /// Connections of one client, of which none is refused to ``trustedProxies``: an IPv4 address, or an IPv6 network of 64
    /// bits.
    public var connectionsPerPeer = 100
    /// Proxies, for which the bounds of one client do not count: their clients are in `X-Forwarded-For`. Loopback is always
    /// trusted.
    public var trustedProxies: [IPNetwork] = []
    /// Bytes of long request bodies and long answers that are in memory at once.
    public var bodyBytesInFlight = 256 << 20
    /// From the last answer, or from the start of the connection, to the end of a request's head.
    public var idleTimeout = Duration.seconds(30)
    /// From the end of a request's head to the end of its body: 3 MiB need 10 seconds over 2.5 Mbit/s.
    public var bodyTimeout = Duration.seconds(30)
    /// From the end of a request's head until the client has received the end of the answer.
    public var requestTimeout = Duration.seconds(60)
    /// How long a client may receive nothing of an answer.
    public var writeTimeout = Duration.seconds(20)

    /// Whether loopback counts as a proxy, as it always does but in tests.
    package var trustsLoopback = true

    public init() {}

    // MARK: Not configured

    /// Connections to the port for health that are open at once: several monitors and load balancers have a few each. They
    /// take files and no memory to speak of, and none of those of ``connections``.
    package static let healthConnections = 50

    /// How long shutdown waits for running requests: as long as one may take, and a little for the rest.
    package var shutdown: Duration { requestTimeout + .seconds(5) }

    /// Bytes of a body or an answer that are not counted: a connection may always have as many. It is the longest body that is
    /// handled on the thread of its connection: all that the App Store sends, and most receipts. The worst of this size takes
    /// some milliseconds, for which the other connections of the thread wait.
    package static let shortBody = 64 << 10

    /// Bytes of a request's head. Ordinary ones have less than 1 KB.
    static let head = 16 << 10

    /// Fields of a request's head.
    static let headFields = 100

    /// Bytes that are read from a connection at once: a genuine notification with its head, which is below 30 KB.
    static let readSize = 32 << 10

    /// Bytes that the kernel keeps of a connection in each direction, of which it makes twice as many.
    static let socketBuffer = 128 << 10

    /// Bytes of a body that are discarded after its answer, and for how long, so that the client reads the answer before the
    /// connection is reset.
    static let discardedBody = 64 << 10
    static let closingTime = Duration.seconds(1)

    /// Long bodies that wait for a thread. As many of the worst take 16 seconds on one thread, which is longer than clients
    /// wait.
    package static let waitingBodies = 64

    /// Seconds after which a client that was refused may try again.
    static let retryAfter: Int64 = 5
}

extension ServerBounds {
    /// The bounds on the port for health. One monitor may have all of its connections.
    var ofHealth: ServerBounds {
        var bounds = self
        (bounds.connections, bounds.connectionsPerPeer) = (Self.healthConnections, Self.healthConnections)
        return bounds
    }

    /// Whether the bounds of one client do not count for this address.
    func trusts(_ address: IPAddress) -> Bool {
        trustedProxies.contains { $0.contains(address) }
            || trustsLoopback && IPNetwork.loopback.contains { $0.contains(address) }
    }

    /// The client for whom a request counts: the peer of the connection, or the last address in `X-Forwarded-For` that is not
    /// a trusted proxy's. `nil` if there is none but trusted ones.
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
