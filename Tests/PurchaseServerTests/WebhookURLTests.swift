// SPDX-License-Identifier: Apache-2.0

import PurchaseServer
import Testing

/// The addresses of endpoints: which texts are read, and which addresses are forbidden.
@Suite struct WebhookURLTests {
    private static func networks(_ texts: [String]) -> [IPNetwork] { texts.compactMap { IPNetwork($0) } }

    private static func read(_ text: String, allowing: [String] = []) -> Result<WebhookURL, WebhookURLError> {
        Result { () throws(WebhookURLError) in try WebhookURL(text, allowing: networks(allowing)) }
    }

    private static func error(_ text: String, allowing: [String] = []) -> String? {
        guard case .failure(let error) = read(text, allowing: allowing) else { return nil }
        return error.description
    }

    @Test(arguments: [
        ("https://example.com", "https://example.com/", "example.com", 443),
        ("https://example.com/", "https://example.com/", "example.com", 443),
        (
            "HTTPS://Hooks.EXAMPLE.com:8443/A/b%20c?x=1&y=%C3%A9",
            "https://hooks.example.com:8443/A/b%20c?x=1&y=%C3%A9",
            "hooks.example.com", 8443
        ),
        ("https://example.com?a=https://b@c", "https://example.com/?a=https://b@c", "example.com", 443),
        ("https://example.com/a@b:c", "https://example.com/a@b:c", "example.com", 443),
        ("https://xn--bcher-kva.example/", "https://xn--bcher-kva.example/", "xn--bcher-kva.example", 443),
        ("https://my_host.example:65535/", "https://my_host.example:65535/", "my_host.example", 65_535),
        ("https://8.8.8.8/", "https://8.8.8.8/", "8.8.8.8", 443),
        ("https://[2606:4700::1111]:444/x", "https://[2606:4700::1111]:444/x", "2606:4700::1111", 444),
        ("https://1.example.com/", "https://1.example.com/", "1.example.com", 443),
        ("https://receiver/", "https://receiver/", "receiver", 443),
    ])
    func `a URL has a host and a port, and a normal form`(text: String, normal: String, host: String, port: Int) throws
    {
        let url = try Self.read(text).get()
        #expect((url.text, url.host, url.port, url.isSecure) == (normal, host, port, true))
        #expect(try Self.read(url.text).get() == url)
    }

    @Test(arguments: [
        // Hosts that resolvers take for numbers.
        "https://2130706433/", "https://0177.0.0.1/", "https://0x7f.1/", "https://127.1/", "https://0x7f000001/",
        "https://017700000001/", "https://127.0.0.0x1/", "https://0X7F.0.0.1/", "https://1.2.3/", "https://256.1.1.1/",
        "https://1.2.3.4.5/", "https://0x/", "https://example.0/", "https://8.8.8.08/",
        // Trailing points.
        "https://localhost./", "https://example.com./", "https://127.0.0.1./", "https://./",
        // Other spellings of hosts.
        "https://127.0.0.1%2f/", "https://%6c%6f%63%61%6c%68%6f%73%74/", "https://exa%6dple.com/",
        "https://bücher.example/",
        "https://１２７.0.0.1/", "https://127。0。0。1/", "https://ⓔxample.com/", "https://example.com\u{ad}/",
        "https://[::1/", "https://::1/", "https://[8.8.8.8]/", "https://[example.com]/", "https://[fe80::1%25eth0]/",
        "https://[2606:4700::1]x/", "https://[]/", "https:///path", "https://", "https://-a.example/",
        "https://a-.example/",
        "https://a..example/", "https://*.example/", "https://\(String(repeating: "a", count: 64)).example/",
        // User information, and characters at which parsers differ.
        "https://user@example.com/", "https://user:pass@example.com/", "https://8.8.8.8@127.0.0.1/",
        "https://example.com\\@127.0.0.1/", "https://example.com/\\a", "https:\\\\example.com/", "https:/example.com/",
        "https:example.com", "//example.com/", "example.com", "", " https://example.com/", "https://example.com/ a",
        "https://example.com/\u{0}", "https://example.com/\r\nX: y", "https://example.com/\t", "https://example.com/é",
        "https://example.com/#a", "https://example.com#@127.0.0.1/", "https://example.com/%", "https://example.com/%4",
        "https://example.com/%zz", "https://example.com/<a>",
        "https://example.com/\(String(repeating: "a", count: 2048))",
        // Ports.
        "https://example.com:0/", "https://example.com:65536/", "https://example.com:/", "https://example.com:+443/",
        "https://example.com:0443/", "https://example.com:443:443/", "https://example.com:x/",
        "https://example.com:-1/",
        "https://example.com:99999999999999999999/", "https://[2606:4700::1]:/",
        // Other schemes.
        "ftp://example.com/", "file:///etc/passwd", "http+unix://a/", "http://example.com/", "HTTP://8.8.8.8/",
        "javascript:1",
    ])
    func `a URL that parsers could read in different ways is refused with a sentence`(text: String) throws {
        let error = try #require(Self.error(text), "\(text)")
        #expect(error.hasSuffix(".") && error.first?.isUppercase == true, "\(error)")
    }

