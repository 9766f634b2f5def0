// SPDX-License-Identifier: Apache-2.0

// Verifies every stored document again, compares every purchase (see ``Chain``) with its documents, and reads all
// customers and all other records.

import AppStoreModel
public import AppStoreTrust

extension Ledger {
    /// Verifies every document again, and derives every purchase from its documents again, as
    /// ``rebuild(by:at:onDocuments:)`` does. Reads all customers, records and events. The check changes no record, but
    /// reading events assigns numbers to events without a number, as each reading does, unless the storage was opened
    /// otherwise.
    ///
    /// - Parameters:
    ///   - verifier: A verifier with the same root certificates, apps and environments as when the documents arrived.
    ///     It should not check for revocation, because the servers asked about revocation forget certificates after
    ///     their expiry.
    ///   - onDocuments: Called with the number of documents verified so far.
    /// - Returns: The number of documents, and all faults.
    /// - Throws: ``LedgerStorageError`` other than `damaged`. Damage never stops the check.
    public func check(
        by verifier: AppStoreVerifier, onDocuments: (_ count: Int) -> Void = { _ in }
    ) async throws -> (documents: Int, faults: [Fault]) {
        var cursor: ScanCursor?
        var count = 0
        var faults: [Fault] = []
        repeat {
            let page = try await storage.documents(.all, after: cursor, limit: Self.page)
            // A single damaged page of a database file may make many consecutive documents unreadable.
            for damage in page.damage where faults.last?.error != damage { faults.append(Fault(error: damage)) }
            for case (let document, .failure(let fault)) in zip(
                page.items, await Evidence.verify(page.items, by: verifier))
            {
                faults.append(Fault(fault.code, document: document.name, error: fault.message))
            }
            count += page.items.count
            onDocuments(count)
            cursor = page.next
        } while cursor != nil
        faults += try await chainFaults(verifier)
        faults += try await customerFaults()
        faults += try await recordFaults(verifier.roots)
        return (count, faults + (try await eventFaults()))
    }

    /// The faults of unreadable events and bodies.
    private func eventFaults() async throws -> [Fault] {
        do {
            var faults: [Fault] = []
            for app in try await storage.marks().erasedEvents.keys.sorted() {
                faults += try await eventFaults(of: app)
            }
            return faults
        } catch let error as LedgerStorageError where error.code == .damaged {
            return [Fault(error: "The last given numbers cannot be read: \(error.message)")]
        }
    }

    /// For each of an app's events: a fault if its body is no JSON object. Also a fault for the first event with an
    /// unreadable row. No reader can get past such a row, so later events are not checked.
    private func eventFaults(of app: String) async throws -> [Fault] {
        var cursor: EventCursor?
        var limit = Self.page
        var faults: [Fault] = []
        while true {
            do {
                let page = try await storage.events(of: app, after: cursor, limit: limit)
                guard !page.events.isEmpty else { return faults }
                faults += page.events.compactMap { $0.bodyFault }
                cursor = page.next
            } catch EventCursorError.expired(let oldest) {
                // Old events were erased meanwhile.
                cursor = oldest
            } catch let error as LedgerStorageError where error.code == .damaged {
                limit /= 2
                guard limit == 0 else { continue }
                let place = cursor.map { "after \($0.rawValue)" } ?? "that comes first"
                return faults + [Fault(error: "The event of \(app) \(place) cannot be read: \(error.message)")]
            }
        }
    }

    /// The faults of unreadable customers and of unreadable grants (``CustomerGrant``). No document says anything about
    /// grants, so they are compared with nothing.
    private func customerFaults() async throws -> [Fault] {
        var cursor: ScanCursor?
        var limit = Self.page
        var faults: [Fault] = []
        while true {
            do {
                let page = try await storage.customers(after: cursor, limit: limit)
                faults += page.damage.map { Fault(error: $0) }
                faults += page.items.compactMap(\.grantFault)
                guard let next = page.next else { return faults }
                cursor = next
            } catch let error as LedgerStorageError where error.code == .damaged {
                // The page ends before the damaged customer. No reader of this storage can get past the customer.
                limit /= 2
                if limit == 0 { return faults + [Fault(error: error.message)] }
            }
        }
    }

