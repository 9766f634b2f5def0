// SPDX-License-Identifier: Apache-2.0

/// The App Store's request for a message to a customer who is about to cancel: Apple's `DecodedRealtimeRequestBody`.
///
/// The request has no bundle id; `appAppleId` names the app. The App Store sends all members in every request.
///
/// A number in parentheses in this file is the version of the Retention Messaging API that introduced the member.
public struct DecodedRealtimeRequestBody: Codable, Hashable, Sendable {
    /// The id of the subscription: the transaction id of its first purchase, a string of digits.
    public var originalTransactionId: String?
    /// The app's Apple ID.
    public var appAppleId: Int64?
    /// The subscription's product.
    public var productId: String?
    /// The device's language, such as `en-US`.
    public var userLocale: String?
    /// The UUID of the request.
    public var requestIdentifier: String?
    /// The environment.
    public var environment: Open<Environment>?
    /// The time of the App Store's signature.
    public var signedDate: Timestamp?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}
}

extension DecodedRealtimeRequestBody: SignedPayload {
    public static var signedKind: SignedKind { .retentionRequest }
}

/// The message to show: Apple's `RealtimeResponseBody`. Set exactly one of `message`, `alternateProduct`,
/// `promotionalOffer` and `advancedCommerceInfo`.
public struct RealtimeResponseBody: Codable, Hashable, Sendable {
    /// A text, with or without an image.
    public var message: Message?
    /// A different product of the same subscription group.
    public var alternateProduct: AlternateProduct?
    /// A promotional offer.
    public var promotionalOffer: PromotionalOffer?
    /// An offer of the Advanced Commerce API (1.2).
    public var advancedCommerceInfo: AdvancedCommerceInfo?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}

    /// Apple's `Message`.
    public struct Message: Codable, Hashable, Sendable {
        /// The message's UUID.
        public var messageIdentifier: String?
        /// Members unknown to this version.
        public var unknownMembers = UnknownMembers()

        public init() {}
    }

    /// Apple's `AlternateProduct`.
    public struct AlternateProduct: Codable, Hashable, Sendable {
        /// The message's UUID.
        public var messageIdentifier: String?
        /// The product.
        public var productId: String?
        /// The billing plan of the alternate product. Set only if the product has billing plans.
        public var billingPlanType: Open<BillingPlanType>?
        /// Members unknown to this version.
        public var unknownMembers = UnknownMembers()

        public init() {}
    }

    /// Apple's `PromotionalOffer`. Set exactly one of the two signatures.
    public struct PromotionalOffer: Codable, Hashable, Sendable {
        /// The message's UUID.
        public var messageIdentifier: String?
        /// A JWS signed by the developer.
        public var promotionalOfferSignatureV2: String?
        /// A signature of version 1.
        public var promotionalOfferSignatureV1: PromotionalOfferSignatureV1?
        /// Members unknown to this version.
        public var unknownMembers = UnknownMembers()

        public init() {}
    }

    /// Apple's `PromotionalOfferSignatureV1`.
    public struct PromotionalOfferSignatureV1: Codable, Hashable, Sendable {
        /// Base64 of an ECDSA signature in DER.
        public var encodedSignature: String?
        /// The product.
        public var productId: String?
        /// A UUID in lower case, used once.
        public var nonce: String?
        /// The time of the signature. The signature is valid for 24 hours.
        public var timestamp: Timestamp?
        /// The id in App Store Connect of the key that made the signature.
        public var keyId: String?
        /// The offer's identifier in App Store Connect.
        public var offerIdentifier: String?
        /// The customer's UUID in lower case. Leave it out if the app has no UUID for the customer.
        public var appAccountToken: String?
        /// Members unknown to this version.
        public var unknownMembers = UnknownMembers()

        public init() {}
    }

    /// An offer of the Advanced Commerce API.
    public struct AdvancedCommerceInfo: Codable, Hashable, Sendable {
        /// The message's UUID.
        public var messageIdentifier: String?
        /// Base64 of JSON that contains a JWS signed by the developer.
        public var advancedCommerceData: String?
        /// Members unknown to this version.
        public var unknownMembers = UnknownMembers()

        public init() {}
    }
}

// MARK: - Messages and images

/// A message to submit for approval: Apple's `UploadMessageRequestBody`.
public struct UploadMessageRequestBody: Codable, Hashable, Sendable {
    /// The header. At most 66 characters.
    public var header: String?
    /// The text. At most 144 characters.
    public var body: String?
    /// The message's image.
    public var image: MessageImage?
    /// The position of the header (1.5).
    public var headerPosition: Open<HeaderPosition>?
    /// The bullet points. At most five (1.5).
    public var bulletPoints: [BulletPoint]?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}

    /// An image of a message.
    public struct MessageImage: Codable, Hashable, Sendable {
        /// The image's UUID.
        public var imageIdentifier: String?
        /// The alternative text. At most 150 characters.
        public var altText: String?
        /// Members unknown to this version.
        public var unknownMembers = UnknownMembers()

        public init() {}
    }

    /// A line of a message with a small image (1.5).
    public struct BulletPoint: Codable, Hashable, Sendable {
        /// The text. At most 66 characters.
        public var text: String?
        /// The image's UUID.
        public var imageIdentifier: String?
        /// The alternative text. At most 150 characters.
        public var altText: String?
        /// Members unknown to this version.
        public var unknownMembers = UnknownMembers()

        public init() {}
    }
}

