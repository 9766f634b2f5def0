// SPDX-License-Identifier: Apache-2.0

// Keeps what may be a secret out of messages.

extension String {
    /// Whether the text may be the address of a database with a password, also one that is not understood: errors end
    /// up in logs, so they do not repeat it.
    package var mayHavePassword: Bool {
        let text = lowercased()
        return text.contains("password") || text.contains("postgre") || text.contains(/:.*@/)
    }
}
