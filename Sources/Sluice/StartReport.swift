import Logging
import Telemetry

/// The log lines at the gateway's start: version, settings in force, and warnings. No secrets.
enum StartReport {
    static func log(_ settings: Settings, to logger: Logger) {
        var metadata: Logger.Metadata = [LogKeys.version: "\(Version.current)"]
        for (name, value) in settings.inForce { metadata[name] = "\(value)" }
        logger.info("Sluice starts", metadata: metadata)
        for warning in settings.warnings {
            logger.warning("Configuration deserves a look", metadata: [LogKeys.reason: "\(warning)"])
        }
        let needed = settings.filesNeeded
        if FileLimit.current < needed {
            logger.warning(
                "Open files are limited to fewer than the connections that may be open; raise the limit (ulimit -n)",
                metadata: ["limit": .stringConvertible(FileLimit.current), "needed": .stringConvertible(needed)]
            )
        }
    }
}
