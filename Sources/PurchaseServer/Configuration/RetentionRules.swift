// SPDX-License-Identifier: Apache-2.0

package import AppStoreAPI
public import AppStoreModel

/// Which retention message the App Store shows to a customer of an app who is about to cancel.
public struct RetentionRules: Hashable, Sendable {
    /// The rules. The first that applies decides.
    public var rules: [Rule] = []
    /// The message if no rule applies, or if the request cannot be judged in time; `nil` for none of ours.
    public var defaultMessage: String?

    /// Creates rules that name no message.
    public init() {}

    /// One rule.
    public struct Rule: Hashable, Sendable {
        /// The subscription's products that it is for; empty for all.
        public var products: Set<String> = []
        /// The languages that it is for, such as `de`, which includes `de-CH`; empty for all.
        public var locales: Set<String> = []
        /// The UUID of the message.
        public var message: String
        /// What the message shows with its text.
        public var addition: Addition?

        /// A rule for all products and languages.
        public init(message: String, _ addition: Addition? = nil) {
            self.message = message
            self.addition = addition
        }

        func applies(to product: String, in locale: String) -> Bool {
            (products.isEmpty || products.contains(product))
                && (locales.isEmpty || locales.contains { Self.range($0, includes: locale) })
        }

        /// Whether a language range includes a language tag (basic filtering, RFC 4647 section 3.3.1).
        private static func range(_ range: String, includes tag: String) -> Bool {
            (tag.lowercased() + "-").hasPrefix(range.lowercased() + "-")
        }
    }

    /// What a message shows with its text.
    public enum Addition: Hashable, Sendable {
        /// Another product of the same subscription group, and how it is billed if it has billing plans.
        case alternateProduct(String, billingPlanType: Open<BillingPlanType>?)
        /// A promotional offer of the subscription's product.
        case promotionalOffer(String)
    }

    /// The answer to a request; `nil` if there is no message for it.
    package func answer(to request: DecodedRealtimeRequestBody) -> RetentionAnswer? {
        let product = request.productId ?? ""
        let locale = request.userLocale ?? ""
        guard let rule = rules.first(where: { $0.applies(to: product, in: locale) }) else { return defaultAnswer }
        switch rule.addition {
        case nil: return .message(rule.message)
        case .alternateProduct(let productId, let plan):
            return .alternateProduct(message: rule.message, productId: productId, billingPlanType: plan)
        case .promotionalOffer(let offer):
            return .promotionalOffer(
                message: rule.message, PromotionalOffer(productId: product, offerIdentifier: offer))
        }
    }

    /// The answer in doubt. It is a message alone, which needs neither a key nor a verified request.
    package var defaultAnswer: RetentionAnswer? { defaultMessage.map(RetentionAnswer.message) }
}
