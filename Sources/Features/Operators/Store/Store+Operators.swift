package import Foundation
package import SyncStore

extension Store {
    /// Groups failed and conflicting mutations.
    package var stuckGroups: FailureGroups {
        FailureGroups(pool: pool, cluster: cluster, catalog: catalog, failure: failure)
    }

    /// Lists failed and conflicting mutations.
    package var stuckList: FailureList { FailureList(pool: pool, catalog: catalog, failure: failure) }

    /// Reads the history of one mutation.
    package var stories: MutationHistoryReader {
        MutationHistoryReader(pool: pool, catalog: catalog, now: now, failure: failure)
    }

    /// Pages through a user's lane.
    package var laneListing: LaneListing { LaneListing(pool: pool, failure: failure) }

    /// Lists lanes in which nothing runs.
    package var stoppedLanes: StoppedLanes { StoppedLanes(pool: pool, now: now, failure: failure) }

    /// Explains why data of a user have not arrived.
    package var explainer: UserExplainer {
        UserExplainer(pool: pool, catalog: catalog, backlog: backlog, now: now, failure: failure)
    }

    /// Reads the current state for operators; all of them share it.
    package var nowReader: NowReader {
        NowReader(store: self)
    }

    /// Operators' operations.
    package var operations: OperationStore {
        OperationStore(
            pool: pool,
            stuckList: stuckList,
            evaluation: channelEvaluation,
            now: now,
            failure: failure
        )
    }

    /// Works on operations.
    ///
    /// - Parameter gateway: this process.
    package func operationRun(of gateway: UUID) -> OperationRun {
        OperationRun(
            pool: pool,
            catalog: catalog,
            settling: settling,
            evaluation: channelEvaluation,
            notifier: notifier,
            now: now,
            failure: failure,
            logger: logger,
            gateway: gateway
        )
    }
}
