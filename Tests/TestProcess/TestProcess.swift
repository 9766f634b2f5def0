// SPDX-License-Identifier: Apache-2.0

package import Foundation
import Synchronization

/// A program that a test runs.
///
/// Unlike Foundation's `Process`, it inherits no open file but its three: while one program starts, another thread may
/// open a pipe to another one, and a server that inherited it would keep it open until the tests end.
package final class TestProcess: Sendable {
    /// What is connected to an input or output of a program.
    package enum Stream: Sendable {
        /// Nothing: an empty input, or an output that is discarded.
        case none
        /// The tests' own.
        case inherited
        /// A file, which an output empties.
        case file(URL)
        /// A pipe, whose other end is ``TestProcess/input`` or ``TestProcess/output``.
        case pipe
    }

    package struct CannotStart: Error {
        package var program: String
        package var reason: String
    }

    /// The environment without the suite's own variables, such as QUITTANCE_SOAK: the program refuses unknown settings.
    package static let environment = ProcessInfo.processInfo.environment.filter { !$0.key.hasPrefix("QUITTANCE_") }

    package let id: pid_t
    /// The other ends of pipes.
    package let (input, output): (FileHandle?, FileHandle?)
    private let ended = Mutex<Int32?>(nil)

    /// Starts a program.
    ///
    /// - Parameters:
    ///   - command: The program, searched in PATH unless it is a path, and its arguments.
    ///   - error: ``Stream/pipe`` for where the output goes.
    /// - Throws: ``CannotStart``
    package init(
        _ command: [String], in folder: URL? = nil,
        environment: [String: String] = TestProcess.environment, input: Stream = .none,
        output: Stream = .none, error: Stream = .none
    ) throws {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        var ends: [FileHandle?] = [nil, nil]
        var pipes: [Pipe] = []
        for (number, stream) in zip(Int32(0)..., [input, output, error]) {
            let mode = number == 0 ? O_RDONLY : O_WRONLY | O_CREAT | O_TRUNC
            switch stream {
            case .none: posix_spawn_file_actions_addopen(&actions, number, "/dev/null", mode, 0)
            case .inherited: break
            case .file(let url) where number == 2 && url == Self.file(of: output):
                posix_spawn_file_actions_adddup2(&actions, 1, 2)
            case .file(let url): posix_spawn_file_actions_addopen(&actions, number, url.path, mode, 0o666)
            case .pipe where number == 2: posix_spawn_file_actions_adddup2(&actions, 1, 2)
            case .pipe:
                let pipe = Pipe()
                pipes.append(pipe)
                let isInput = number == 0
                ends[Int(number)] = isInput ? pipe.fileHandleForWriting : pipe.fileHandleForReading
                let own = isInput ? pipe.fileHandleForReading : pipe.fileHandleForWriting
                posix_spawn_file_actions_adddup2(&actions, own.fileDescriptor, number)
            }
        }
        _ = Self.addCloseFrom(&actions, 3)
        if let folder { _ = Self.addFolder(&actions, folder.path) }
        let arguments = command.map { strdup($0) } + [nil]
        let variables = environment.map { strdup("\($0)=\($1)") } + [nil]
        defer { for text in arguments + variables { free(text) } }
        // The threads that run tasks block signals.
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var signals = sigset_t()
        sigemptyset(&signals)
        posix_spawnattr_setsigmask(&attributes, &signals)
        sigfillset(&signals)
        posix_spawnattr_setsigdefault(&attributes, &signals)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF))
        var id: pid_t = 0
        let code = posix_spawnp(&id, command[0], &actions, &attributes, arguments, variables)
        guard code == 0 else { throw CannotStart(program: command[0], reason: String(cString: strerror(code))) }
        if ends[0] != nil { try pipes[0].fileHandleForReading.close() }
        if ends[1] != nil { try pipes.last?.fileHandleForWriting.close() }
        (self.id, self.input, self.output) = (id, ends[0], ends[1])
    }

    private static func file(of stream: Stream) -> URL? { if case .file(let url) = stream { url } else { nil } }

    // glibc has these, but hides them from Swift.
    private static let addCloseFrom = unsafeBitCast(
        dlsym(nil, "posix_spawn_file_actions_addclosefrom_np"),
        to: (@convention(c) (UnsafeMutablePointer<posix_spawn_file_actions_t>, Int32) -> Int32).self)
    private static let addFolder = unsafeBitCast(
        dlsym(nil, "posix_spawn_file_actions_addchdir_np"),
        to: (@convention(c) (UnsafeMutablePointer<posix_spawn_file_actions_t>, UnsafePointer<CChar>) -> Int32).self)

    package var isRunning: Bool {
        ended.withLock { ended in
            var info = siginfo_t()
            guard ended == nil, waitid(P_PID, id_t(id), &info, WEXITED | WNOHANG | WNOWAIT) == 0 else { return false }
            return info._sifields._kill.si_pid == 0
        }
    }

    /// Sends a signal, if the program has not ended.
    package func send(_ signal: Int32) {
        ended.withLock { if $0 == nil { kill(id, signal) } }
    }

    /// Waits until the program has ended.
    ///
    /// - Returns: Its exit status; the signal's number if a signal has ended it.
    @discardableResult package func wait() -> Int32 {
        var info = siginfo_t()
        while waitid(P_PID, id_t(id), &info, WEXITED | WNOWAIT) != 0, errno == EINTR {}
        return ended.withLock { ended in
            if let ended { return ended }
            var status: Int32 = 0
            while waitpid(id, &status, 0) < 0, errno == EINTR {}
            let result = status & 0x7f == 0 ? status >> 8 & 0xff : status & 0x7f
            ended = result
            return result
        }
    }
}

extension TestProcess {
    /// How a program has ended, and what it has printed.
    package struct Outcome: Sendable {
        package var status: Int32
        package var output: String
        package var error: String
    }

    /// Runs a program to its end.
    ///
    /// - Throws: ``CannotStart``
    package static func run(
        _ command: [String], in folder: URL? = nil,
        environment: [String: String] = TestProcess.environment, input: [UInt8] = []
    ) throws -> Outcome {
        // Files instead of pipes: the program would wait if a pipe were full.
        let name = FileManager.default.temporaryDirectory.appending(path: "run-\(UUID().uuidString)").path
        let files = ["input", "output", "error"].map { URL(filePath: "\(name).\($0)") }
        defer { for file in files { try? FileManager.default.removeItem(at: file) } }
        try Data(input).write(to: files[0])
        let process = try TestProcess(
            command, in: folder, environment: environment, input: .file(files[0]), output: .file(files[1]),
            error: .file(files[2]))
        let status = process.wait()
        let texts = try files.dropFirst().map { String(decoding: try Data(contentsOf: $0), as: UTF8.self) }
        return Outcome(status: status, output: texts[0], error: texts[1])
    }
}