/// The position of a message's header: Apple's `headerPosition`.
public enum HeaderPosition: String, CaseIterable, Sendable {
    case aboveBody = "ABOVE_BODY"
    case aboveImage = "ABOVE_IMAGE"
}

/// The images of an app: Apple's `GetImageListResponse`.
public struct GetImageListResponse: Codable, Hashable, Sendable {
    /// The images.
    public var imageIdentifiers: [Image]?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}

    /// An image of an app.
    public struct Image: Codable, Hashable, Sendable {
        /// The image's UUID.
        public var imageIdentifier: String?
        /// Whether Apple approved the image.
        public var imageState: Open<ApprovalState>?
        /// The purpose of the image.
        public var imageSize: Open<ImageSize>?
        /// Members unknown to this version.
        public var unknownMembers = UnknownMembers()

        public init() {}
    }
}

/// The purpose of an image: Apple's `imageSize` (1.5).
public enum ImageSize: String, CaseIterable, Sendable {
    case fullSize = "FULL_SIZE"
    case bulletPoint = "BULLET_POINT"
}

/// Whether Apple approved an image or a message: Apple's `imageState` and `messageState`.
///
/// In the sandbox, Apple approves images and messages immediately.
public enum ApprovalState: String, CaseIterable, Sendable {
    case pending = "PENDING"
    case approved = "APPROVED"
    case rejected = "REJECTED"
}

/// The messages of an app: Apple's `GetMessageListResponse`.
public struct GetMessageListResponse: Codable, Hashable, Sendable {
    /// The messages.
    public var messageIdentifiers: [Message]?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}

    /// A message of an app.
    public struct Message: Codable, Hashable, Sendable {
        /// The message's UUID.
        public var messageIdentifier: String?
        /// Whether Apple approved the message.
        public var messageState: Open<ApprovalState>?
        /// Members unknown to this version.
        public var unknownMembers = UnknownMembers()

        public init() {}
    }
}

/// The message shown if the app's server does not answer: Apple's `DefaultConfigurationRequest` and
/// `DefaultConfigurationResponse` (1.4).
public struct DefaultConfiguration: Codable, Hashable, Sendable {
    /// The message's UUID.
    public var messageIdentifier: String?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}
}

/// The URL to which the App Store sends its requests: Apple's `RealtimeUrlRequest` and `RealtimeUrlResponse` (1.4).
public struct RealtimeURL: Codable, Hashable, Sendable {
    /// The URL. At most 256 characters.
    public var realtimeURL: String?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}
}

// MARK: - Performance test

/// A test of the app's server: Apple's `PerformanceTestRequest` (1.3, sandbox).
public struct PerformanceTestRequest: Codable, Hashable, Sendable {
    /// The subscription of the test: a string of digits.
    public var originalTransactionId: String?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}
}

/// The parameters of a test of the app's server: Apple's `PerformanceTestConfig`.
public struct PerformanceTestConfig: Codable, Hashable, Sendable {
    /// The highest number of requests at a time.
    public var maxConcurrentRequests: Int64?
    /// The number of requests.
    public var totalRequests: Int64?
    /// The duration of the test, in milliseconds.
    public var totalDuration: Int64?
    /// The threshold for response times, in milliseconds.
    public var responseTimeThreshold: Int64?
    /// The threshold for the share of successful requests, in percent.
    public var successRateThreshold: Int64?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}
}

/// The start of a test of the app's server: Apple's `PerformanceTestResponse`.
public struct PerformanceTestResponse: Codable, Hashable, Sendable {
    /// The parameters of the test.
    public var config: PerformanceTestConfig?
    /// The UUID of the test.
    public var requestId: String?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}
}

/// The result of a test of the app's server: Apple's `PerformanceTestResultResponse`.
public struct PerformanceTestResultResponse: Codable, Hashable, Sendable {
    /// The parameters of the test.
    public var config: PerformanceTestConfig?
    /// The tested URL.
    public var target: String?
    /// The state of the test.
    public var result: Open<PerformanceTestStatus>?
    /// The share of successful requests, in percent.
    public var successRate: Int64?
    /// The number of requests not yet sent.
    public var numPending: Int64?
    /// The response times of the app's server.
    public var responseTimes: ResponseTimes?
    /// The number of failures by result. The keys are the raw values of ``SendAttemptResult``.
    public var failures: [String: Int64]?
    /// Members unknown to this version.
    public var unknownMembers = UnknownMembers()

    public init() {}

    /// Response times in milliseconds.
    public struct ResponseTimes: Codable, Hashable, Sendable {
        /// The mean, in milliseconds.
        public var average: Int64?
        /// The 50th percentile, in milliseconds.
        public var p50: Int64?
        /// The 90th percentile, in milliseconds.
        public var p90: Int64?
        /// The 95th percentile, in milliseconds.
        public var p95: Int64?
        /// The 99th percentile, in milliseconds.
        public var p99: Int64?
        /// Members unknown to this version.
        public var unknownMembers = UnknownMembers()

        public init() {}
    }
}

/// The state of a test.
public enum PerformanceTestStatus: String, CaseIterable, Sendable {
    case pending = "PENDING"
    case pass = "PASS"
    case fail = "FAIL"
}
