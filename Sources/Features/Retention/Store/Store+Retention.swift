package import SyncStore

extension Store {
    package var retention: RetentionStore {
        RetentionStore(
            aged: tables.compactMap(AgedTable.init),
            pool: pool,
            settling: settling,
            now: now,
            failure: failure,
            requested: shared(RetentionRequests.init).signal
        )
    }
}

/// Requests for an immediate run of retention, in this process.
private final class RetentionRequests: Sendable {
    let signal = CoalescedSignal()
}
