// SPDX-License-Identifier: Apache-2.0

// The list from which routes, commands and tests are made: a new operation is added here.

extension Operation {
    /// All operations, in the order of the table in `docs/api.md`.
    package static let all: [any NamedOperation.Type] = [
        GetCustomer.self, CheckEntitlement.self, SubmitPurchases.self, AddAlias.self, DeleteCustomer.self,
        ListCustomers.self, MakeGrant.self, ListGrants.self, EndGrant.self, GetAttributes.self, SetAttributes.self,
        GetSubscription.self, GetTransaction.self, GetEvidence.self, ListEvents.self, ShowSupport.self, ListAudit.self,
        GetConsumption.self, SupplyConsumption.self, RecordConsent.self, MovePurchase.self, DenyPurchase.self,
        AllowPurchase.self, UnlinkCustomer.self, UnmergeCustomer.self, AddWebhook.self, ListWebhooks.self,
        ShowWebhook.self, ChangeWebhook.self, RemoveWebhook.self, GetWebhookSecret.self, ListWebhookAttempts.self,
        RotateWebhook.self, PauseWebhook.self, ResumeWebhook.self, TestWebhook.self, ReplayWebhook.self,
        BackfillCustomer.self, LookUpOrder.self, ReadRefunds.self, SetAppAccountToken.self, ExtendSubscription.self,
        ExtendAll.self, GetExtension.self, AskTransaction.self, AskStatuses.self, AskHistory.self,
        AskAppTransaction.self, AskNotifications.self, RequestTestNotification.self, GetTestNotification.self,
        SignPromotionalOffer.self, SignIntroductoryOffer.self, SignAdvancedCommerce.self, SignCustomerOffer.self,
        GetKey.self, ShowOverview.self,
    ]
}
