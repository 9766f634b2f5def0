// SPDX-License-Identifier: Apache-2.0

/// The form of an input: its differences from the plain form of a document (a token as is, a receipt as bytes or in
/// base64), and its documents.
///
/// Programs, logs and databases often change a receipt or a token on its way to the server. Harmless changes are undone
/// here, before any verification: at most `Limits.wrappings` wrappings, and any spelling of base64. The resulting
/// documents are in their canonical encodings. Therefore a verifier needs to accept only one encoding of a token, and a
/// document is stored once, whatever its form in the input.
package struct InputForm: Sendable {
    /// The steps undone, the outermost first. Empty for a plain document. Steps inside the elements of a list are not
    /// included.
    package let steps: [InputStep]

    /// The documents in their order. Only a list has several documents. A list element without a document has a fault
    /// of its own.
    package let documents: [Result<InputDocument, InputFault>]

    /// A stable name for logs: the steps and the kind of the first document, such as `jsonMember+quotes+receipt`.
    package var name: String {
        var names = steps.map(\.rawValue)
        for case .success(let document) in documents.prefix(1) { names.append(document.kind) }
        return names.joined(separator: "+")
    }

    /// Recognises the form of an input: text in UTF-8 or UTF-16, or binary data.
    ///
    /// - Throws: ``InputFault`` if the input contains no document.
    package init(recognizing bytes: ArraySlice<UInt8>) throws(InputFault) {
        var recognition = InputRecognition(bytes.count)
        documents = try recognition.documents(in: bytes)
        steps = recognition.steps
    }

    /// Recognises the form of any input. The fault of an input without a document is in the place of the documents.
    package init(naming bytes: ArraySlice<UInt8>) {
        var recognition = InputRecognition(bytes.count)
        do throws(InputFault) {
            documents = try recognition.documents(in: bytes)
        } catch {
            documents = [.failure(error)]
        }
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
