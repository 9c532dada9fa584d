import CommandSupport
import Logging
import Telemetry

/// The log lines at the gateway's start: version, settings in force, and warnings. No secrets.
enum StartReport {
    static func log(_ settings: Settings, to logger: Logger) {
        var metadata: Logger.Metadata = [LogKeys.version: "\(Version.current)"]
        for (name, value) in settings.inForce { metadata[name] = "\(value)" }
        logger.info("Sluice starts", metadata: metadata)
        for warning in settings.warnings {
            logger.warning("Configuration should be reviewed", metadata: [LogKeys.reason: "\(warning)"])
        }
        let needed = settings.filesNeeded
        if FileLimit.current < needed {
            logger.warning(
                "The limit of open files is lower than the limit of connections; raise it (ulimit -n)",
                metadata: ["limit": .stringConvertible(FileLimit.current), "needed": .stringConvertible(needed)]
            )
        }
    }
}
