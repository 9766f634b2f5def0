// SPDX-License-Identifier: Apache-2.0

/// Tries what a target claims on one input of libFuzzer's. An input that is refused, so that `property` throws, is none to
/// claim anything about.
public func fuzz(_ start: UnsafePointer<UInt8>?, _ count: Int, _ property: ([UInt8]) throws -> Void) -> CInt {
    try? property(Array(UnsafeBufferPointer(start: start, count: count)))
    return 0
}

/// Ends the program, by which libFuzzer knows that it has found something.
public func require(_ holds: Bool, _ claim: String) {
    guard !holds else { return }
    fatalError("It is not so that \(claim).")
}

/// Ends the program where `body` throws.
public func requireNoError<Value>(_ claim: String, _ body: () throws -> Value) -> Value {
    do {
        return try body()
    } catch {
        fatalError("It is not so that \(claim): \(error)")
    }
}
