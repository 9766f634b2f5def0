// SPDX-License-Identifier: Apache-2.0

import Testing

/// What a compiler does not check about the sources, read from their text.
@Suite struct TidyTests {
    @Test(arguments: Rule.all) func `no source breaks a rule`(rule: Rule) {
        let found = SourceTarget.all.filter(rule.applies).flatMap(\.files).filter { rule.exceptions[$0.name] == nil }
            .flatMap { file in rule.violations(file).map { "\(file.target)/\(file.path): \($0)" } }
        #expect(found.isEmpty, "\(rule.name):\n\(found.joined(separator: "\n"))")
    }

    @Test func `errors are ignored at most twice in a thousand lines`() {
        let files = SourceTarget.all.filter(\.isShipped).flatMap(\.files)
        let ignored = files.reduce(0) { $0 + $1.code.matches(#"\btry\? "#).count }
        let lines = files.reduce(0) { $0 + $1.lines.count }
        #expect(ignored * 1000 <= 2 * lines, "\(ignored) in \(lines) lines")
    }

    @Test(arguments: Rule.all) func `a rule finds what breaks it and nothing else`(rule: Rule) {
        #expect(rule.bad.filter { rule.violations(SourceFile($0)).isEmpty } == [])
        #expect(rule.good.filter { !rule.violations(SourceFile($0)).isEmpty } == [])
    }

    @Test(arguments: Rule.all) func `every exception of a rule is needed`(rule: Rule) {
        let excepted = SourceTarget.all.flatMap(\.files).filter { rule.exceptions[$0.name] != nil }
        let needed = excepted.filter { !rule.violations($0).isEmpty }.map(\.name)
        #expect(Set(rule.exceptions.keys) == Set(needed))
    }

    @Test(arguments: SourceTarget.all) func `a target imports what the manifest declares`(target: SourceTarget) {
        #expect(!target.files.isEmpty)
        #expect(target.undeclaredImports == [])
    }

    @Test(arguments: SourceTarget.all.filter(\.isShipped)) func `no files use each other in circles`(
        target: SourceTarget
    ) {
        #expect(FileCircles(target.files).circles.map { $0.map { target.files[$0].path } } == [])
    }

    @Test(arguments: [
        (
            ["struct A { let b: B }", "struct B { let c: C }", "struct C { let a: A }", "struct D { let a: A }"],
            [[0, 1, 2]]
        ),
        (["struct A { let b: B }", "struct B { let c: C }", "struct C {}"], []),
        (["struct A { let b: B }", "struct B {} // A"], []),
        (["struct A { let b: B }", #"struct B { let a = "A" }"#], []),
        (["struct A { let b: B }", "struct B {}\nextension B {\n    struct A {}\n}"], []),
        (["struct A { let c: C }", "struct B {}\nextension B {\n    struct C { let a: A }\n}"], [[0, 1]]),
        (["struct A { let b: B }", "struct B { let a: A }\nprivate struct A {}"], []),
    ]) func `a circle is files that use each other`(sources: [String], circles: [[Int]]) {
        #expect(FileCircles(sources.map { SourceFile($0) }).circles == circles)
    }

    @Test(arguments: [
        ("import Foundation\n@testable public import Y", ["Y"], []),
        ("import Y", ["X"], ["Example/Example.swift imports Y"]),
        ("// import Y\nimport struct X.Z", ["X"], []),
    ]) func `an undeclared import is found`(source: String, declared: [String], found: [String]) {
        let target = SourceTarget(name: "Example", quoted: Set(declared), files: [SourceFile(source)], isShipped: true)
        #expect(target.undeclaredImports == found)
    }

    @Test func `the sources are found`() {
        let targets = Set(SourceTarget.all.map(\.name))
        #expect(targets.isSuperset(of: ["AppStoreModel", "PurchaseServer", "quittance", "make-vectors", "TidyTests"]))
        #expect(SourceTarget.all.flatMap(\.files).contains { $0.name == "AppStoreTrust/Verified.swift" })
    }
}
