package import Logging
import SyncHTTP
package import SyncModel
package import SyncStore
import Telemetry
import Tokens

extension Settings {
    /// A store for the database of these settings, with the rows and tables of all features.
    package func store(logger: Logger) -> Store {
        var configuration = StoreConfiguration(
            databaseURL: databaseURL,
            poolSize: databasePoolSize,
            committers: committers,
            leaseSeconds: leaseSeconds
        )
        configuration.hintsURL = hintsDatabaseURL
        configuration.commitsDirectly = directCommits
        configuration.masterKeys = masterKeys
        configuration.timeouts = databaseTimeouts
        configuration.devicesPerUser = maxDevicesPerUser
        configuration.retention = retentionPolicy
        configuration.participants = InstalledFeatures.list.flatMap { $0.participants }
        configuration.tables = InstalledFeatures.list.tables
        let store = Store(configuration, now: SystemClock.now, logger: logger)
        // An operator's machine may have no token settings. Without these settings, the program cannot interpret
        // documents that grant channels to a user by a UUID. It then keeps the stored grants of these documents. The
        // error is not logged: a gateway with invalid token settings does not start, and a command that evaluates
        // channels reports the error.
        store.catalog.setUUIDIssuers { try? tokenConfiguration().uuidIssuers }
        return store
    }

    /// A store for a command, with a single connection in its pool.
    package func commandStore() -> Store {
        var settings = self
        settings[.databasePoolSize] = "1"
        return settings.store(logger: .ofCommands())
    }

    package var retentionPolicy: RetentionPolicy {
        RetentionPolicy(payloadDays: retentionSucceededDays, days: retentionDays, auditDays: retentionAuditDays)
    }
}

extension Logger {
    /// Returns a logger for commands that print results. The logger writes only warnings and errors, to standard error.
    package static func ofCommands() -> Logger {
        Logger(label: "sluice") { LineLogHandler($0, .text, level: .warning, writer: .standardError) }
    }
}
