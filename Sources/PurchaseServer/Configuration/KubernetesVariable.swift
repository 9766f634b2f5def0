// SPDX-License-Identifier: Apache-2.0

/// Recognises the environment variables that Kubernetes gives to each container about the services of its namespace.
/// The variables of a service whose name begins with "quittance" begin with `QUITTANCE_`, as settings do.
///
/// The names are those of Docker's old container links: `NAME_SERVICE_HOST`, `NAME_SERVICE_PORT`,
/// `NAME_SERVICE_PORT_HTTP`, `NAME_PORT`, `NAME_PORT_8080_TCP`, and the last name with `_PROTO`, `_PORT` and `_ADDR`.
enum KubernetesVariable {
    /// Whether the name and the value of a variable both have the form of Kubernetes. The name alone does not decide,
    /// because `QUITTANCE_PORT` is also a setting. It counts as Kubernetes's variable only with a value such as
    /// `tcp://10.0.0.1:8080`, which is no port number.
    static func matches(_ name: String, _ value: String) -> Bool {
        guard name.hasPrefix("QUITTANCE_") else { return false }
        if name.hasSuffix("_SERVICE_HOST") { return IPAddress(value) != nil }
        if name.contains(/_SERVICE_PORT(_|$)/) { return UInt16(value) != nil }
        let link = /.*?_PORT(?:_([0-9]+)_(TCP|UDP|SCTP)(?:_(PROTO|PORT|ADDR))?)?/
        guard let match = name.wholeMatch(of: link), match.1.map({ UInt16($0) != nil }) ?? true else { return false }
        return switch match.3 {
        case "PROTO": value == match.2?.lowercased()
        case "PORT": value == match.1 ?? ""
        case "ADDR": IPAddress(value) != nil
        default: isLink(value)
        }
    }

    /// Whether the text has the form `tcp://10.0.0.1:8080` or `tcp://[fd00::1]:8080`.
    private static func isLink(_ text: String) -> Bool {
        guard let match = text.wholeMatch(of: /(?:tcp|udp|sctp):\/\/(.*:.*)/) else { return false }
        return IPAddress(forwarded: String(match.1)) != nil
    }
}
