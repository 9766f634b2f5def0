// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import ArgumentParser
import Logging

/// The settings of a command's simulator.
struct SimulatorPlan {
    var catalogue: StoreCatalogue
    /// Determines the identifiers and the API key. With a seed, the certificates and their keys are the public ones of
    /// `StoreAuthority.fixture()`. If `nil`, each run has new identifiers, and the keys are those in the folder or new
    /// ones.
    var seed: UInt64?
    /// The first time; `nil` for the later of two times: the machine's time, and the earliest time that the folder
    /// allows.
    var start: Timestamp?
    var speed: Double
    var faults = Faults.none
    /// Configures the store, as the developer does with the forms of App Store Connect.
    var configure: (inout SimulatedStore) -> Void = { _ in }

    /// Creates the simulator. Without a seed, the folder then stores the simulator's state, so that no later run reuses
    /// its identifiers.
    ///
    /// - Parameters:
    ///   - folder: Stores the state between two runs, unless there is a seed; `nil` to store nothing.
    ///   - makesNewKeys: Whether to replace the keys in the folder.
    ///   - wall: The machine's time.
    /// - Returns: The simulator, the number of earlier runs, and a closure that stores the reached time in the folder.
    /// - Throws: `ValidationError` if the folder or the start time does not allow a run.
    func make(
        in folder: SimulatorFolder?, makesNewKeys: Bool, at wall: Timestamp, _ logger: Logger
    ) throws -> (simulator: Simulator, run: UInt64, keepTime: @Sendable (Timestamp) -> Void) {
        // The keys of a seed are public, so the folder need not store them.
        let keeper = seed == nil ? folder : nil
        let option = "--out \(folder?.path.printable ?? ""): "
        let kept = try asUsage(option) {
            try self.kept(in: folder, makesNewKeys: makesNewKeys, at: wall)
        }
        let roots = try SimulatorRoots(kept.keys.authority)
        guard roots.validity.contains(kept.time) else {
            let first = roots.validity.lowerBound.iso8601
            let last = roots.validity.upperBound.iso8601
            throw ValidationError(
                "--start: The time would be \(kept.time.iso8601), and the simulator's certificates are valid from "
                    + "\(first) to \(last)." + (folder == nil ? "" : " --new-keys makes new ones."))
        }
        try asUsage(option) {
            if let folder { try SimulatorHandout.prepare(folder) }
            try keeper?.keep(kept)
        }
        let world = World(seed: kept.seed, run: kept.run, catalogue: catalogue, now: kept.time)
        var store = SimulatedStore(
            world, WorldSigner(kept.keys.authority), kept.keys.key, faults: faults, seed: kept.seed &+ kept.run)
        configure(&store)
        return (
            Simulator(store, roots: roots, speed: speed, at: wall), kept.run,
            { time in
                do throws(SimulatorFolderError) {
                    var reached = kept
                    reached.time = time
                    try keeper?.keep(reached)
                } catch {
                    logger.error("The next run may repeat times of this run", metadata: ["reason": "\(error)"])
                }
            }
        )
    }

    private func kept(
        in folder: SimulatorFolder?, makesNewKeys: Bool, at wall: Timestamp
    ) throws(SimulatorFolderError) -> KeptSimulator {
        if let seed {
            guard folder?.has(SimulatorFolder.keysFile) != true else {
                throw SimulatorFolderError("The folder has other keys than those of --seed: name a different folder.")
            }
            return KeptSimulator(
                keys: try Self.keys { SimulatorKeys(try .fixture(), try StoreKey(seed: seed)) }, seed: seed,
                time: start ?? wall)
        }
        guard let before = try lastRun(in: folder, makesNewKeys: makesNewKeys) else {
            let first = start ?? wall
            let keys = try Self.keys { try Self.newKeys(from: first) }
            return KeptSimulator(keys: keys, seed: .random(in: 0...UInt64.max), time: first)
        }
        var next = try before.next()
        let earliest = before.time.advanced(by: .milliseconds(1))
        guard start ?? earliest >= earliest else {
            throw SimulatorFolderError(
                "The last run came to \(before.time.iso8601), and the clock does not go back: pass a later --start.")
        }
        next.time = max(start ?? wall, earliest)
        if makesNewKeys { next.keys = try Self.keys { [time = next.time] in try Self.newKeys(from: time) } }
        return next
    }

    /// The stored state of the last run. `nil` if there was none, or if the state is lost and new keys are made anyway.
    private func lastRun(
        in folder: SimulatorFolder?, makesNewKeys: Bool
    ) throws(SimulatorFolderError) -> KeptSimulator? {
        do throws(SimulatorFolderError) {
            return try folder?.kept()
        } catch {
            guard makesNewKeys else { throw error }
            return nil
        }
    }

    private static func keys(_ make: () throws -> SimulatorKeys) throws(SimulatorFolderError) -> SimulatorKeys {
        do { return try make() } catch { throw SimulatorFolderError("Keys cannot be made: \(error)") }
    }

    private static func newKeys(from start: Timestamp) throws -> SimulatorKeys {
        var random = SystemRandomNumberGenerator()
        // The certificates begin a day before the first time, so that they are valid for all signatures of the
        // simulator.
        let authority = try StoreAuthority(from: start.advanced(by: .seconds(-86_400)))
        return SimulatorKeys(authority, try StoreKey(using: &random))
    }
}