    /// The faults of unreadable records, and a fault if the given root certificates are refused because of the roots
    /// noted in the ledger (``RootsNote``).
    private func recordFaults(_ roots: TrustRoots) async throws -> [Fault] {
        var cursor: ScanCursor?
        var faults: [Fault] = []
        var notes: [LedgerRecord] = []
        repeat {
            let page = try await storage.records(RecordSelection(), after: cursor, limit: Self.page)
            faults += page.damage.map { Fault(error: $0) }
            faults += page.items.compactMap(Self.fault)
            notes += page.items.filter { $0.key.kind == RootsNote.recordKind && Self.fault(in: $0) == nil }
            cursor = page.next
        } while cursor != nil
        if let refusal = Self.refusal(of: roots, by: notes) {
            faults.append(Fault("otherRoots", error: refusal.message))
        }
        return faults
    }

    /// The fault of a record that does not have the form of its kind; `nil` for a correct record or an unknown kind.
    @inline(never)
    private static func fault(in record: LedgerRecord) -> Fault? {
        do {
            _ = try RecordKind.forms[record.key.kind]?.init(record)
            return nil
        } catch {
            return Fault(error: error.message)
        }
    }

    /// The faults of chains that are unreadable, or that differ from their documents.
    private func chainFaults(_ verifier: AppStoreVerifier) async throws -> [Fault] {
        var cursor: ScanCursor?
        var faults: [Fault] = []
        var reader = DocumentReader(storage, verifier)
        repeat {
            let page = try await storage.chains(.all, after: cursor, limit: Self.page)
            faults += page.damage.map { Fault(error: $0) }
            let damaged = try await Self.skippingDamaged(page.items) { keys in
                _ = try await storage.load(LedgerQuery(keys.map(LedgerKey.chain), owners: true))
            }
            for (key, error) in damaged.sorted(by: { $0.key < $1.key }) {
                faults.append(Fault(unreadable: key, error))
            }
            for key in page.items where damaged[key] == nil {
                if let fault = try await comparison(of: key, from: &reader) { faults.append(fault) }
            }
            cursor = page.next
        } while cursor != nil
        return faults
    }

    /// Compares a chain with its documents. If a document cannot be read or verified, only the fault of this document
    /// is reported, not the difference that results from it.
    private func comparison(of key: ChainKey, from reader: inout DocumentReader) async throws -> Fault? {
        do {
            let derivation = try await derivation(of: key, from: &reader)
            return derivation.differs && derivation.isWhole ? Fault(differing: key) : nil
        } catch let error as LedgerStorageError where error.code == .damaged {
            return Fault(unreadable: key, error)
        }
    }

    /// The number of documents, chains or events read at once: about 10 MB.
    private static let page = 500
}

extension CustomerRecord {
    /// The fault of grants whose form this version does not know; `nil` if there are none.
    fileprivate var grantFault: Ledger.Fault? {
        let count = storedGrants.unreadable.count
        guard count > 0 else { return nil }
        return Ledger.Fault(
            error: """
                The customer \(customer.number) of \(customer.bundleId) has \(count) grants in a form unknown to this \
                version. They entitle to nothing here. If a newer version made them, run the newer version
                """)
    }
}

extension LedgerEvent {
    /// The fault of a body that is no JSON object; `nil` if the body is an object. The members are not checked, because
    /// a newer version may have written the body.
    fileprivate var bodyFault: Ledger.Fault? {
        let reason: String
        do throws(JSONError) {
            guard try JSONValue(parsing: body).members == nil else { return nil }
            reason = "It is no JSON object"
        } catch {
            reason = "\(error)"
        }
        return Ledger.Fault(
            error: "The body of the event \(cursor?.rawValue ?? "") of \(scope.bundleId) cannot be read: \(reason)")
    }
}
