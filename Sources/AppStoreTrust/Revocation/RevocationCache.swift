// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import X509

/// What is known about the revocation of certificates, and what is being asked. Decides what is to be asked, but asks
/// nothing itself.
struct RevocationCache {
    /// What a question leads to.
    enum Finding {
        case known(RevocationStatus)
        /// A question on its way, for whose answer one can wait.
        case pending(RevocationInquiry)
    }

    /// The most certificates that something is remembered about. Only those are asked about whose signature was right, and
    /// in years the App Store has had a handful.
    static let certificateLimit = 256

    /// How long after a question without an answer the next is sent, in milliseconds: 30 seconds, so that a dead responder
    /// makes one document wait and not each. Longer than the deadline of a question.
    static let retryDelay: Int64 = 30_000

    /// How many questions may be given up on without their transport having returned. Only a transport that does not heed
    /// cancellation has any; with this many, nothing more is asked of it.
    static let strayLimit = 16

    fileprivate struct Entry {
        /// The last answer, which may be out of date.
        var answer: OCSPAnswer?
        /// The question on its way.
        var inquiry: RevocationInquiry?
        /// The last question that brought nothing new, and why.
        var failure: (sent: Timestamp, reason: String)?
    }

    private var entries: [CertificateKey: Entry] = [:]
    private var strays = 0

    /// Looks up what is known, or whom to wait for.
    ///
    /// - Returns: Also a new question, where one is to be sent now.
    mutating func find(_ question: OCSPQuestion, at now: Timestamp) -> (Finding, new: RevocationInquiry?) {
        let entry = entries[CertificateKey(question.certificate)] ?? Entry()
        let isResting = entry.failure.map { now.isNear($0.sent, within: Self.retryDelay) } ?? false
        if let answer = entry.answer, let status = answer.status(at: now) {
            guard answer.isAging(at: now), entry.inquiry == nil, !isResting else { return (.known(status), nil) }
            return (.known(status), begin(question, at: now).new)
        }
        if let inquiry = entry.inquiry { return (.pending(inquiry), nil) }
        if isResting, let failure = entry.failure { return (.known(.unknown(failure.reason)), nil) }
        return begin(question, at: now)
    }

    private mutating func begin(_ question: OCSPQuestion, at now: Timestamp) -> (Finding, new: RevocationInquiry?) {
        func refuse(_ reason: String) -> (Finding, new: RevocationInquiry?) { (.known(.unknown(reason)), nil) }
        guard let responder = question.responder else { return refuse("It names no OCSP responder.") }
        guard strays < Self.strayLimit else { return refuse("\(strays) earlier questions never came to an end.") }
        let key = CertificateKey(question.certificate)
        guard makeRoom(for: key) else { return refuse("More than \(Self.certificateLimit) are being asked about.") }
        let inquiry = RevocationInquiry(question, to: responder, at: now)
        entries[key, default: Entry()].inquiry = inquiry
        return (.pending(inquiry), inquiry)
    }

    /// Takes in what came of a question.
    ///
    /// - Returns: What those are to be told who wait for it.
    mutating func settle(_ inquiry: RevocationInquiry, _ outcome: Result<OCSPAnswer, OCSPFault>) -> RevocationStatus {
        let key = CertificateKey(inquiry.question.certificate)
        guard var entry = entries[key], entry.inquiry === inquiry else {
            // It was given up before, and those who waited were told so.
            strays -= 1
            return .unknown("The answer came too late.")
        }
        entry.inquiry = nil
        defer { entries[key] = entry }
        switch outcome {
        case .success(let answer):
            entry.take(answer, sent: inquiry.sent)
            return answer.status
        case .failure(let fault):
            // What is known stays known until it is out of date.
            entry.failure = (inquiry.sent, fault.reason)
            return .unknown(fault.reason)
        }
    }

    /// Stops waiting for a question that was not answered in time; does nothing to one that was.
    mutating func giveUp(_ inquiry: RevocationInquiry, _ reason: String) {
        let key = CertificateKey(inquiry.question.certificate)
        guard entries[key]?.inquiry === inquiry else { return }
        entries[key]?.inquiry = nil
        entries[key]?.failure = (inquiry.sent, reason)
        strays += 1
    }

    /// Forgets what is least worth, if need be. Never what was revoked, nor a question on its way.
    private mutating func makeRoom(for key: CertificateKey) -> Bool {
        guard entries[key] == nil, entries.count >= Self.certificateLimit else { return true }
        let candidates = entries.filter { $0.value.inquiry == nil && $0.value.answer?.isRevoked != true }
        let oldest = candidates.min { left, right in
            guard let right = right.value.answer?.until else { return false }
            return left.value.answer.map { $0.until < right } ?? true
        }
        guard let oldest else { return false }
        entries[oldest.key] = nil
        return true
    }
}

extension RevocationCache.Entry {
    /// Keeps an answer, unless it knows nothing newer than the one that is there: a cache in between may have given it.
    fileprivate mutating func take(_ new: OCSPAnswer, sent: Timestamp) {
        if let answer, !new.isRevoked, answer.isRevoked || new.until <= answer.until {
            failure = (sent, "The responder had nothing newer.")
        } else {
            answer = new
            failure = nil
        }
    }
}

extension OCSPAnswer {
    fileprivate var isRevoked: Bool {
        if case .revoked = status { true } else { false }
    }

    /// What the answer is worth at a time. What was revoked stays so.
    fileprivate func status(at now: Timestamp) -> RevocationStatus? {
        isRevoked || isCurrent(at: now) ? status : nil
    }

    /// Whether it is time to ask anew.
    fileprivate func isAging(at now: Timestamp) -> Bool { !isRevoked && renewal <= now }
}

/// A certificate by which to look things up. Hashed by its serial number, since all of it is a thousand bytes and this is
/// looked up for each document.
private struct CertificateKey: Hashable {
    private let certificate: Certificate

    init(_ certificate: Certificate) {
        self.certificate = certificate
    }

    func hash(into hasher: inout Hasher) {
        hasher.combine(certificate.serialNumber)
    }
}

extension Timestamp {
    /// Whether two times are less than so many milliseconds apart. Clocks of different threads may be a little before or
    /// behind one another.
    fileprivate func isNear(_ other: Timestamp, within limit: Int64) -> Bool {
        let (difference, overflow) = milliseconds.subtractingReportingOverflow(other.milliseconds)
        return !overflow && difference.magnitude < limit.magnitude
    }
}
