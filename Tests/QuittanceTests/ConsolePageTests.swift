// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation
import TestData
import Testing

/// The page of the console: what its files may not contain, and what a person does with it in Chromium.
@Suite(.pythonClients, .serialized) struct ConsolePageTests {
    private static func file(_ name: String) throws -> String { try Project.text("Sources/CConsole/files/\(name)") }

    // MARK: - The files

    @Test func `text enters the page by one function, as text`() throws {
        let script = try Self.file("console.js")
        // The ways by which a text becomes markup, code, an address or a style.
        let others = [
            "innerHTML", "outerHTML", "innerText", "outerText", "insertAdjacent", "document.write", "createTextNode",
            "DOMParser", "createContextualFragment", "setHTML", "srcdoc", "eval(", "Function(", "import(", "new Option",
            "setAttributeNS", ".style", ".href", ".src", ".nodeValue", ".data =", "location", "cookie", "localStorage",
            "postMessage", "open(\"", "Worker", "XMLHttpRequest", "sendBeacon", "http://", "https://",
        ]
        let addresses = ["\"http://www.w3.org/2000/svg\""]
        let code = addresses.reduce(script) { $0.replacingOccurrences(of: $1, with: "") }
        for other in others { #expect(!code.contains(other), "\(other)") }
        #expect(script.matches(of: /textContent\s*=[^=]/).count == 1)
        #expect(script.matches(of: /setAttribute\(/).count == 3)
        #expect(script.matches(of: /\bfetch\(/).count == 1)
    }

    @Test func `the page has neither script nor style of its own`() throws {
        let page = try Self.file("console.html")
        #expect(page.matches(of: /<script/).count == 1 && page.contains(#"<script src="/console.js" defer></script>"#))
        #expect(page.matches(of: /<style|\sstyle=|\son[a-z]+=|javascript:|https?:/).isEmpty)
        #expect(try Self.file("icon.svg").matches(of: /<script|<style|\sstyle=|\son[a-z]+=|href/).isEmpty)
    }

    @Test func `page, script and style together are small`() throws {
        let files = try ["console.html", "console.css", "console.js", "icon.svg"].map(Self.file)
        #expect(files.reduce(0) { $0 + $1.utf8.count } <= 120 * 1024)
    }

    // MARK: - A browser

    /// `Tests/SimulatorClients/console.py` says what each check does. One by one, so that the machine has one browser.
    @Test(
        .takesLong,
        arguments: ["visit", "panels", "roles", "keyboard", "views", "hostile", "large", "elsewhere"])
    func `a person uses the console in a browser`(check: String) throws {
        let script = PythonClients.scripts.appendingPathComponent("console.py").path
        let output = try PythonClients.current().python([script, CommandLineTests.program.path, check])
        let result = try JSONValue(parsing: output.utf8)
        if let reason = result["missing"]?.string { try Test.cancel("There is no browser: \(reason)") }
        print("The console in a browser, \(check): \(result.compactText)")
    }
}
