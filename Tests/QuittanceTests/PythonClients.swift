// SPDX-License-Identifier: Apache-2.0

import Foundation
import Testing

/// A folder with a virtual environment that has the clients of `Tests/SimulatorClients/requirements.txt`.
struct PythonClients: Sendable {
    static let scripts = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .appendingPathComponent("SimulatorClients")

    struct Failed: Error, CustomStringConvertible {
        var description: String
    }

    /// The folder, or why the clients cannot be installed.
    @TaskLocal fileprivate static var installed: Result<PythonClients, Failed> = .failure(
        Failed(description: "No suite"))

    /// The clients. Cancels the test with the reason if they cannot be had.
    static func current() throws -> PythonClients {
        switch installed {
        case .success(let clients): return clients
        case .failure(let error): try Test.cancel("The clients cannot be installed: \(error)")
        }
    }

    let folder: URL

    fileprivate func install() throws {
        try run(["python3", "-m", "venv", "venv"])
        let requirements = Self.scripts.appendingPathComponent("requirements.txt").path
        try run(["venv/bin/pip", "install", "--quiet", "--disable-pip-version-check", "-r", requirements])
    }

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
        // Files instead of pipes: the program would wait if a pipe were full.
        let files = (0..<2).map { _ in FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        }
        defer { for file in files { try? FileManager.default.removeItem(at: file) } }
        for file in files { try Data().write(to: file) }
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = arguments
        process.currentDirectoryURL = folder
        process.environment = environment
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = try FileHandle(forWritingTo: files[0])
        process.standardError = try FileHandle(forWritingTo: files[1])
        try process.run()
        process.waitUntilExit()
        let output = try files.map { String(decoding: try Data(contentsOf: $0), as: UTF8.self) }
        guard process.terminationStatus == 0 else {
            throw Failed(description: "\(arguments): \(output.joined(separator: "\n"))")
        }
        return output[0]
    }

    /// The suite's own variables are not settings of the program.
    private static let environment: [String: String] = {
        var variables = ProcessInfo.processInfo.environment.filter { !$0.key.hasPrefix("QUITTANCE_") }
        let program = CommandLineTests.program.deletingLastPathComponent().path
        // Scripts of the sources leave no files beside them.
        variables["PYTHONDONTWRITEBYTECODE"] = "1"
        variables["PATH"] = "\(program):\(variables["PATH"] ?? "/usr/bin:/bin")"
        return variables
    }()
}

/// Installs the clients once for a suite, in a folder that is removed afterwards.
struct PythonClientsTrait: SuiteTrait, TestScoping {
    func provideScope(
        for test: Test, testCase: Test.Case?, performing body: @Sendable () async throws -> Void
    ) async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let clients = PythonClients(folder: folder)
        let installed: Result<PythonClients, PythonClients.Failed>
        do {
            try clients.install()
            installed = .success(clients)
        } catch {
            installed = .failure(.init(description: "\(error)"))
        }
        try await PythonClients.$installed.withValue(installed, operation: body)
    }
}

extension Trait where Self == PythonClientsTrait {
    static var pythonClients: Self { Self() }
}