    /// The first and the last address of each network that is never called, and of the networks by whose inner address
    /// an IPv6 address is judged.
    private static let forbidden = [
        "0.0.0.0", "0.255.255.255", "10.0.0.0", "10.255.255.255", "100.64.0.0", "100.127.255.255", "127.0.0.0",
        "127.255.255.255", "169.254.0.0", "169.254.169.254", "169.254.255.255", "172.16.0.0", "172.31.255.255",
        "192.0.0.0", "192.0.0.255", "192.0.2.0", "192.0.2.255", "192.88.99.0", "192.88.99.255", "192.168.0.0",
        "192.168.255.255", "198.18.0.0", "198.19.255.255", "198.51.100.0", "198.51.100.255", "203.0.113.0",
        "203.0.113.255", "224.0.0.0", "239.255.255.255", "240.0.0.0", "255.255.255.255",
        "::", "::1", "fc00::", "fdff::1", "fe80::", "febf::1", "fec0::", "feff::1", "ff00::", "ff02::1", "ffff::1",
        "100::", "100::1", "2001:db8::", "2001:db8:ffff::1", "3fff::", "3fff:fff::1", "5f00::", "5f00::1", "2001::",
        "2001:0:ffff::1", "2001:2::", "2001:2:0:ffff::1", "2001:10::", "2001:1f:ffff::1", "2001:20::",
        "2001:2f:ffff::1", "2001:1ff:ffff::1", "::127.0.0.1", "::10.0.0.1",
        "64:ff9b::127.0.0.1", "64:ff9b::a00:1", "64:ff9b::169.254.169.254", "64:ff9b:1::1", "64:ff9b:1::8.8.8.8",
        "2002:7f00:1::", "2002:a00:1::1", "2002:a9fe:a9fe::1",
    ]

    @Test(arguments: forbidden)
    func `a forbidden address is refused, and permitted if its network is allowed`(address: String) throws {
        let url = address.contains(":") ? "https://[\(address)]/" : "https://\(address)/"
        let error = try #require(Self.error(url))
        #expect(error.hasSuffix("is forbidden. Allow its network in the setting webhookNetworks."), "\(error)")
        #expect(try Self.read(url, allowing: [address]).get().isSecure)
        #expect(Self.error(url, allowing: ["8.8.8.8", "2606:4700::/32"]) == error)
    }

    /// Neighbours of the forbidden networks, and public addresses inside translated ones.
    @Test(arguments: [
        "1.0.0.0", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0",
        "169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0", "192.0.1.0", "192.0.3.0", "192.88.98.255",
        "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0", "203.0.112.255", "223.255.255.255",
        "2000::1", "2001:200::", "2001:db7::1", "2001:db9::1", "2606:4700::1111", "3ffe::1", "3fff:1000::1",
        "::8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::1",
    ])
    func `an address in public use is permitted`(address: String) {
        #expect(Self.error(address.contains(":") ? "https://[\(address)]/" : "https://\(address)/") == nil)
    }

    @Test func `http is only read beside allowed networks, and an address must be in one of them`() {
        #expect(Self.error("http://example.com/") != nil)
        #expect(Self.error("http://example.com/", allowing: ["10.0.0.0/8"]) == nil)
        #expect(Self.error("http://10.1.2.3/", allowing: ["10.0.0.0/8"]) == nil)
        for address in ["11.0.0.0", "8.8.8.8", "127.0.0.1", "[::1]", "[64:ff9b::a01:203]"] {
            #expect(Self.error("http://\(address)/", allowing: ["10.0.0.0/8"]) != nil, "\(address)")
        }
    }

    @Test(arguments: ["127.0.0.1", "10.0.0.1", "8.8.8.8"], ["https", "http"])
    func `an IPv4 address in its IPv6 form is refused, and the message has the address to write`(
        address: String, scheme: String
    ) {
        let error = Self.error("\(scheme)://[::ffff:\(address)]/", allowing: ["10.0.0.0/8"])
        #expect(error == "The host is an IPv4 address in an IPv6 form. Write \(address).")
    }

    @Test func `http without allowed networks is refused with both remedies`() throws {
        let error = try #require(Self.error("http://example.com/"))
        #expect(error.contains("must be https") && error.contains("webhookNetworks"))
    }

    @Test(arguments: [
        ("192.0.2.1", "192.0.2.1"), ("::ffff:192.0.2.1", "192.0.2.1"), ("2001:DB8:0::1", "2001:db8::1"), ("::", "::"),
        ("255.255.255.255", "255.255.255.255"), ("64:ff9b::1.2.3.4", "64:ff9b::102:304"),
    ])
    func `an address is written in its normal form`(text: String, normal: String) {
        #expect(IPAddress(text)?.text == normal)
    }
}
