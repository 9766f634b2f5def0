// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// One question on its way to a responder.
final class RevocationInquiry: Sendable {
    let question: OCSPQuestion
    let responder: String
    /// The time at which it was sent, by the caller's clock.
    let sent: Timestamp
    /// What those are told who wait. Not what is known in the end, which may come when nobody waits any longer.
    let status = OneShot<RevocationStatus>()

    init(_ question: OCSPQuestion, to responder: String, at now: Timestamp) {
        self.question = question
        self.responder = responder
        sent = now
    }

    @inline(never)
    func read(_ response: [UInt8]) -> Result<OCSPAnswer, OCSPFault> {
        do throws(OCSPFault) {
            return .success(try question.answer(in: response, at: sent))
        } catch {
            return .failure(error)
        }
    }
}
