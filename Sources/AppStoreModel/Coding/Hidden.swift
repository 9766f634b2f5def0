// SPDX-License-Identifier: Apache-2.0

/// A secret that no description shows, however deep it lies in the value that is described. A log line may have any
/// value of the program: libraries print their arguments whole at the levels debug and trace.
@propertyWrapper
public struct Hidden<Value: Sendable>: Sendable {
    /// The secret.
    public var wrappedValue: Value

    public init(wrappedValue: Value) { self.wrappedValue = wrappedValue }
}

extension Hidden: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    public var description: String { "…" }
    public var debugDescription: String { description }
    /// A mirror without children.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

extension Hidden: Equatable where Value: Equatable {}
extension Hidden: Hashable where Value: Hashable {}
