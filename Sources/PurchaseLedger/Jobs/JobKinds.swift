// SPDX-License-Identifier: Apache-2.0

// The kinds of jobs. Decisions create jobs of the kinds `subscriptionStatus`, `consumption` and `grantEnd`. The module
// Reconciliation creates the jobs of the remaining kinds, and further jobs of the kind `subscriptionStatus`.

extension Job {
    /// All kinds of jobs known to this version.
    public static let kinds: [Kind] = [
        .notificationHistory, .customerHistory, .consumption, .subscriptionStatus, .parkedDocument, .backfill,
        .grantEnd, .webhook,
    ]

    /// The kinds of jobs that are only leases: no ``JobRunner`` does them.
    public static let leases: Set<Kind> = [.backfill, .webhook]
}

extension Job.Kind {
    /// Ask the App Store for the state of a subscription. The name is the original transaction id.
    public static let subscriptionStatus = Job.Kind(rawValue: "subscriptionStatus")
    /// Answer a consumption request. The name is the transaction id, the payload a ``ConsumptionQuestion``.
    public static let consumption = Job.Kind(rawValue: "consumption")
    /// Read the notification history. Each app and environment has a single such job. Its payload is the position in
    /// the history.
    public static let notificationHistory = Job.Kind(rawValue: "notificationHistory")
    /// Read the whole history of a customer. The name is an order id or a transaction id, the payload the question.
    public static let customerHistory = Job.Kind(rawValue: "customerHistory")
    /// Verify and record a notification that was invalid on arrival. The name is the digest of the notification, the
    /// payload the document, and the failure the reason.
    public static let parkedDocument = Job.Kind(rawValue: "parkedDocument")
    /// The lease of a running backfill of an app: a run that reads the histories of many customers into the ledger.
    /// Workers leave this job alone. Whatever the environments of the backfill, the job is in production. It has no
    /// name, and is due at the end of the lease.
    public static let backfill = Job.Kind(rawValue: "backfill")
    /// End a grant (``CustomerGrant``) at its end. The name is the grant's id, the payload the end.
    public static let grantEnd = Job.Kind(rawValue: "grantEnd")
    /// The lease of the deliveries to a ``WebhookEndpoint``, whose id is the name. The payload is the
    /// ``WebhookProgress``. Whatever the endpoint's environment, the job is in production. A lease that has ended needs
    /// no attention: the next server to look takes it.
    public static let webhook = Job.Kind(rawValue: "webhook")
}
