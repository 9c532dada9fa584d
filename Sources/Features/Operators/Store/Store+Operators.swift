package import FoundationEssentials
package import SyncStore

extension Store {
    /// Groups failed and conflicting mutations.
    package var stuckGroups: FailureGroups {
        FailureGroups(pool: pool, cluster: cluster, catalog: catalog, failure: failure)
    }

    /// Lists failed and conflicting mutations.
    package var stuckList: FailureList { FailureList(pool: pool, catalog: catalog, failure: failure) }

    /// Lists mutations in every status.
    package var recentMutations: RecentMutations { RecentMutations(pool: pool, failure: failure) }

    /// Lists the entities of an organization.
    package var entityListing: EntityListing { EntityListing(pool: pool, catalog: catalog, failure: failure) }

    /// Counts the completed mutations of an organization over time.
    package var throughput: Throughput { Throughput(pool: pool, now: now, failure: failure) }

    /// Reads the history of one mutation.
    package var stories: MutationHistoryReader {
        MutationHistoryReader(pool: pool, catalog: catalog, now: now, failure: failure)
    }

    /// Pages through a user's lane.
    package var laneListing: LaneListing { LaneListing(pool: pool, failure: failure) }

    /// Lists lanes in which nothing runs.
    package var stoppedLanes: StoppedLanes { StoppedLanes(pool: pool, now: now, failure: failure) }

    /// Explains why a user's data have not arrived.
    package var explainer: UserExplainer {
        UserExplainer(pool: pool, catalog: catalog, backlog: backlog, now: now, failure: failure)
    }

    /// Reads the current state for operators, with one cache for all of them.
    package var nowReader: NowReader {
        NowReader(store: self)
    }

    /// Creates and lists operators' bulk operations.
    package var operations: OperationStore {
        OperationStore(
            pool: pool,
            stuckList: stuckList,
            evaluation: channelEvaluation,
            now: now,
            failure: failure
        )
    }

    /// Processes bulk operations.
    ///
    /// - Parameter gateway: this process.
    package func operationRun(of gateway: UUID) -> OperationRun { OperationRun(of: self, gateway: gateway) }
}
