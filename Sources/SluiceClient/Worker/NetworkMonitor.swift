/// Reports that the device has a network connection again.
///
/// A client that runs (``SluiceClient/resume()``) then ends its back-off and synchronizes. On Apple's platforms,
/// ``SluiceClient/Configuration/networkMonitor`` is the system's `NWPathMonitor`. On other platforms and in tests, an
/// app may provide another monitor.
public protocol NetworkMonitor: Sendable {
    /// Returns a stream with an element for each time when a network becomes usable or the device changes to another
    /// network. The first element may report the present network.
    func connections() -> AsyncStream<Void>
}

#if canImport(Network)
    import Network

    /// The system's monitor.
    struct SystemNetworkMonitor: NetworkMonitor {
        /// The struct is `@unchecked`, because some SDKs do not declare the monitor as `Sendable`. Its methods may be
        /// called on any thread.
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
