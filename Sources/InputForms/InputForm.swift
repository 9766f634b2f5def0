// SPDX-License-Identifier: Apache-2.0

/// The form in which somebody sent documents: the differences from the plain form, and the documents.
///
/// Programs, logs and databases change a receipt or a token on its way. What they change without damage is undone here,
/// before anything is verified: at most `Limits.wrappings` wrappings, and any spelling of base64. The documents are in
/// their canonical encodings, so that a verifier that accepts one encoding of a token accepts them, and one document is
/// stored once, however it was sent.
package struct InputForm: Sendable {
    /// What was undone, the outermost first. Nothing for a plain document.
    package let steps: [InputStep]

    /// The documents in their order. Only a list has several. An element of a list that is no document has a fault of
    /// its own.
    package let documents: [Result<InputDocument, InputFault>]

    /// A stable name for logs: the steps and the kind of the first document, such as `jsonMember+quotes+receipt`.
    package var name: String {
        var names = steps.map(\.rawValue)
        for case .success(let document) in documents.prefix(1) { names.append(document.kind) }
        return names.joined(separator: "+")
    }

    /// Recognises the form of an input: text in UTF-8 or UTF-16, or binary data.
    ///
    /// - Throws: ``InputFault`` if there is no document.
    package init(recognizing bytes: ArraySlice<UInt8>) throws(InputFault) {
        var recognition = InputRecognition(bytes.count)
        documents = try recognition.documents(in: bytes)
        steps = recognition.steps
    }

    /// The name of an input's form, or of its fault.
    package static func name(of bytes: ArraySlice<UInt8>) -> String {
        do {
            return try InputForm(recognizing: bytes).name
        } catch {
            return error.name.rawValue
        }
    }
}
