// SPDX-License-Identifier: Apache-2.0

/// The kinds of findings of `quittance doctor`. Scripts rely on the raw values.
enum FindingKind: String, CaseIterable, Sendable {
    case configurationInvalid, keyFileUnusable, webhookSecretFileUnusable, rootsUnusable, appStoreInsecure
    case noLedger, noAppAppleId, noInAppPurchaseKey, keyOfOtherKind, keyNamedOtherwise, productOfTwoApps
    case unknownProduct, unknownOffer, offerWithoutKey, openToAll, configurationExposed, simulatorTrusted
    case kubernetesVariables, noErasureJournal
    case ledgerNotCurrent, ledgerUnusable, unfinishedCopy, notWritable, otherRoots, ledgerConcern, ledgerExposed
    case databaseSettings, diskFull, erasuresLost, ledgerDamaged
    case simulatorClockSilent, databaseClock, appStoreClock
    case keyRefused, keyNotInProduction, appStoreFailed, noNotification, historyLate, jobsFailed, jobsOverdue
    case productUnknown
    case webhookUnserved, webhookSetAside
    case serverSilent, serverNotReady, serverConcern, otherVersion, otherConfiguration, publicAddress
    case testRefused, testFailed, testUnrecorded

    /// The groups, in the order in which they are shown.
    enum Group: String, CaseIterable, Sendable {
        case configuration, ledger, clock, appStore, catalogue, webhooks, server, loop
    }

    /// With a fault, something does not work. A hint may be the intention of the operator.
    enum Level: String, Sendable {
        case fault, hint
    }

    var group: Group { row.0 }
    var level: Level { row.1 }
    /// The remedy, as a sentence.
    var cure: String { row.2 }

    private var row: (Group, Level, String) {
        switch self {
        case .configurationInvalid: (.configuration, .fault, "Correct it: docs/configuration.md lists all settings.")
        case .keyFileUnusable:
            (.configuration, .fault, "Set file to a SubscriptionKey_….p8 that the server's user alone may read.")
        case .webhookSecretFileUnusable:
            (.configuration, .fault, "Set webhookSecretFile to the file that all servers of the ledger share.")
        case .rootsUnusable: (.configuration, .fault, "Correct roots, intermediates or alsoAppleRoots.")
        case .appStoreInsecure: (.configuration, .fault, "Use https://, or pass --insecure in a network of your own.")
        case .noLedger: (.configuration, .hint, "To record purchases, set database, such as sqlite:quittance.sqlite.")
        case .noAppAppleId:
            (.configuration, .hint, "Set appAppleId to the Apple ID in App Store Connect: Apps, App Information.")
        case .noInAppPurchaseKey: (.configuration, .hint, "Set inAppPurchaseKey, to ask for lost notifications.")
        case .keyOfOtherKind:
            (.configuration, .hint, "Generate a key at Users and Access, Integrations, In-App Purchase, not another.")
        case .keyNamedOtherwise: (.configuration, .hint, "Correct keyId or file.")
        case .productOfTwoApps: (.configuration, .hint, "Leave the product in the app that sells it.")
        case .unknownProduct: (.configuration, .hint, "Correct the rule, or add the product to products.")
        case .unknownOffer: (.configuration, .hint, "Correct the rule, or add the offer to clientOffers.")
        case .offerWithoutKey: (.configuration, .hint, "Set the app's inAppPurchaseKey, which signs offers.")
        case .openToAll: (.configuration, .hint, "Put a proxy with TLS before it, and set trustedProxies.")
        case .configurationExposed: (.configuration, .hint, "Run chmod o= on the file.")
        case .simulatorTrusted: (.configuration, .hint, "Leave roots out in production: anybody can run a simulator.")
        case .kubernetesVariables: (.configuration, .hint, "Set enableServiceLinks to false, or rename the service.")
        case .noErasureJournal:
            (.configuration, .hint, "Set erasureJournal: a restored dump brings deleted customers back.")
        case .ledgerNotCurrent: (.ledger, .hint, "Start quittance serve, or run quittance migrate for a database.")
        case .ledgerUnusable: (.ledger, .fault, "Correct database, or what the sentence names.")
        case .unfinishedCopy: (.ledger, .fault, "Run the quittance copy again that made it, or name another ledger.")
        case .notWritable: (.ledger, .fault, "Give the server's user or role the rights.")
        case .otherRoots: (.ledger, .fault, "Name the ledger of these roots: docs/ledger.md.")
        case .ledgerConcern: (.ledger, .fault, "Do what the sentence says: docs/ledger.md.")
        case .ledgerExposed: (.ledger, .hint, "Run the chmod in the sentence.")
        case .databaseSettings: (.ledger, .hint, "Do what the sentence says: docs/postgresql-operations.md.")
        case .diskFull: (.ledger, .fault, "Make room: without it, no purchase is recorded.")
        case .erasuresLost: (.ledger, .fault, "Bring back the journal from a backup: docs/ledger.md.")
        case .ledgerDamaged: (.ledger, .fault, "Run quittance check.")
        case .simulatorClockSilent: (.clock, .fault, "Start quittance simulate, or leave simulatorClock out.")
        case .databaseClock: (.clock, .hint, "Set both clocks by NTP.")
        case .appStoreClock: (.clock, .fault, "Set this machine's clock by NTP.")
        case .keyRefused: (.appStore, .fault, "Compare with App Store Connect: Users and Access, Integrations.")
        case .keyNotInProduction: (.appStore, .hint, "Wait until the app has been in the App Store.")
        case .appStoreFailed: (.appStore, .fault, "Do what the sentence says, or see DNS and the firewall.")
        case .noNotification: (.appStore, .hint, "Try --loop: the URL may be missing in App Store Connect.")
        case .historyLate: (.appStore, .fault, "Start the server. If it runs, see quittance jobs --failed.")
        case .jobsFailed: (.appStore, .hint, "See quittance jobs --failed, and later run quittance jobs retry.")
        case .jobsOverdue: (.appStore, .fault, "Start the server, which does them.")
        case .productUnknown: (.catalogue, .fault, "Add them to products, with \"entitlements\": [] if they give none.")
        case .webhookUnserved: (.webhooks, .fault, "Do what the sentence says: docs/webhooks.md.")
        case .webhookSetAside: (.webhooks, .hint, "When the receiver works, run quittance webhooks replay --set-aside.")
        case .serverSilent: (.server, .fault, "Start the server, or correct --server or healthPort.")
        case .serverNotReady: (.server, .fault, "Read the log of the server.")
        case .serverConcern: (.server, .hint, "Do what the sentence says: docs/operating.md.")
        case .otherVersion: (.server, .hint, "Restart the server, or use the program of its version.")
        case .otherConfiguration: (.server, .fault, "Restart the server, or pass its options, variables and user.")
        case .publicAddress: (.server, .fault, "Let the proxy pass requests on to the server, or correct --public.")
        case .testRefused:
            (.loop, .fault, "Set up the URL, version 2: App Information, App Store Server Notifications.")
        case .testFailed: (.loop, .fault, "Do what the sentence says, and try again.")
        case .testUnrecorded: (.loop, .fault, "Correct the URL in App Store Connect, or read the log behind it.")
        }
    }
}
