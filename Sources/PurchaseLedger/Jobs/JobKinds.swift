// SPDX-License-Identifier: Apache-2.0

// The kinds of jobs. Decisions ask for the first two, and the module Reconciliation for the others.

extension Job {
    /// All kinds of jobs that this version knows.
    public static let kinds: [Kind] = [
        .notificationHistory, .customerHistory, .consumption, .subscriptionStatus, .parkedDocument, .backfill,
    ]
}

extension Job.Kind {
    /// Ask the App Store for the state of a subscription. The name is the original transaction id.
    public static let subscriptionStatus = Job.Kind(rawValue: "subscriptionStatus")
    /// Answer a consumption request. The name is the transaction id, the payload a ``ConsumptionQuestion``.
    public static let consumption = Job.Kind(rawValue: "consumption")
    /// Read the notification history. There is one such job for each app and environment; its payload is how far the
    /// history was read.
    public static let notificationHistory = Job.Kind(rawValue: "notificationHistory")
    /// Read the whole history of a customer. The name is an order id or a transaction id, the payload the question.
    public static let customerHistory = Job.Kind(rawValue: "customerHistory")
    /// Verify and record a notification that was not valid when it came. The name is its digest, the payload the
    /// document, and the failure the reason.
    public static let parkedDocument = Job.Kind(rawValue: "parkedDocument")
    /// A backfill of an app runs, in whatever environment: there is nothing to do for workers. The job is in
    /// production, has no name, and is due when its lease ends.
    public static let backfill = Job.Kind(rawValue: "backfill")
}
