/// Reports that the device has a network connection again.
///
/// If the client is resumed, it then ends its back-off and synchronizes. On Apple's platforms
/// ``SluiceClient/Configuration/networkMonitor`` is the system's `NWPathMonitor`; elsewhere, and in tests, an app may
/// provide a monitor.
public protocol NetworkMonitor: Sendable {
    /// Returns a stream with an element each time a network becomes usable, or the device changes to another network.
    /// Its first element may be the present network.
    func connections() -> AsyncStream<Void>
}

#if canImport(Network)
    import Network

    /// The system's monitor.
    struct SystemNetworkMonitor: NetworkMonitor {
        /// Unchecked, since not every SDK declares the monitor as `Sendable`; its methods may be called on any thread.
        private struct Path: @unchecked Sendable {
            let monitor = NWPathMonitor()
        }

        func connections() -> AsyncStream<Void> {
            AsyncStream(bufferingPolicy: .bufferingNewest(1)) { continuation in
                let path = Path()
                path.monitor.pathUpdateHandler = { path in
                    if path.status == .satisfied { continuation.yield() }
                }
                continuation.onTermination = { _ in path.monitor.cancel() }
                path.monitor.start(queue: .global())
            }
        }
    }
#endif
