// SPDX-License-Identifier: Apache-2.0

// Keeps possible secrets out of messages.

extension String {
    /// Whether the text may be the address of a database with a password. Malformed addresses count too: errors end up
    /// in logs, so an error must not repeat such a text.
    package var mayHavePassword: Bool {
        let text = lowercased()
        return text.contains("password") || text.contains("postgre") || text.contains(/:.*@/)
    }
}
