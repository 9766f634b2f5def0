// SPDX-License-Identifier: Apache-2.0

package import AppStoreAPI
public import AppStoreModel

/// The rules for the retention message that the App Store shows to a customer about to cancel a subscription.
public struct RetentionRules: Hashable, Sendable {
    /// The rules. The first applicable rule decides.
    public var rules: [Rule] = []
    /// The UUID of the message if no rule applies, if the request is unreadable or cannot be verified in time, or if
    /// the offer of the rule cannot be signed; `nil` for no message.
    public var defaultMessage: String?

    /// Creates an empty list of rules, without a default message.
    public init() {}

    /// A rule: a message for some products and languages.
    public struct Rule: Hashable, Sendable {
        /// The ids of the subscription's products; empty for all.
        public var products: Set<String> = []
        /// The languages, such as `de`, which includes `de-CH`; empty for all.
        public var locales: Set<String> = []
        /// The UUID of the message.
        public var message: String
        /// The addition to the message's text; `nil` for none.
        public var addition: Addition?

        /// Creates a rule for all products and languages.
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

    /// An addition to a message's text.
    public enum Addition: Hashable, Sendable {
        /// Another product of the same subscription group, and its billing plan if the product has billing plans.
        case alternateProduct(String, billingPlanType: Open<BillingPlanType>?)
        /// A promotional offer of the subscription's product.
        case promotionalOffer(String)
    }

    /// The answer to a request; `nil` if the rules have no message for the request.
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

    /// The answer with the default message alone. Without an addition, the message needs neither a key nor a verified
    /// request.
    package var defaultAnswer: RetentionAnswer? { defaultMessage.map(RetentionAnswer.message) }
}
