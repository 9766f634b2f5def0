// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// What an app says about a purchase that a customer wants refunded. Members that are `nil` are not said.
public struct ConsumptionInformation: Codable, Hashable, Sendable {
    /// Whether the customer consents to this information being sent to Apple. `nil` leaves it to the consent that was
    /// recorded for the customer (``CustomerRecord/consentedAt``).
    public var customerConsented: Bool?
    /// Whether the purchase worked.
    public var deliveryStatus: Open<DeliveryStatus>?
    /// Whether there was a trial or a sample.
    public var sampleContentProvided: Bool?
    /// How much was used, in thousandths of a percent, 0 to 100000. Not sent for auto-renewable subscriptions, since
    /// Apple knows how much time has passed.
    public var consumptionPercentage: Int?
    /// The decision that the developer prefers.
    public var refundPreference: Open<RefundPreference>?

    /// Says nothing.
    public init() {}

    /// This information, with that of `other` if something is not said.
    public func completed(by other: ConsumptionInformation) -> ConsumptionInformation {
        var information = self
        information.customerConsented = customerConsented ?? other.customerConsented
        information.deliveryStatus = deliveryStatus ?? other.deliveryStatus
        information.sampleContentProvided = sampleContentProvided ?? other.sampleContentProvided
        information.consumptionPercentage = consumptionPercentage ?? other.consumptionPercentage
        information.refundPreference = refundPreference ?? other.refundPreference
        return information
    }

    /// Why Apple would refuse this information, as a sentence; `nil` if it would not.
    ///
    /// - Parameter isSubscription: Whether it is about an auto-renewable subscription; `nil` if that is not known.
    public func fault(isSubscription: Bool?) -> String? {
        let percentage = consumptionPercentage ?? 0
        guard (0...100_000).contains(percentage) else { return "consumptionPercentage is not from 0 to 100000." }
        if let deliveryStatus, deliveryStatus != .delivered, percentage != 0 {
            return "consumptionPercentage of what was not delivered is not 0."
        }
        if isSubscription == false, refundPreference == .grantProrated, !(1..<100_000).contains(percentage) {
            return "GRANT_PRORATED needs a consumptionPercentage above 0 and below 100000."
        }
        return nil
    }

    /// The body of the answer; `nil` unless the members that Apple requires are said, and the customer consents.
    ///
    /// - Parameter isSubscription: Whether it is about an auto-renewable subscription.
    package func request(isSubscription: Bool) -> ConsumptionRequest? {
        guard customerConsented == true, let deliveryStatus, let sampleContentProvided else { return nil }
        var request = ConsumptionRequest(
            customerConsented: true, deliveryStatus: deliveryStatus, sampleContentProvided: sampleContentProvided)
        request.consumptionPercentage = isSubscription ? nil : consumptionPercentage
        request.refundPreference = refundPreference
        return request
    }

    /// What is missing for ``request(isSubscription:)``, as a sentence; `nil` if nothing is.
    package var gap: String? {
        if customerConsented != true { return "No consent of the customer is recorded." }
        if deliveryStatus == nil { return "deliveryStatus was not supplied, and the product has no default." }
        if sampleContentProvided == nil {
            return "sampleContentProvided was not supplied, and the product has no default."
        }
        return nil
    }
}

/// A consumption request of the App Store, and what became of it: the payload of a ``RecordKind/consumption`` job.
public struct ConsumptionQuestion: Codable, Hashable, Sendable {
    /// What became of a request.
    public enum State: String, Codable, Sendable {
        /// It is to be answered, as soon as the app has supplied what the answer needs.
        case waiting
        /// The App Store accepted the answer.
        case answered
        /// The customer did not consent, so nothing was sent.
        case withheld
        /// The App Store refused the answer.
        case refused
        /// There was no answer before the deadline.
        case missed
    }

    /// When the App Store signed the request; of repeated ones, the last. Not later than when it was recorded, if this
    /// server's clock is behind.
    public var requestedAt: Timestamp
    /// What became of it.
    public var state = State.waiting
    /// When the App Store accepted the answer; `nil` if it did not.
    public var answeredAt: Timestamp?
    /// What the app supplied about this transaction.
    public var information = ConsumptionInformation()
    /// The signing date behind ``requestedAt``; `nil` of a request that an earlier version stored.
    var signedDate: Timestamp?
    /// All requests and decisions about the transaction; `nil` as before.
    var refund: RefundDates?

    public init(requestedAt: Timestamp) {
        self.requestedAt = requestedAt
    }

    /// How long a request and its outcome are kept. Apple repeats a request within a day; an operator looks for missed
    /// ones once a month.
    package static let retention = Duration.seconds(30 * 86_400)

    /// When the request and its outcome are forgotten.
    public var forgottenAt: Timestamp { requestedAt.advanced(by: Self.retention) }

    /// How long Apple waits for an answer: 12 hours, in sandbox 5 minutes (Send Consumption Information).
    public static func timeout(in environment: Environment) -> Duration {
        .seconds(environment == .sandbox ? 300 : 43_200)
    }

    /// When Apple stops waiting for an answer.
    public func deadline(in environment: Environment) -> Timestamp {
        requestedAt.advanced(by: Self.timeout(in: environment))
    }

    /// Whether the app can still supply something for the answer.
    public func isOpen(in environment: Environment, at now: Timestamp) -> Bool {
        state != .answered && now < deadline(in: environment)
    }

    /// The request that a job is about; `nil` if the job is of another kind.
    public init?(_ job: Job) {
        // Any error means that the payload has another form.
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
