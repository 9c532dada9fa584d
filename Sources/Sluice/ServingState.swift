import ArgumentParser
import CommandSupport
import Glibc
import Logging
import ServiceLifecycle
import SyncHTTP
import Synchronization
import Telemetry
import UnixSignals

/// Whether the listeners can serve requests.
///
/// This service is the last one of the group, so it receives a shutdown first. Therefore `/readyz` already fails while
/// the public listener still accepts connections, and load balancers can switch to other gateways.
final class ServingState: Service {
    private enum Phase {
        case starting, serving, ending
    }

    private struct State {
        var phase = Phase.starting
        var publicAddress: ListenAddress?
        var operationsAddress: ListenAddress?
    }

    private let state = Mutex(State())
    private let logger: Logger
    private let onEnding: @Sendable () -> Void
    private let notify: @Sendable (_ public: ListenAddress, _ operations: ListenAddress) -> Void

    /// - Parameters:
    ///   - onEnding: called when a shutdown begins, before anything ends.
    ///   - notify: called once, with the addresses of both listeners, when both accept connections.
    init(
        logger: Logger,
        onEnding: @escaping @Sendable () -> Void,
        notify: @escaping @Sendable (_ public: ListenAddress, _ operations: ListenAddress) -> Void
    ) {
        self.logger = logger
        self.onEnding = onEnding
        self.notify = notify
    }

    /// The reasons why requests cannot be served; empty if they can be served.
    var reasons: [String] {
        switch state.withLock({ $0.phase }) {
        case .starting: ["the public listener does not accept connections yet"]
        case .serving: []
        case .ending: ["the gateway is shutting down"]
        }
    }

    func publicListens(at address: ListenAddress) {
        update { $0.publicAddress = address }
    }

    func operationsListens(at address: ListenAddress) {
        update { $0.operationsAddress = address }
    }

    private func update(_ change: (inout State) -> Void) {
        let addresses = state.withLock { state -> (ListenAddress, ListenAddress)? in
            change(&state)
            guard state.phase == .starting, let open = state.publicAddress, let inner = state.operationsAddress else {
                return nil
            }
            state.phase = .serving
            return (open, inner)
        }
        if let addresses { notify(addresses.0, addresses.1) }
    }

    func run() async throws {
        try? await gracefulShutdown()
        state.withLock { $0.phase = .ending }
        onEnding()
        logger.notice("Sluice is shutting down after finishing work in progress")
    }
}

/// The log lines at the gateway's start: version, settings in force, and warnings, without secrets.
enum StartReport {
    static func log(_ settings: Settings, to logger: Logger) {
        var metadata: Logger.Metadata = [LogKeys.version: "\(Version.current)", "commit": "\(Version.commit)"]
        for (name, value) in settings.inForce { metadata[name] = "\(value)" }
        logger.info("Sluice starts", metadata: metadata)
        for warning in settings.warnings {
            logger.warning("Configuration should be reviewed", metadata: [LogKeys.reason: "\(warning)"])
        }
        let shares = FileShares.inForce(settings)
        guard shares.isReduced else { return }
        logger.warning(
            "The limit of open files is too low for the limits of connections, so they are lower; raise it (ulimit -n)",
            metadata: [
                "limit": .stringConvertible(FileLimit.current),
                "needed": .stringConvertible(settings.filesNeeded),
                "connections": .stringConvertible(shares.connections),
                "event_streams": .stringConvertible(shares.listeners),
                "upstream_requests": .stringConvertible(shares.requests),
            ]
        )
    }
}

/// The last log lines of a gateway that did not end in the usual way.
enum EndReport {
    /// Logs the error, and returns the exit code. A shutdown that timed out is a success, because it was requested.
    static func exitCode(for error: any Error, logger: Logger) -> ExitCode {
        if error is CancellationError {
            logger.warning("Shutdown timed out; work in progress was aborted")
            return .success
        }
        logger.critical("Sluice ended with an error", metadata: [LogKeys.error: "\(error)"])
        return .failure
    }
}

/// Ends the gateway at a second Ctrl-C during shutdown, without waiting for work in progress.
///
/// It is the first service of the group. The group traps signals before it starts services, so a Ctrl-C in between
/// begins the shutdown.
struct SecondInterrupt: Service {
    /// The code that a shell reports for a program ended by Ctrl-C.
    private static let exitCode: Int32 = 128 + SIGINT

    let logger: Logger

    /// The first signal begins the shutdown, and a SIGINT after it ends the process.
    func run() async {
        var isEnding = false
        for await signal in await UnixSignalsSequence(trapping: [.sigterm, .sigint]).cancelOnGracefulShutdown() {
            if isEnding, signal == .sigint {
                logger.warning("Interrupted again; work in progress was aborted")
                _exit(Self.exitCode)
            }
            isEnding = true
        }
    }
}
