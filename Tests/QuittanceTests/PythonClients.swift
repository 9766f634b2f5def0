// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestData
import TestProcess
import Testing

/// A folder in which foreign clients of a simulator run, such as those of `Tests/requirements.txt`.
struct PythonClients: Sendable {
    static let scripts = Project.root.appendingPathComponent("Tests/SimulatorClients")

    struct Failed: Error, CustomStringConvertible {
        var description: String
    }

    @TaskLocal fileprivate static var ofSuite: PythonClients?

    /// The folder of the suite.
    static func current() throws -> PythonClients { try #require(ofSuite) }

    let folder: URL

    /// Runs Python with the clients.
    @discardableResult
    func python(_ arguments: [String]) throws -> String { try run([TestPython.path()] + arguments) }

    func write(_ text: String, to file: String) throws {
        try Data(text.utf8).write(to: folder.appendingPathComponent(file))
    }

    /// Runs a program in the folder, with the program under test in PATH. Returns its standard output.
    ///
    /// - Throws: ``Failed`` with all of its output if its status is not 0.
    @discardableResult
    func run(_ arguments: [String]) throws -> String {
        try Self.run(arguments, in: folder)
    }

    static func has(_ arguments: String...) -> Bool { (try? run(arguments, in: nil)) != nil }

    private static func run(_ arguments: [String], in folder: URL?) throws -> String {
        let outcome = try TestProcess.run(arguments, in: folder, environment: environment)
        guard outcome.status == 0 else {
            throw Failed(description: "\(arguments): \(outcome.output)\n\(outcome.error)")
        }
        return outcome.output
    }

    /// Scripts find the program by its name.
    private static let environment: [String: String] = {
        var variables = TestProcess.environment
        let program = CommandLineTests.program.deletingLastPathComponent().path
        // Scripts of the sources leave no files beside them.
        variables["PYTHONDONTWRITEBYTECODE"] = "1"
        variables["PATH"] = "\(program):\(variables["PATH"] ?? "/usr/bin:/bin")"
        return variables
    }()
}

/// Gives the clients of a suite a folder, which is removed afterwards.
struct PythonClientsTrait: SuiteTrait, TestScoping {
    func provideScope(
        for test: Test, testCase: Test.Case?, performing body: @Sendable () async throws -> Void
    ) async throws {
        let folder = try TemporaryFolder()
        try await PythonClients.$ofSuite.withValue(PythonClients(folder: folder.url), operation: body)
    }
}

extension Trait where Self == PythonClientsTrait {
    static var pythonClients: Self { Self() }
}
