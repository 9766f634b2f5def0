// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// The reason why the simulator did not perform a control command.
struct ControlError: Error, Hashable {
    /// The kind of the error, for programs. The names are part of the control port's interface and must not change.
    enum Code: String {
        /// The path has no route.
        case unknownRoute
        /// The route exists with a different method.
        case methodNotAllowed
        /// The body is not a JSON object.
        case malformed
        /// A member is unknown or missing, or has an invalid value.
        case invalid
        case unknownCustomer
        case unknownProduct
        case unknownTransaction
        /// Several subscriptions or transactions fit, and the command names none.
        case ambiguous
        /// The App Store would refuse the command in the present state.
        case impossible
        /// The simulator itself failed.
        case failed
    }

    var code: Code
    /// A sentence that tells people how to correct the command.
    var message: String

    init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    /// The error that a command threw.
    init(_ error: any Error) {
        switch error {
        case let error as ControlError: self = error
        case let error as ImpossibleEvent: self.init(.impossible, "\(error).")
        default: self.init(.failed, "The simulator failed: \(error)")
        }
    }

    /// The status of the response.
    var status: Int {
        switch code {
        case .unknownRoute, .unknownCustomer, .unknownProduct, .unknownTransaction: 404
        case .methodNotAllowed: 405
        case .malformed, .invalid: 400
        case .ambiguous, .impossible: 409
        case .failed: 500
        }
    }

    /// `{"error": {"code": …, "message": …}}`.
    var json: JSONValue {
        .object([.init("error", .object([.init("code", .string(code.rawValue)), .init("message", .string(message))]))])
    }
}

extension ControlResponse {
    init(_ error: ControlError) { self.init(error.status, json: error.json) }
}
