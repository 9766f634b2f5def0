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
    case webhookUnserved, webhookFailing, webhookSetAside
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
    /// The remedy, as a sentence in which ``Findings`` puts the options and the address.
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
        case .ledgerNotCurrent: (.ledger, .hint, "Start quittance serve, or run quittance migrate […] for a database.")
        case .ledgerUnusable:
            (.ledger, .fault, "Correct database. After damage, quittance restore BACKUP […] replaces the file.")
        case .unfinishedCopy: (.ledger, .fault, "Run the quittance copy again that made it, or name another ledger.")
        case .notWritable: (.ledger, .fault, "Give the server's user or role the rights.")
        case .otherRoots: (.ledger, .fault, "Name the ledger of these roots: docs/ledger.md.")
        case .ledgerConcern:
            (.ledger, .fault, "quittance restore BACKUP […] ends damage: docs/ledger.md has the steps.")
        case .ledgerExposed: (.ledger, .hint, "Run the chmod in the sentence.")
        case .databaseSettings:
            (.ledger, .hint, "Change it by ALTER SYSTEM or ALTER ROLE: docs/postgresql-operations.md.")
        case .diskFull: (.ledger, .fault, "Make room: without it, no purchase is recorded.")
        case .erasuresLost:
            (
                .ledger, .fault,
                """
                Stop the server. If line 1 is damaged, put line 1 of any copy in its place (quittance backup TARGET \
                makes TARGET-erasures). Otherwise put back the newest copy, followed by what begins at the second \
                quittance-erasures of the present file. If there is no copy, run quittance restore --new-epoch \
                --force […]: this accepts the loss (docs/ledger.md). Then start.
                """
            )
        case .ledgerDamaged: (.ledger, .fault, "Run quittance check […] --all, which lists all damage.")
        case .simulatorClockSilent: (.clock, .fault, "Start quittance simulate, or leave simulatorClock out.")
        case .databaseClock: (.clock, .hint, "Set both clocks by NTP.")
        case .appStoreClock: (.clock, .fault, "Set this machine's clock by NTP.")
        case .keyRefused:
            (.appStore, .fault, "Compare at Users and Access, Integrations. Correct the configuration, and restart.")
        case .keyNotInProduction: (.appStore, .hint, "Wait until the app has been in the App Store.")
        case .appStoreFailed:
            (.appStore, .fault, "Let DNS and firewall pass api.storekit(-sandbox).apple.com (appStoreServer), or wait.")
        case .noNotification:
            (.appStore, .hint, "Run this command with --loop: the URL may be missing in App Store Connect.")
        case .historyLate:
            (.appStore, .fault, "Start the server. If it runs, see quittance jobs --failed […] for the reason.")
        case .jobsFailed:
            (.appStore, .hint, "See quittance jobs --failed […]. Run quittance jobs retry --failed […] to try at once.")
        case .jobsOverdue: (.appStore, .fault, "Start the server, which does them.")
        case .productUnknown:
            (.catalogue, .fault, "Add them with \"entitlements\": [\"pro\"] (or []), and restart: this evaluates them.")
        case .webhookUnserved:
            (.webhooks, .fault, "Set webhookSecretFile to the file of all servers of the ledger, and restart.")
        case .webhookFailing: (.webhooks, .hint, "Let the receiver answer 200.")
        case .webhookSetAside: (.webhooks, .hint, "Let the receiver answer 200, and replay the events.")
        case .serverSilent: (.server, .fault, "Start the server, or correct --server or healthPort.")
        case .serverNotReady: (.server, .fault, "Read the log of the server.")
        case .serverConcern: (.server, .hint, "docs/operating.md says what ends each concern.")
        case .otherVersion: (.server, .hint, "Restart the server, or use the program of its version.")
        case .otherConfiguration:
            (.server, .fault, "If the file is right, restart the server. If not, correct it or the options of doctor.")
        case .publicAddress: (.server, .fault, "Let the proxy pass requests on to the server, or correct --public.")
        case .testRefused:
            (.loop, .fault, "Enter [url], version 2, at App Information, App Store Server Notifications.")
        case .testFailed:
            (
                .loop, .fault,
                """
                The URL in App Store Connect must be exactly [url]. Status 404 in the server's log is a wrong path. No \
                line in the log means that a proxy or another server answered.
                """
            )
        case .testUnrecorded: (.loop, .fault, "Let the URL in App Store Connect be that of this server: [url].")
        }
    }
}
