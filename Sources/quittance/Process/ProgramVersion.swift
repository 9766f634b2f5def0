// SPDX-License-Identifier: Apache-2.0

import CBuildCommit
import PurchaseServer

/// The program's version in `--version` and in the log.
enum ProgramVersion {
    /// The version, and the commit of the sources if the build provides it, such as `0.1.0 (1f2e3d4c5b6a)`.
    static let text: String = {
        let commit = String(cString: quittance_build_commit())
        return commit.isEmpty ? ServerApplication.version : "\(ServerApplication.version) (\(commit))"
    }()
}
