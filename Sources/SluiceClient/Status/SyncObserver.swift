public import Observation

/// The status and the writes that need a decision, for SwiftUI.
///
///     @State private var sync: SyncObserver   // SyncObserver(sluice)
///     Text(sync.status.pending, format: .number)
///
/// As long as the observer exists, its properties follow ``SluiceClient/status`` and ``SluiceClient/failedWrites``.
@available(iOS 17, macOS 14, tvOS 17, watchOS 10, visionOS 1, *)
@MainActor @Observable
public final class SyncObserver {
    /// The present status.
    public private(set) var status: SyncStatus
    /// The writes that need a person's decision.
    public private(set) var failedWrites: [FailedWrite] = []
    @ObservationIgnored private let tasks = Locked<[Task<Void, Never>]>([])

    /// - Parameter client: the client to follow.
    public init(_ client: SluiceClient) {
        status = client.currentStatus
        let (statuses, writes) = (client.status, client.failedWrites)
        tasks.withLock { tasks in
            tasks = [
                Task { [weak self] in
                    for await status in statuses { self?.status = status }
                },
                Task { [weak self] in
                    // errors are ignored, because other code that uses the database gets the same errors
                    do { for try await failed in writes { self?.failedWrites = failed } } catch { return }
                },
            ]
        }
    }

    deinit { tasks.withLock { for task in $0 { task.cancel() } } }
}
