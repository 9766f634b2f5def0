// SPDX-License-Identifier: Apache-2.0

package import HTTPTypes

/// The bounds on the connections, the memory and the time that clients may use. `docs/configuration.md` names the
/// setting of each.
public struct ServerBounds: Sendable {
    /// The maximum number of open connections. A further connection takes the slot of the connection that has waited
    /// longest for a request. If no connection waits, the further connection gets 503.
    public var connections = 1000
    /// The maximum number of open connections per client. A client is an IPv4 address or an IPv6 network of 64 bits.
    /// ``trustedProxies`` are exempt.
    public var connectionsPerPeer = 100
    /// The maximum number of requests that wait for the next event (`GET /v1/events?wait=`). A waiting request is a
    /// connection of some kilobytes, and each cursor at which requests wait costs a search per second.
    public var followers = 200
    /// The trusted proxies. The bounds per client do not apply to a proxy itself, whose `X-Forwarded-For` field names
    /// the actual client. Loopback is always trusted.
    public var trustedProxies: [IPNetwork] = []
    /// The maximum number of bytes of long request bodies and long responses in memory.
    public var bodyBytesInFlight = 256 << 20
    /// The longest time from the last response, or from the start of the connection, to the end of a request's head.
    public var idleTimeout = Duration.seconds(30)
    /// The longest time from the end of a request's head to the end of its body: 3 MiB need 10 seconds over 2.5 Mbit/s.
    public var bodyTimeout = Duration.seconds(30)
    /// The longest time from the end of a request's head until the whole response is sent.
    public var requestTimeout = Duration.seconds(60)
    /// The longest time for which the sending of a response may stall because the client takes no byte.
    public var writeTimeout = Duration.seconds(20)

    /// Whether loopback is a trusted proxy; `false` only in tests.
    package var trustsLoopback = true

    /// Creates the default bounds.
    public init() {}

    // MARK: Not configured

    /// The maximum number of open connections to the port for health: enough for several monitors and load balancers
    /// with a few connections each. Health connections need file descriptors and hardly any memory, and do not count
    /// toward ``connections``.
    package static let healthConnections = 50

    /// The maximum number of connections beyond ``connections`` that receive a refusal at the same time, each for a
    /// second at most. Further connections are closed without an answer.
    package static let refusedConnections = 50

    /// How long running requests may go on after a cancellation, for example because a shutdown took too long.
    static let grace = Duration.seconds(5)

    /// The longest wait for an event. The last five seconds of the request timeout are left for the response.
    package var maxWait: Duration { max(.zero, requestTimeout - .seconds(5)) }

    /// The maximum number of bytes of a short body or response. Short bodies and responses do not count toward the
    /// budget ``bodyBytesInFlight``, nor does the beginning of a long body up to this length. The thread of the
    /// connection handles a short body itself. All other connections of the thread wait meanwhile, a few milliseconds
    /// for the slowest short body. Bodies from the App Store are not longer than this, and most receipts are shorter.
    package static let shortBody = 64 << 10

    /// The number of bytes reserved per row of an answer. A row has about 1,100 bytes, and its facts are also in memory
    /// while the answer is made. With this number, an answer of up to 32 rows counts as short, and most answers do.
    package static let answerRow = 2 << 10

    /// The maximum number of bytes of a request's head. Ordinary heads have less than 1 KB.
    static let head = 16 << 10

    /// The maximum number of fields of a request's head.
    static let headFields = 100

    /// The maximum number of bytes per read from a connection: a genuine notification with its head is below 30 KB.
    static let readSize = 32 << 10

    /// The maximum number of framing bytes per byte of a chunked body, in addition to 16 KiB for the whole body. Even a
    /// chunk of a single byte has only five framing bytes.
    static let chunkFraming = 8

    /// The size in bytes that the server requests for the kernel's buffer in each direction of a connection. Linux
    /// doubles the size.
    static let socketBuffer = 128 << 10

    /// The maximum number of bytes of an unread body that the server discards after the response. If it closed the
    /// connection with bytes unread, the connection would be reset, and the client might lose the response.
    static let discardedBody = 64 << 10

    /// The longest time for which the server discards an unread body.
    static let closingTime = Duration.seconds(1)

    /// The maximum number of long bodies that wait in the queue. With the slowest bodies, a full queue takes 16 seconds
    /// on one thread, which is already longer than clients wait.
    package static let waitingBodies = 64

    /// The number of seconds after which a client should retry a request that the server could not handle now.
    static let retryAfter: Int64 = 5
}

extension ServerBounds {
    /// The bounds of the port for health. A single monitor may use all connections of the port.
    var ofHealth: ServerBounds {
        var bounds = self
        bounds.connections = Self.healthConnections
        bounds.connectionsPerPeer = Self.healthConnections
        return bounds
    }

    /// Whether this address belongs to a trusted proxy, and so is exempt from the bounds per client.
    func trusts(_ address: IPAddress) -> Bool {
        trustedProxies.contains { $0.contains(address) }
            || trustsLoopback && IPNetwork.loopback.contains { $0.contains(address) }
    }

    /// The client for the bounds on a request: usually the peer of the connection. If the peer is a trusted proxy, the
    /// client is the last address in `X-Forwarded-For` that is not a trusted proxy's. `nil` if all addresses are
    /// trusted proxies, if an address is malformed, or if the peer is unknown.
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
