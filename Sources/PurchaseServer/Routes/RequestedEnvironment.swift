// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel
package import PurchaseLedger

/// The environments of a request: its query parameter `environment`.
enum RequestedEnvironment: Hashable, Sendable {
    /// The request names no environment. The purchases in production count for the answer, and those in the sandbox
    /// according to the app's `sandboxAccess`.
    case unnamed
    /// `any`: production and the sandbox.
    case any
    /// A single environment by its name.
    case one(Environment)

    /// The environments of the App Store.
    static let appStore: Set<Environment> = [.production, .sandbox]
}

extension RequestedEnvironment {
    /// - Parameter name: A word of the field ``Field/environments``; `nil` if the request has none.
    init(_ name: String?) {
        self = name.map { Environment(named: $0).map { .one($0) } ?? .any } ?? .unnamed
    }
}

extension SandboxSetting {
    /// The setting of an app. On a server without the sandbox, sandbox purchases of no customer count.
    package init(of app: AppConfiguration, _ bundleId: String, in configured: Set<Environment>) {
        let access = configured.contains(.sandbox) ? app.sandboxAccess : .none
        self.init(access.rawValue, listed: access == .listed ? app.sandboxCustomers : [], of: bundleId)
    }
}

/// The rule for the environments that count in an answer about a customer: the answer has the purchases in these
/// environments. Each environment is evaluated on its own facts. Only the results are put together in one answer.
struct EnvironmentRule: Sendable {
    let requested: RequestedEnvironment
    /// The environments whose documents the ledger records.
    let configured: Set<Environment>
    let sandboxAccess: SandboxAccess
    /// The normalized ids of the customers whose sandbox purchases count with ``SandboxAccess/listed``.
    let sandboxCustomers: Set<String>

    /// The environments to load: all environments that may count, and others, because the answer also names the
    /// environments that do not count but in which the customer has entitlements.
    var loaded: Set<Environment> {
        switch requested {
        case .unnamed: configured.union(RequestedEnvironment.appStore)
        case .any: RequestedEnvironment.appStore
        case .one(let environment): [environment]
        }
    }

    /// The environments that count for a customer, production first.
    ///
    /// - Parameter ids: All ids of the customer.
    func counted(for ids: [String]) -> [Environment] {
        switch requested {
        case .unnamed: [.production] + (configured.contains(.sandbox) && isTester(ids) ? [.sandbox] : [])
        case .any: [.production, .sandbox]
        case .one(let environment): [environment]
        }
    }

    private func isTester(_ ids: [String]) -> Bool {
        switch sandboxAccess {
        case .all: true
        case .listed:
            ids.contains { id in sandboxCustomers.contains(id) && sandboxCustomers.contains { $0.isSameID(as: id) } }
        case .none: false
        }
    }
}
