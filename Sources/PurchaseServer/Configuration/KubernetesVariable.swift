// SPDX-License-Identifier: Apache-2.0

/// Recognises the environment variables that Kubernetes gives to each container about the services of its namespace.
/// Those of a service whose name begins with "quittance" begin with `QUITTANCE_`, as settings do.
///
/// The names follow the links of Docker containers: `NAME_SERVICE_HOST`, `NAME_SERVICE_PORT`,
/// `NAME_SERVICE_PORT_HTTP`, `NAME_PORT`, `NAME_PORT_8080_TCP`, and the latter with `_PROTO`, `_PORT` and `_ADDR`.
enum KubernetesVariable {
    private static let protocols = ["tcp", "udp", "sctp"]

    /// Whether both the name and the value of a variable are as Kubernetes makes them. `QUITTANCE_PORT` is a setting,
    /// and passed over only with a value such as `tcp://10.0.0.1:8080`, which is no port.
    static func matches(_ name: String, _ value: String) -> Bool {
        guard name.hasPrefix("QUITTANCE_") else { return false }
        let words = name.split(separator: "_", omittingEmptySubsequences: false).map(String.init)
        if words.suffix(2) == ["SERVICE", "HOST"] { return IPAddress(value) != nil }
        if isServicePort(words) { return UInt16(value) != nil }
        if words.last == "PORT", isLink(value) { return true }
        return isLinkMember(words, value)
    }

    /// Whether the words end with `SERVICE_PORT`, or have it before the name of a port.
    private static func isServicePort(_ words: [String]) -> Bool {
        zip(words, words.dropFirst()).contains { $0 == "SERVICE" && $1 == "PORT" }
    }

    /// Whether the text is such as `tcp://10.0.0.1:8080` or `tcp://[fd00::1]:8080`.
    private static func isLink(_ text: String) -> Bool {
        guard let scheme = text.firstRange(of: "://"), protocols.contains(String(text[..<scheme.lowerBound])) else {
            return false
        }
        let address = String(text[scheme.upperBound...])
        return address.contains(":") && IPAddress(forwarded: address) != nil
    }

    /// Whether the words end with `PORT_8080_TCP`, or have it before `PROTO`, `PORT` or `ADDR`.
    private static func isLinkMember(_ words: [String], _ value: String) -> Bool {
        var words = words
        let member = ["PROTO", "PORT", "ADDR"].contains(words.last) ? words.popLast() : nil
        guard let scheme = words.popLast()?.lowercased(), protocols.contains(scheme),
            let number = words.popLast(), UInt16(number) != nil, words.last == "PORT"
        else { return false }
        return switch member {
        case "PROTO": value == scheme
        case "PORT": value == number
        case "ADDR": IPAddress(value) != nil
        default: isLink(value)
        }
    }
}
