// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// A pending request to a responder (a server that knows which certificates were revoked). Several callers may await
/// the answer.
final class RevocationInquiry: Sendable {
    let question: OCSPQuestion
    let responder: String
    /// When the request was sent: the `now` of the first caller.
    let sent: Timestamp
    /// The status for the waiting callers: the answer or, if their timeout ends first, `unknown`. An answer after the
    /// timeout serves only later callers.
    let status = OneShot<RevocationStatus>()

    init(_ question: OCSPQuestion, to responder: String, at now: Timestamp) {
        self.question = question
        self.responder = responder
        sent = now
    }

    /// Checks a response.
    @inline(never)
    func read(_ response: [UInt8]) -> Result<OCSPAnswer, OCSPFault> {
        do throws(OCSPFault) {
            return .success(try question.answer(in: response, at: sent))
        } catch {
            return .failure(error)
        }
    }
}
