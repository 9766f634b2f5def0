// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// A pending request to a responder, which several callers may await.
final class RevocationInquiry: Sendable {
    let question: OCSPQuestion
    let responder: String
    /// When it was sent: the `now` of the caller that caused it.
    let sent: Timestamp
    /// The status for waiting callers. An answer that comes after their timeout serves later callers only.
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
