// SPDX-License-Identifier: Apache-2.0

import Testing

/// A rule that holds for each file of its targets.
struct Rule: Sendable, CustomTestStringConvertible {
    var name: String
    var applies: @Sendable (SourceTarget) -> Bool
    /// Files that the rule does not hold for, by target and name, each with its reason.
    var exceptions: [String: String] = [:]
    /// The violations of the rule in a file, as texts.
    var violations: @Sendable (SourceFile) -> [String]
    /// Examples that break the rule.
    var bad: [String]
    /// Examples that look similar but follow the rule.
    var good: [String] = []

    var testDescription: String { name }
}

extension Rule {
    /// A rule against names in code.
    private static func forbids(
        _ pattern: String, _ name: String, in applies: @escaping @Sendable (SourceTarget) -> Bool,
        except exceptions: [String: String] = [:], bad: [String], good: [String]
    ) -> Rule {
        Rule(
            name: name, applies: applies, exceptions: exceptions,
            violations: { $0.code.matches(pattern).map { $0[0] } },
            bad: bad, good: good)
    }

    static let all = [
        clock, randomness, output, traps, verified, outgoing, tuples, ignoredErrors, licence, purpose, shippedColumns,
        columns, documentation,
    ]

    private static let clock = forbids(
        #"\b(Date\(\)|Date\.now|\w*Clock\(\)|\w*Clock\.now|NIODeadline\.now|Dispatch(Wall)?Time\.now|systemUptime"#
            + #"|timeIntervalSinceNow|clock_gettime|gettimeofday|time\(nil\)|(Thread|Task)\.sleep|(?<!\.)u?sleep\()"#
            + #"|(: |= |\()\.now\b"#,
        "the libraries have no clock: time is an argument", in: \.isLibrary,
        except: [
            "AppStoreTrust/RevocationChecker.swift": "the default of an argument, which measures intervals alone",
            "OutgoingHTTP/PlainClient.swift": "the default of an argument, which measures intervals alone",
            "PurchaseServer/ServerApplication.swift": "the default of an argument, which measures intervals alone",
            "PurchaseServer/ConnectionDeadlines.swift": "the event loop measures how long a connection has been silent",
            "LedgerSQLite/GroupCommit.swift": "a writer waits for less than a millisecond so that others may join",
            "LedgerSQLite/LogKeeper.swift": "asks once a second whether somebody writes",
        ],
        bad: [
            "let now = Date()", "f(Date.now)", "let c = ContinuousClock()", "Task.sleep(for: x)",
            "let t: Instant = .now",
        ],
        good: [
            "let now = self.now", "// Date()", #"let text = "Date()""#, "Timestamp(date)", "at: request.now)",
            "clock.sleep(for: x)",
        ])

    private static let randomness = forbids(
        #"\b(SystemRandomNumberGenerator|arc4random|getrandom|UUID\(\)|(PrivateKey|SerialNumber)\(\)"#
            + #"|PrivateKey\(keySize:|SymmetricKey\(size:)|\.(shuffled|randomElement)\(\)|\.random\((?![^\n]*using:)"#,
        "the libraries have no randomness: it is an argument", in: \.isLibrary,
        except: [
            "AppStoreSimulator/SigningKey.swift": "keys that sign for tests are new every time",
            "AppStoreSimulator/CertificateAuthority.swift": "serial numbers of test certificates are new every time",
        ],
        bad: ["Int.random(in: 0..<9)", "UUID()", "all.shuffled()", "P256.Signing.PrivateKey()"],
        good: ["Int.random(in: 0..<9, using: &random)", "UUID(uuidString: text)", "all.shuffled(using: &random)"])

    private static let output = forbids(
        #"\b(print|debugPrint|dump|fputs|puts|NSLog)\(|\bFileHandle\.standard"#,
        "the libraries write to no terminal", in: \.isLibrary,
        bad: ["print(1)", "FileHandle.standardError.write(line)"], good: ["blueprint(1)", "// print(1)"])

