// SPDX-License-Identifier: Apache-2.0

import Foundation

/// Verifies the worst input of each kind, and sends the worst request to each route that needs no key, each in a process
/// of its own, and compares time and memory with the bounds.
@main
struct LimitsCommand {
    static let milliseconds = 250.0
    static let mebibytes = 64.0

    static func main() async throws {
        switch CommandLine.arguments.dropFirst().first {
        case "--case":
            guard let worst = try Case.all.first(where: { $0.name == CommandLine.arguments.last }) else { exit(64) }
            print(try await Probe(worst).line)
        case "--route":
            guard let route = RouteCase.all.first(where: { $0.id == CommandLine.arguments.last }) else { exit(64) }
            print(try await RouteProbe(route).line)
        case let part:
            try runAll(part ?? "")
        }
    }

    /// Runs every case whose name contains `part`.
    private static func runAll(_ part: String) throws {
        var exceeded: [String] = []
        print("| input | bytes | outcome | median time | memory growth | within 250 ms and 64 MiB |")
        print("|---|---:|---|---:|---:|---|")
        for worst in try Case.all where part.isEmpty || worst.name.contains(part) {
            let line = try child("--case", worst.name)
            print(line)
            if !line.hasSuffix("| yes |") { exceeded.append(worst.name) }
        }
        print("\n| route | periods | request | answer | CPU time | for each byte | within 5 µs a byte, or 0.5 ms |")
        print("|---|---:|---:|---:|---:|---:|---|")
        for route in RouteCase.all where part.isEmpty || route.id.contains(part) {
            let line = try child("--route", route.id)
            print(line)
            if !line.hasSuffix("| yes |") { exceeded.append(route.id) }
        }
        guard !exceeded.isEmpty else { return }
        print("\nExceeded: \(exceeded.joined(separator: "; "))")
        exit(1)
    }

    private static func child(_ kind: String, _ name: String) throws -> String {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()
        process.arguments = [kind, name]
        let output = Pipe()
        process.standardOutput = output
        try process.run()
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        guard process.terminationStatus == 0 else {
            return "| \(name) | | exit status \(process.terminationStatus) |"
        }
        return text.trimmingCharacters(in: .newlines)
    }
}
