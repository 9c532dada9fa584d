/// Reports that the device has a network connection again.
///
/// A client that is resumed then ends its back-off and synchronizes. On Apple's platforms
/// ``SluiceClient/Configuration/networkMonitor`` is the system's `NWPathMonitor`; elsewhere, and in tests, an app may
/// provide one.
public protocol NetworkMonitor: Sendable {
    /// Returns a stream with an element each time a network becomes usable, or another one is used. It may begin with
    /// the present one.
    func connections() -> AsyncStream<Void>
}

#if canImport(Network)
    import Network

    /// The system's monitor.
    struct SystemNetworkMonitor: NetworkMonitor {
        func connections() -> AsyncStream<Void> {
            AsyncStream(bufferingPolicy: .bufferingNewest(1)) { continuation in
                let monitor = NWPathMonitor()
                monitor.pathUpdateHandler = { path in
                    if path.status == .satisfied { continuation.yield() }
                }
                continuation.onTermination = { _ in monitor.cancel() }
                monitor.start(queue: .global())
            }
        }
    }
#endif
