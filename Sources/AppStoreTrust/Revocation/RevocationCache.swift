// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import X509

/// The cached answers of OCSP responders about certificates, and the pending requests. The cache decides when a request
/// is due, but does not send it.
struct RevocationCache {
    /// The result of a look-up.
    enum Finding {
        /// A status from the cache, or `unknown` if no request may be sent.
        case known(RevocationStatus)
        /// A pending request for the caller to await.
        case pending(RevocationInquiry)
    }

    /// The maximum number of certificates in the cache. Only certificates of verified chains are looked up, and the App
    /// Store has used no more than a handful over the years.
    static let certificateLimit = 256

    /// How long the cache backs off after a failed request, in milliseconds: 30 seconds, so that a dead responder does
    /// not delay every document. The back-off is longer than the default deadline of a request.
    static let retryDelay: Int64 = 30_000

    /// The maximum number of cancelled requests whose transport has not returned. Only a transport that ignores
    /// cancellation leaves such requests. Once the maximum is reached, no further request is sent.
    static let strayLimit = 16

    fileprivate struct Entry {
        /// The last answer, possibly expired.
        var answer: OCSPAnswer?
        /// The pending request.
        var inquiry: RevocationInquiry?
        /// When the last ended request was sent, and why it failed. `nil` if no request has ended yet, or if the last
        /// one brought a newer answer.
        var failure: (sent: Timestamp, reason: String)?
    }

    private var entries: [CertificateKey: Entry] = [:]
    private var strays = 0

    /// Looks up a status, or the pending request for the status.
    ///
    /// - Returns: The result, and a new request if the caller must send a request now.
    mutating func find(_ question: OCSPQuestion, at now: Timestamp) -> (Finding, new: RevocationInquiry?) {
        let entry = entries[CertificateKey(question)] ?? Entry()
        let isBackingOff = entry.failure.map { now.isNear($0.sent, within: Self.retryDelay) } ?? false
        if let answer = entry.answer, let status = answer.status(at: now) {
            guard answer.isAging(at: now), entry.inquiry == nil, !isBackingOff else { return (.known(status), nil) }
            return (.known(status), begin(question, at: now).new)
        }
        if let inquiry = entry.inquiry { return (.pending(inquiry), nil) }
        if isBackingOff, let failure = entry.failure { return (.known(.unknown(failure.reason)), nil) }
        return begin(question, at: now)
    }

    private mutating func begin(_ question: OCSPQuestion, at now: Timestamp) -> (Finding, new: RevocationInquiry?) {
        func refuse(_ reason: String) -> (Finding, new: RevocationInquiry?) { (.known(.unknown(reason)), nil) }
        guard let responder = question.responder else { return refuse("The certificate names no OCSP responder.") }
        guard strays < Self.strayLimit else { return refuse("\(strays) earlier requests never ended.") }
        let key = CertificateKey(question)
        guard makeRoom(for: key) else {
            return refuse("Requests about \(Self.certificateLimit) other certificates are pending.")
        }
        let inquiry = RevocationInquiry(question, to: responder, at: now)
        entries[key, default: Entry()].inquiry = inquiry
        return (.pending(inquiry), inquiry)
    }

    /// Stores the outcome of a request.
    ///
    /// - Returns: The status for the waiting callers.
    mutating func settle(_ inquiry: RevocationInquiry, _ outcome: Result<OCSPAnswer, OCSPFault>) -> RevocationStatus {
        let key = CertificateKey(inquiry.question)
        guard var entry = entries[key], entry.inquiry === inquiry else {
            // The request was given up earlier, and its callers were resumed.
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
            // A cached answer stays valid until it expires.
            entry.failure = (inquiry.sent, fault.reason)
            return .unknown(fault.reason)
        }
    }

    /// Gives up a request that was not answered by the deadline. Has no effect if the request was answered.
    mutating func giveUp(_ inquiry: RevocationInquiry, _ reason: String) {
        let key = CertificateKey(inquiry.question)
        guard entries[key]?.inquiry === inquiry else { return }
        entries[key]?.inquiry = nil
        entries[key]?.failure = (inquiry.sent, reason)
        strays += 1
    }

    /// Makes room in a full cache: drops an entry without an answer, otherwise the answer that expires first. Keeps
    /// every revocation and every pending request.
    ///
    /// - Returns: Whether there is room.
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
    /// Stores an answer. A good answer replaces neither a revocation nor an answer with the same or a later end,
    /// because an HTTP cache may return old responses.
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

    /// The status at `now`, or `nil` if the answer has expired. A revocation never expires.
    fileprivate func status(at now: Timestamp) -> RevocationStatus? {
        isRevoked || isCurrent(at: now) ? status : nil
    }

    /// Whether to request the next answer.
    fileprivate func isAging(at now: Timestamp) -> Bool { !isRevoked && renewal <= now }
}

/// A certificate as a key of the cache, by the values that OCSP compares (RFC 6960 section 4.1.1). A responder does not
/// distinguish certificates with the same issuer and serial number, so such certificates must have the same status
/// here.
private struct CertificateKey: Hashable {
    private let serialNumber: Certificate.SerialNumber
    private let issuer: DistinguishedName
    private let issuerKey: Certificate.PublicKey

    init(_ question: OCSPQuestion) {
        serialNumber = question.certificate.serialNumber
        issuer = question.certificate.issuer
        issuerKey = question.issuer.publicKey
    }

    /// Hashes only the serial number. Names and keys have hundreds of bytes and are looked up for each document.
    func hash(into hasher: inout Hasher) {
        hasher.combine(serialNumber)
    }
}

extension Timestamp {
    /// Whether two times are less than `limit` milliseconds apart, in either direction. Each caller passes its own
    /// `now`, so the `now` of a later call may be earlier.
    fileprivate func isNear(_ other: Timestamp, within limit: Int64) -> Bool {
        let (difference, overflow) = milliseconds.subtractingReportingOverflow(other.milliseconds)
        return !overflow && difference.magnitude < limit.magnitude
    }
}
