package import SyncModel

/// The services that only read, or have no state.
extension Store {
    /// The features that add rows to the engine's transactions.
    package var participants: [any CommitParticipant] { configuration.participants }
    /// The schema's tables.
    package var tables: [StoredTable] { configuration.tables }
    /// Wraps the organizations' data keys; nil if values are not encrypted at rest.
    package var masterKeys: MasterKeys? { configuration.masterKeys }

    /// Finds the long-lived connections that must no longer be served.
    package var longLivedSessions: LongLivedSessions {
        LongLivedSessions(pool: pool, cluster: cluster, failure: failure)
    }

    /// Computes the results of pushes without committing them.
    package var previews: PushPreviewer {
        PushPreviewer(
            pool: pool,
            catalog: catalog,
            now: now,
            failure: failure,
            deviceLimit: configuration.devicesPerUser
        )
    }

    package var mutations: MutationReader {
        MutationReader(
            pool: pool,
            catalog: catalog,
            now: now,
            stuckMutations: stuckMutations,
            notifier: notifier,
            failure: failure
        )
    }

    package var mappings: MappingReader { MappingReader(pool: pool, failure: failure) }

    /// Reads mutations that are not final.
    package var backlog: BacklogReader { BacklogReader(pool: pool, now: now, failure: failure) }

    package var devices: DeviceRegistry {
        DeviceRegistry(pool: pool, catalog: catalog, now: now, failure: failure, limit: configuration.devicesPerUser)
    }

    private var feed: FeedReader {
        FeedReader(pool: pool, notifier: notifier, channels: shared { ChannelFeedReader(pool: pool) }, failure: failure)
    }

    /// Reads the feed in permanent ids.
    package var changes: ChangeReader { ChangeReader(feed: feed, catalog: catalog, failure: failure) }

    /// Reads the feed in a device's local ids. All calls share one cache.
    package var pulls: DevicePuller {
        // read before `shared` takes its lock, because the lock must not be taken twice
        let feed = feed
        return shared {
            DevicePuller(feed: feed, devices: devices, pool: pool, catalog: catalog, now: now, failure: failure)
        }
    }

    /// Evaluates channel templates again for types with changed channel settings.
    package var channelEvaluation: ChannelEvaluation {
        ChannelEvaluation(
            pool: pool,
            catalog: catalog,
            notifier: notifier,
            metrics: channelMetrics,
            now: now,
            failure: failure
        )
    }

    /// Reads the changes of a user's mutations and ids.
    package var events: EventReader { EventReader(pool: pool, catalog: catalog, failure: failure) }

    /// Carries out people's decisions on failed and conflicting mutations.
    package var settling: Settlement {
        Settlement(
            pool: pool,
            catalog: catalog,
            notifier: notifier,
            now: now,
            failure: failure,
            metrics: channelMetrics,
            writeTimeout: configuration.timeouts.settlement
        )
    }

    /// Counts each organization's failed and conflicting mutations.
    package var stuckCounts: FailureCounts { FailureCounts(pool: pool, cluster: cluster, failure: failure) }
}
