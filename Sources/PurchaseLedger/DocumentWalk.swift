// SPDX-License-Identifier: Apache-2.0

/// Reads all documents of a ledger in the order of their numbers, also if the storage is damaged.
///
/// It ends on any damage: each step continues behind a greater number than the last one, and behind documents that cannot be
/// found the steps grow.
struct DocumentWalk {
    enum Step {
        case documents([StoredDocument])
        /// Damage behind the document with this number.
        case damage(behind: Int64, String)
    }

    /// How many documents are read at once: some 10 MB.
    private static let page = 500

    /// How many numbers are tried one by one if not even the numbers of documents can be read. A page of a file has fewer
    /// documents. After that each step is twice as long as the last.
    private static let shortSteps = 1000

    let storage: any LedgerStorage
    /// The number of the last document that was read or passed over.
    private(set) var last: Int64 = 0
    /// Reads one document at a time up to here, since a page with a damaged document could not be read.
    private var singleUntil: Int64 = 0
    /// Steps since a document was found.
    private var misses = 0

    init(_ storage: any LedgerStorage) {
        self.storage = storage
    }

    /// - Returns: `nil` at the end.
    /// - Throws: ``LedgerStorageError`` other than `damaged`.
    mutating func next() async throws -> Step? {
        if last >= singleUntil {
            if let documents = try await documents(Self.page).undamaged { return found(documents) }
            singleUntil = last.advanced(upTo: Int64(Self.page))
        }
        switch try await documents(1) {
        case .success(let documents):
            guard let number = documents.first?.number, try await isMisplaced(number) else { return found(documents) }
            return try await passOver(Self.disorder)
        case .failure(let error): return try await passOver(error)
        }
    }

    /// Whether there are documents before this one that a search from the last one does not find: in a damaged file later
    /// documents may be in the place of earlier ones.
    private func isMisplaced(_ number: Int64) async throws -> Bool {
        var step: Int64 = 1
        while case let start = last.advanced(upTo: step), start < number {
            let found = try await read(number: \.self, after: start) { try $0.documentNumbers(after: start, limit: 1) }
            if let next = found.undamaged?.first, next < number { return true }
            step = step.advanced(upTo: step)
        }
        return false
    }

    private mutating func found(_ documents: [StoredDocument]) -> Step? {
        guard let end = documents.last else { return nil }
        (last, misses) = (end.number, 0)
        return .documents(documents)
    }

    /// Goes on behind the damaged document, or a step further if its number cannot be read.
    private mutating func passOver(_ error: LedgerStorageError) async throws -> Step? {
        // No number can be greater.
        guard last < .max else { return nil }
        let behind = last
        if let number = try await numbers(1).undamaged?.first, try await !isMisplaced(number) {
            (last, misses) = (number, 0)
        } else {
            misses += 1
            last = last.advanced(upTo: 1 << min(62, max(0, misses - Self.shortSteps)))
        }
        return .damage(behind: behind, error.message)
    }

    private func documents(_ limit: Int) async throws -> Result<[StoredDocument], LedgerStorageError> {
        try await read(number: \.number, after: last) { [last] in try $0.documents(after: last, limit: limit) }
    }

    private func numbers(_ limit: Int) async throws -> Result<[Int64], LedgerStorageError> {
        try await read(number: \.self, after: last) { [last] in try $0.documentNumbers(after: last, limit: limit) }
    }

    private static var disorder: LedgerStorageError {
        LedgerStorageError(.damaged, "Documents are not in the order of their numbers")
    }

    /// What a read finds if all numbers are greater than `last`, in order. In a damaged file they need not be.
    private func read<Item: Sendable>(
        number: KeyPath<Item, Int64>, after last: Int64, _ body: @escaping @Sendable (any LedgerReader) throws -> [Item]
    ) async throws -> Result<[Item], LedgerStorageError> {
        do {
            let items = try await storage.read(body)
            var previous = last
            for item in items {
                guard item[keyPath: number] > previous else { return .failure(Self.disorder) }
                previous = item[keyPath: number]
            }
            return .success(items)
        } catch let error as LedgerStorageError where error.code == .damaged {
            return .failure(error)
        }
    }
}

extension Result {
    fileprivate var undamaged: Success? { try? get() }
}

extension Int64 {
    /// The sum, but not more than the greatest number.
    fileprivate func advanced(upTo step: Int64) -> Int64 {
        let (sum, overflow) = addingReportingOverflow(step)
        return overflow ? .max : sum
    }
}
