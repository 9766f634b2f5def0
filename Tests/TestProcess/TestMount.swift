// SPDX-License-Identifier: Apache-2.0

/// Whether tests can mount disks.
package enum TestMount {
    /// Whether a mount succeeds, in a name space of its own. Root in a container may lack the right.
    package static let isPossible =
        (try? TestProcess.run(["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"]).status) == 0
}
