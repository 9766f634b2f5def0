// SPDX-License-Identifier: Apache-2.0

import HTTPTypes
import PurchaseLedger

/// What a person or a program may do with its key. A command of the operator has no key.
package enum GetKey: NamedOperation {
    package static let operation = Operation(
        .get, "/v1/key", "returns the name, the role and the app of the key in the request", roles: .all, [],
        unknown: "The key"
    ) { request in
        let isReader = Roles.readers.contains(request.role)
        return try Answer(
            request.key.map { key in
                KeyBody(key, isReader ? request.service.entitlements(of: key.bundleId).sorted() : nil)
            })
    }
}
