// SPDX-License-Identifier: Apache-2.0

import Testing

@testable import LedgerPostgres

/// Tests which connections are allowed without a verified certificate.
@Suite struct SettingsTests {
    @Test(
        arguments: [
            ("", nil), ("host=/run/postgresql dbname=a", nil), ("postgresql:///a", nil), ("host=localhost", nil),
            ("postgresql://127.0.0.1,localhost:5433/a", nil), ("host=::1 sslmode=disable", nil),
            ("host=db.example", "verify-full"), ("postgresql://u@10.0.0.1/a", "verify-full"),
            ("postgresql://localhost,db.example/a", "verify-full"),
            ("host=db.example sslmode=verify-full", "verify-full"), ("host=localhost hostaddr=10.0.0.1", "verify-full"),
            ("host=127.0.0.1.example.com", "verify-full"), ("service=main", "verify-full"),
            ("host=db.example sslmode=require", "refused"), ("postgresql://db.example/a?sslmode=disable", "refused"),
            ("host=localhost,db.example sslmode=prefer", "refused"), ("nonsense", "refused"), ("a=b", "refused"),
        ] as [(String, String?)])
    func `a host that is not this machine needs a verified certificate`(address: String, mode: String?) {
        let options = try? PostgresSettings(address).options()
        #expect((options == nil ? "refused" : options?.last { $0.name == "sslmode" }?.value) == mode)
    }

    @Test func `an address that is not understood is not repeated, since it may have a password`() {
        #expect {
            try PostgresSettings("postgresql://u:secret@[/a").options()
        } throws: { error in
            !"\(error)".contains("secret")
        }
    }

    @Test(arguments: ["postgresql:///a?sslmod=x", "dbname=a sslmod=x"])
    func `a parameter that libpq does not know is named`(address: String) {
        #expect {
            try PostgresSettings(address).options()
        } throws: { error in
            "\(error)".contains("sslmod")
        }
    }

    @Test func `a parameter of the address replaces the default of the program`() throws {
        let names = try PostgresSettings("connect_timeout=30").options().map(\.name)
        let (ours, theirs) = (names.firstIndex(of: "connect_timeout"), names.firstIndex(of: "dbname"))
        #expect(try #require(ours) < #require(theirs))
    }

    @Test(
        arguments: [
            ("postgresql:///a", true, "postgresql:///a"),
            ("postgresql:///a?prepared_statements=false", false, "postgresql:///a"),
            ("postgres://u@h/a?prepared_statements=true&user=b", true, "postgres://u@h/a?user=b"),
            ("postgresql:///a?host=/x&prepared_statements=false&port=1", false, "postgresql:///a?host=/x&port=1"),
        ] as [(String, Bool, String)])
    func `an address may say that statements are not prepared`(address: String, prepares: Bool, left: String) throws {
        let settings = PostgresSettings(address)
        #expect(settings.preparesStatements == prepares)
        #expect(settings.address == left)
    }

    @Test(arguments: ["prepared_statements=maybe", "prepared_statements=", "load_balance_hosts=yes"])
    func `a parameter of ours with another value is refused by name`(parameter: String) {
        #expect {
            try PostgresSettings("postgresql:///a?\(parameter)").options()
        } throws: { error in
            "\(error)".contains(parameter.prefix { $0 != "=" } + " takes ")
        }
    }
}
