// SPDX-License-Identifier: Apache-2.0

// Text of strangers, made fit for a terminal.

extension String {
    /// The beginning of bytes that a stranger sent, as text for people, who read it in a terminal. Characters that
    /// could change what a terminal shows become blanks, and so do the noncharacters, which no document should have.
    ///
    /// - Parameter limit: The maximum length of the text in bytes.
    package init(visible bytes: some Collection<UInt8>, limit: Int) {
        self.init()
        var count = 0
        for scalar in String(decoding: bytes, as: UTF8.self).unicodeScalars {
            let scalar = scalar.isInvisible ? " " : scalar
            count += UTF8.width(scalar)
            guard count <= limit else { break }
            unicodeScalars.append(scalar)
        }
    }
}

extension Unicode.Scalar {
    /// Whether the character only controls how others are shown, or is none.
    fileprivate var isInvisible: Bool {
        switch properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator: true
        default: properties.isNoncharacterCodePoint
        }
    }
}
