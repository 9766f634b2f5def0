// SPDX-License-Identifier: Apache-2.0

/// Checks a target's property for one input of libFuzzer. If `property` throws, the input was refused, and there is
/// nothing to check.
public func fuzz(_ start: UnsafePointer<UInt8>?, _ count: Int, _ property: ([UInt8]) throws -> Void) -> CInt {
    try? property(Array(UnsafeBufferPointer(start: start, count: count)))
    return 0
}

/// Ends the program if a claim is false, which libFuzzer reports as a crash.
public func require(_ holds: Bool, _ claim: String) {
    guard !holds else { return }
    fatalError("Not true: \(claim).")
}

/// Ends the program if `body` throws.
public func requireNoError<Value>(_ claim: String, _ body: () throws -> Value) -> Value {
    do {
        return try body()
    } catch {
        fatalError("Not true: \(claim). \(error)")
    }
}
