import ArgumentParser
import Logging
import Telemetry

/// The log's last lines when the gateway did not end in the usual way.
enum EndReport {
    /// Logs the error. A shutdown that ran out of time is still a requested shutdown.
    static func exitCode(for error: any Error, logger: Logger) -> ExitCode {
        if error is CancellationError {
            logger.warning("Shutdown timed out; work in progress was aborted")
            return .success
        }
        logger.critical("Sluice ended with an error", metadata: [LogKeys.error: "\(error)"])
        return .failure
    }
}
