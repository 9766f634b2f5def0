// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// An app's information about a purchase for which a customer wants a refund, without the members that it lacks.
public struct ConsumptionInformation: Codable, Hashable, Sendable {
    /// Whether the customer consents to sending this information to Apple. If `nil`, the customer's recorded consent
    /// decides (``CustomerRecord/consentedAt``).
    public var customerConsented: Bool?
    /// Whether the purchase was delivered and worked.
    public var deliveryStatus: Open<DeliveryStatus>?
    /// Whether there was a trial or a sample.
    public var sampleContentProvided: Bool?
    /// The used share in thousandths of a percent, 0 to 100000. Not sent for auto-renewable subscriptions, because
    /// Apple knows the elapsed time.
    public var consumptionPercentage: Int?
    /// The developer's preferred decision.
    public var refundPreference: Open<RefundPreference>?

    /// Makes information without any member.
    public init() {}

    /// This information, with the members of `other` in place of absent members.
    public func completed(by other: ConsumptionInformation) -> ConsumptionInformation {
        var information = self
        information.customerConsented = customerConsented ?? other.customerConsented
        information.deliveryStatus = deliveryStatus ?? other.deliveryStatus
        information.sampleContentProvided = sampleContentProvided ?? other.sampleContentProvided
        information.consumptionPercentage = consumptionPercentage ?? other.consumptionPercentage
        information.refundPreference = refundPreference ?? other.refundPreference
        return information
    }

    /// The reason why Apple would refuse this information, as a sentence; `nil` if there is none.
    ///
    /// - Parameter isSubscription: Whether the purchase is an auto-renewable subscription; `nil` if unknown.
    public func fault(isSubscription: Bool?) -> String? {
        let percentage = consumptionPercentage ?? 0
        guard (0...100_000).contains(percentage) else { return "“consumptionPercentage” is not from 0 to 100000." }
        if let deliveryStatus, deliveryStatus != .delivered, percentage != 0 {
            return "“consumptionPercentage” must be 0 if the purchase was not delivered."
        }
        if isSubscription == false, refundPreference == .grantProrated, !(1..<100_000).contains(percentage) {
            return "GRANT_PRORATED needs a “consumptionPercentage” above 0 and below 100000."
        }
        return nil
    }

    /// The body of the answer; `nil` unless the customer consents and all members required by Apple are present.
    ///
    /// - Parameter isSubscription: Whether the purchase is an auto-renewable subscription.
    package func request(isSubscription: Bool) -> ConsumptionRequest? {
        guard customerConsented == true, let deliveryStatus, let sampleContentProvided else { return nil }
        var request = ConsumptionRequest(
            customerConsented: true, deliveryStatus: deliveryStatus, sampleContentProvided: sampleContentProvided)
        request.consumptionPercentage = isSubscription ? nil : consumptionPercentage
        request.refundPreference = refundPreference
        return request
    }

    /// The first missing requirement of ``request(isSubscription:)``, as a sentence; `nil` if the information is
    /// complete.
    package var gap: String? {
        if customerConsented != true { return "No consent of the customer is recorded." }
        if deliveryStatus == nil { return "deliveryStatus was not supplied, and the product has no default." }
        if sampleContentProvided == nil {
            return "sampleContentProvided was not supplied, and the product has no default."
        }
        return nil
    }
}

/// A consumption request of the App Store and its outcome: the payload of a ``RecordKind/consumption`` job.
public struct ConsumptionQuestion: Codable, Hashable, Sendable {
    /// The outcome of a request.
    public enum State: String, Codable, Sendable {
        /// The answer is pending, and is sent as soon as the app has supplied the necessary information.
        case waiting
        /// The App Store accepted the answer.
        case answered
        /// The customer did not consent, so nothing was sent.
        case withheld
        /// The App Store refused the answer.
        case refused
        /// The deadline passed without an answer.
        case missed
    }

    /// The time at which the App Store signed the request; for repeated requests, the last signing. If this server's
    /// clock is behind, the time of recording.
    public var requestedAt: Timestamp
    /// The outcome of the request.
    public var state = State.waiting
    /// The time at which the App Store accepted the answer; `nil` if it did not.
    public var answeredAt: Timestamp?
    /// The app's information about this transaction.
    public var information = ConsumptionInformation()
    /// The signing date of the last request, from which ``requestedAt`` was computed.
    let signedDate: Timestamp
    /// The dates of the requests and decisions about the transaction.
    var refund = RefundDates()

    init(signedDate: Timestamp, at now: Timestamp) {
        self.signedDate = signedDate
        requestedAt = min(signedDate, now)
    }

    /// How long a request and its outcome are kept. Apple repeats a request only within a day, but an operator may look
    /// for missed requests as rarely as once a month.
    package static let retention = Duration.seconds(30 * 86_400)

    /// The time at which the request and its outcome are erased.
    public var forgottenAt: Timestamp { requestedAt.advanced(by: Self.retention) }

    /// How long Apple waits for an answer: 12 hours, or 5 minutes in sandbox (Send Consumption Information).
    public static func timeout(in environment: Environment) -> Duration {
        .seconds(environment == .sandbox ? 300 : 43_200)
    }

    /// The time until which Apple waits for an answer.
    public func deadline(in environment: Environment) -> Timestamp {
        requestedAt.advanced(by: Self.timeout(in: environment))
    }

    /// Whether the app can still supply information for the answer.
    public func isOpen(in environment: Environment, at now: Timestamp) -> Bool {
        state != .answered && now < deadline(in: environment)
    }

    /// The request in a job's payload; `nil` if the job is of a different kind, or has a `RefundNote` as its payload.
    public init?(_ job: Job) {
        // Any error means that the payload has a different form.
        guard job.id.kind == .consumption, let question = try? JSONValue(parsing: job.payload).decode(Self.self) else {
            return nil
        }
        self = question
    }

    /// The job's payload.
    package var payload: [UInt8] {
        get throws { try JSONWriter.bytes(encoding: self) }
    }
}
