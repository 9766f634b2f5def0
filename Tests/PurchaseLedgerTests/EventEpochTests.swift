// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger
import Testing

/// Tests which cursors a ledger accepts after it was restored, perhaps several times.
@Suite struct EventEpochTests {
    /// The first number that follows, or the error with the oldest cursor that is left.
    private static func answer(_ epochs: EventEpochs, _ cursor: String, erased: Int64 = 0, last: Int64) -> String {
        do {
            return "\(try epochs.start(after: EventCursor(rawValue: cursor), erased: erased, last: last))"
        } catch {
            switch error {
            case .invalid: return "invalid"
            case .expired(let oldest): return "expired \(oldest.rawValue)"
            case .lost(let oldest): return "lost \(oldest.rawValue)"
            }
        }
    }

    /// A ledger that was restored at 100 and at 120.
    private static let restored = EventEpochs([
        EventEpoch(id: "o", last: 100), EventEpoch(id: "a", last: 120), EventEpoch(id: "b"),
    ])

    @Test(arguments: [
        ("0", "0"), ("100.o", "100"), ("101.o", "lost 100.o"), ("130.o", "lost 100.o"), ("101.a", "101"),
        ("50.a", "50"), ("120.a", "120"), ("121.a", "lost 120.a"), ("121.b", "121"), ("140.b", "140"),
        ("141.b", "lost 140.b"), ("100", "invalid"),
        ("100.c", "invalid"), ("100.", "invalid"), ("a", "invalid"), ("", "invalid"), ("-1", "invalid"),
        ("9223372036854775807.b", "lost 140.b"), ("9223372036854775808", "invalid"), ("1.b.c", "invalid"),
    ])
    func `a number counts in its own epoch, up to where the next one began`(cursor: String, answer: String) {
        #expect(Self.answer(Self.restored, cursor, last: 140) == answer)
    }

    @Test(arguments: [
        ("99.o", "expired 110.a"), ("101.o", "lost 110.a"), ("109.a", "expired 110.a"), ("110.a", "110"),
        ("121.a", "lost 120.a"), ("110.o", "lost 110.a"),
    ])
    func `erased events are told apart from lost ones`(cursor: String, answer: String) {
        #expect(Self.answer(Self.restored, cursor, erased: 110, last: 140) == answer)
    }

    @Test func `an event keeps its cursor, whatever epochs begin`() {
        var epochs = EventEpochs([EventEpoch(id: "a")])
        var cursors = [epochs.cursor(0), epochs.cursor(7)]
        for (id, last) in [("b", 7), ("c", 7), ("d", 9)] as [(String, Int64)] {
            epochs.begin(id, after: last)
            #expect([epochs.cursor(0), epochs.cursor(7)] == cursors)
        }
        cursors = [8, 9, 10].map { epochs.cursor($0) }
        #expect(cursors.map(\.rawValue) == ["8.c", "9.c", "10.d"])
    }

    /// The ledger whose file was replaced had numbered events of its own since the copy was made.
    @Test func `a ledger knows the epochs of the one that it replaces, up to where they part`() {
        // Restored from a copy that was made at 50, and replaced by a copy of the original, made at 100.
        var epochs = EventEpochs([EventEpoch(id: "a", last: 100), EventEpoch(id: "c")])
        epochs.begin("d", after: 100)
        epochs.add(replaced: EventEpochs([EventEpoch(id: "a", last: 50), EventEpoch(id: "b")]))
        for (cursor, answer) in [
            ("60.b", "lost 50.a"), ("50.b", "50"), ("100.a", "100"), ("101.a", "lost 100.a"), ("100.c", "100"),
            ("104.d", "104"), ("100.e", "invalid"),
        ] {
            #expect(Self.answer(epochs, cursor, last: 104) == answer, "\(cursor)")
        }
        #expect(epochs.cursor(104).rawValue == "104.d" && epochs.cursor(60).rawValue == "60.a")
    }

    @Test(arguments: [("0", "0"), ("1", "invalid"), ("3.a", "3"), ("4.a", "lost 3.a")])
    func `a number alone is no cursor, apart from the beginning`(cursor: String, answer: String) {
        #expect(Self.answer(EventEpochs([EventEpoch(id: "a")]), cursor, last: 3) == answer)
    }

    @Test func `of another ledger no epoch is taken over`() {
        var epochs = EventEpochs([EventEpoch(id: "a")])
        epochs.add(replaced: EventEpochs([EventEpoch(id: "x", last: 3), EventEpoch(id: "y")]))
        #expect(epochs.all.map(\.id) == ["a"])
    }
}
