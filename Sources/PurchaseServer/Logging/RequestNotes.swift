// SPDX-License-Identifier: Apache-2.0

import AppStoreTrust
import Synchronization

/// The details of a request for its log line, besides route and status. The code that handles the request adds them.
final class RequestNotes: Sendable {
    /// The notes of the current task's request.
    @TaskLocal static var current: RequestNotes?

    struct Notes {
        /// The public part of the API key.
        var key: String?
        /// The code of the error in the response.
        var code: String?
        /// The `status` of a verifyReceipt response.
        var verifyReceiptStatus: Int?
        /// The name of the form of an unreadable document: never a part of the document.
        var form: String?
        /// The reason why a document was refused.
        var refusal: VerificationError?
        /// A failure of the server that the response does not report in the form of an error, as with verifyReceipt.
        var failure: (any Error)?
    }

    let id: String
    private let notes = Mutex(Notes())

    init(id: String) {
        self.id = id
    }

    var all: Notes { notes.withLock { $0 } }

    static func add(_ change: (inout Notes) -> Void) { current?.add(change) }

    func add(_ change: (inout Notes) -> Void) { notes.withLock { change(&$0) } }
}