    private static let traps = forbids(
        #"\btry!|\bas!|\b(fatalError|preconditionFailure|unsafeDowncast)\("#,
        "nothing traps on purpose", in: \.isShipped,
        bad: ["try! f()", #"fatalError("never")"#, "preconditionFailure()", "x as! Int"],
        good: ["try? f()", "x as? Int"])

    private static let tuples = forbids(
        #"(?:(?<!: )\((?:[^()\n]|\([^()\n]*\))*,(?:[^()\n]|\([^()\n]*\))*\)|(?:let|var) \([^()\n]*\): .*) = \("#,
        "each value is assigned on a line of its own", in: \.isShipped,
        bad: [
            "(a, b) = (1, 2)", "    let (a, b) = (\n", "f { ($0.a, $0.b) = ([], true) }", "var (a, b): (A, B) = (c, d)",
        ],
        good: ["let (a, b) = f()", "var a: (A, B) = (1, 2)", "for (a, b) in c {}", "return (a, b) == (1, 2)"])

    /// The reason may also stand in front of several lines that have it in common.
    private static let ignoredErrors = Rule(
        name: "an ignored error has its reason beside it", applies: \.isShipped,
        violations: { file in
            let lines = file.lines
            return lines.indices.filter { index in
                let line = lines[index]
                guard line.contains("try? "), SourceFile(String(line)).code.contains("try? ") else { return false }
                let paragraph = lines[max(0, index - 12)...index].split(separator: "").last ?? []
                return !paragraph.contains { $0.contains("//") }
            }.map { "line \($0 + 1)" }
        },
        bad: [
            "let a = try? f()", "// A reason.\n\nlet a = try? f()",
            "// A reason." + String(repeating: "\n1", count: 12) + "\nlet a = try? f()",
        ],
        good: [
            "// A reason.\nlet a = try? f()", "let a = try? f()  // A reason.", "// Because.\na()\nlet b = try? f()",
        ])

    private static let verified = forbids(
        #"\bVerified(<[^\n(]*>)?(\.init)?\("#, "only the verifier makes a Verified",
        in: { $0.isShipped && $0.name != "AppStoreTrust" },
        bad: ["Verified(payload, kind)", "Verified<AppReceipt>(x)", "Verified<Open<Kind>>.init(x)"],
        good: ["f(_ receipt: Verified<AppReceipt>)", "isVerified(x)", "_ e: (Verified<A>) -> Void"])

    private static let outgoing = forbids(
        #"\bHTTPClient(\.init)?\(|\bHTTPClient\.(shared|Configuration)\b"#,
        "all requests to other servers are made by PlainClient, which speaks HTTP/1.1 alone and trusts no peer",
        in: { $0.isShipped && $0.name != "OutgoingHTTP" },
        bad: ["HTTPClient.shared.execute(request)", "HTTPClient(eventLoopGroup: group)", "HTTPClient.Configuration()"],
        good: ["PlainClient(timeout: .seconds(5))", "let client: HTTPClient", "HTTPClientRequest(url: url)"])

    private static let licence = Rule(
        name: "a file begins with its licence", applies: { _ in true },
        violations: { $0.text.hasPrefix("// SPDX-License-Identifier: Apache-2.0\n") ? [] : ["no licence in line 1"] },
        bad: ["import Foundation\n"], good: ["// SPDX-License-Identifier: Apache-2.0\n\nimport Foundation\n"])

    /// A text can be broken; data such as a certificate in base64, which has no blank, is left out.
    private static let shippedColumns = Rule(
        name: "a line has at most 120 columns, literals without a blank left out", applies: \.isShipped,
        violations: { longLines(in: $0, besides: ##"#"[^ ]*?"#|"(?:\\.|[^"\\ ])*""##) },
        bad: [
            "    // \"" + String(repeating: "word ", count: 23) + "\"", "f()" + String(repeating: " + f()", count: 20),
            "    f(\"" + String(repeating: "word ", count: 24) + "\")",
        ],
        good: [String(repeating: "–", count: 120), "    \"" + String(repeating: "MIIC", count: 40) + "\","])

    /// In tests whole documents may be in one line.
    private static let columns = Rule(
        name: "a line has at most 120 columns, string literals left out", applies: { !$0.isShipped },
        violations: { longLines(in: $0, besides: ##"#".*?"#|"(?:\\.|[^"\\])*""##) },
        bad: [
            "    // \"" + String(repeating: "word ", count: 23) + "\"", "f()" + String(repeating: " + f()", count: 20),
        ],
        good: [String(repeating: "–", count: 120), "f(\"" + String(repeating: "word ", count: 24) + "\")"])

    /// - Parameter literals: What does not count, except in comments.
    private static func longLines(in file: SourceFile, besides literals: String) -> [String] {
        file.lines.enumerated().compactMap { number, line in
            let isComment = line.drop { $0 == " " }.hasPrefix("//")
            guard line.count > 120, isComment || String(line).replacing(literals).count > 120 else { return nil }
            return "line \(number + 1) has \(line.count) columns"
        }
    }

    private static let purpose = Rule(
        name: "a file begins with its purpose", applies: \.isShipped,
        violations: { file in
            let first = file.lines.dropFirst().first { line in
                !line.isEmpty && !["#if", "#else", "#endif"].contains { line.hasPrefix($0) }
                    && !line.contains(#/^(@\S+ +)?(\w+ +)?import /#)
            }
            guard let first, first.hasPrefix("//"), !first.hasPrefix("// MARK") else { return ["no purpose"] }
            return []
        },
        bad: ["//\n\nimport A\n\nstruct B {}", "//\n\nextension A {\n    /// B.", "//\n\nimport A\n\n// MARK: - B"],
        good: [
            "//\n\n// Does A.\n\nimport B", "//\n\n@_spi(B) public import A\n#if C\n#endif\n\n/// A D.\nstruct D {}",
        ])

    /// Unlike swift-format's own rule, this one asks for no comment on an initialiser that always succeeds, or on what
    /// a protocol requires and documents.
    private static let documentation = Rule(
        name: "what is public is documented", applies: \.isShipped,
        exceptions: [
            "PurchaseLedger/MemoryLedgerStorage.swift": "LedgerStorage documents its members",
            "PurchaseLedgerTesting/ForwardingStorage.swift": "LedgerStorage documents its members",
            "LedgerPostgres/PostgresLedgerStorage.swift": "LedgerStorage documents its members",
            "LedgerPostgres/PostgresSearches.swift": "LedgerStorage documents its members",
            "LedgerSQLite/SQLiteLedgerStorage.swift": "LedgerStorage documents its members",
        ],
        violations: { $0.text.matches(undocumented).map { $0[1] } },
        bad: [
            "struct A {\n    public var b: Int\n}", "\n@nonexhaustive\npublic enum A {}", "// A.\npublic func a()",
            "\npublic init?(a: A) {", "\npublic init(a: A) throws {", "\npublic init(\n    a: A\n) throws(E) {",
        ],
        good: [
            "/// A.\npublic struct A {}", "/// A.\n@frozen @usable(a)\npublic enum A {}", "\npublic import A",
            "\npublic init(a: A) { b = { throw } }", "\npublic var description: String", "\npublic extension A {",
            "\npublic static func < (left: A, right: A)", "\npublic let unknownMembers: A",
        ])

    /// A public declaration below a line that is no documentation, attributes left out.
    private static let undocumented =
        #"(?m)^(?! *///)(?! *@).*\n(?: *@.*\n)* *(?:@\S+ )*(public (?!import|extension"#
        + #"|(?:static )?(?:var|let) (?:description|debugDescription|rawValue|unknownMembers|signedKind)\b"#
        + #"|(?:static |mutating )?func (?:[<=~]+|encode|hash|visit|next)\b|(?:static )?func [<=~]+"#
        + #"|(?:convenience )?init(?:<[^(]*>)?\((?![^{]*\bthrows\b)|init\(from ).*)"#
}
