import Logging
import ServiceLifecycle
import SyncHTTP
import Synchronization

/// Whether the listeners can serve requests.
///
/// It is the last service of the group, so it is the first to receive a shutdown: load balancers see `/readyz` fail
/// before the public listener closes.
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
    ///   - notify: called once when both listeners take connections, with their addresses.
    init(
        logger: Logger,
        onEnding: @escaping @Sendable () -> Void,
        notify: @escaping @Sendable (_ public: ListenAddress, _ operations: ListenAddress) -> Void
    ) {
        self.logger = logger
        self.onEnding = onEnding
        self.notify = notify
    }

    /// Why requests cannot be served; empty if they can.
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
