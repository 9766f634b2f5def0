// SPDX-License-Identifier: Apache-2.0

// The kinds of records known to this version, each with the type of its values.

extension RecordKind {
    /// The type of the values of each kind. A new kind of record is added here, so that
    /// ``Ledger/check(by:onDocuments:)`` finds damage in its records. A kind that is missing here belongs to a newer
    /// version.
    package static let forms: [RecordKind: any RecordValue.Type] = {
        var forms: [RecordKind: any RecordValue.Type] = [
            APIKey.recordKind: APIKey.self, AuditEntry.recordKind: AuditEntry.self,
            CatalogueChange.recordKind: CatalogueChange.self, CatalogueDigest.recordKind: CatalogueDigest.self,
            CustomerAttributes.recordKind: CustomerAttributes.self,
            DeletedCustomer.recordKind: DeletedCustomer.self, ErasureNote.recordKind: ErasureNote.self,
            GrantNote.recordKind: GrantNote.self, MergeNote.recordKind: MergeNote.self,
            MergedCustomers.recordKind: MergedCustomers.self, RemovedIds.recordKind: RemovedIds.self,
            RootsNote.recordKind: RootsNote.self, SandboxSetting.recordKind: SandboxSetting.self,
            UnfinishedCopy.key.kind: UnfinishedCopy.self, WebhookEndpoint.recordKind: WebhookEndpoint.self,
            FailedDelivery.recordKind: FailedDelivery.self, WebhookAttempts.recordKind: WebhookAttempts.self,
            WebhookFingerprint.recordKind: WebhookFingerprint.self,
        ]
        for kind in Job.kinds { forms[kind] = Job.self }
        for kind in Notice.Kind.allCases { forms[kind.record] = StoredNotice.self }
        return forms
    }()
}
