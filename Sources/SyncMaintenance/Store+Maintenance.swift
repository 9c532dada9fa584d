package import Foundation
package import SyncStore

/// The store's services for operators and retention: no code on a mutation's way imports this module.
extension Store {
    package var administration: Administration {
        Administration(
            pool: pool,
            cluster: cluster,
            catalog: catalog,
            identities: identities,
            knownTokens: serviceTokens,
            now: now,
            failure: failure,
            logger: logger
        )
    }

    /// What operators did.
    package var audit: AuditLog { AuditLog(pool: pool, now: now, failure: failure) }

    /// Console sessions that were ended. The caller keeps it: it caches.
    package var endedSessions: EndedSessions { EndedSessions(pool: pool, now: now, failure: failure) }

    /// What goes on, for operators; one for all of them.
    package var nowReader: NowReader {
        NowReader(pool: pool, cluster: cluster, retention: retention, now: now, failure: failure)
    }

    /// Where organizations want to be told of what happens, and what became of it.
    package var webhookAdministration: WebhookAdministration {
        WebhookAdministration(pool: pool, catalog: catalog, now: now, failure: failure)
    }

    /// What brings organizations' edits.
    package var sourceAdministration: SourceAdministration {
        SourceAdministration(pool: pool, catalog: catalog, receivers: receivers, now: now, failure: failure)
    }

    /// Joins users.
    package var joining: UserJoining {
        UserJoining(
            pool: pool,
            catalog: catalog,
            notifier: notifier,
            now: now,
            failure: failure,
            logger: logger
        )
    }

    /// Erases users.
    package var erasing: UserErasing {
        UserErasing(
            pool: pool,
            catalog: catalog,
            identities: identities,
            notifier: notifier,
            now: now,
            failure: failure,
            logger: logger
        )
    }

    /// Operators' operations.
    package var operations: OperationStore {
        OperationStore(pool: pool, stuckList: stuckList, now: now, failure: failure)
    }

    /// Works on operations.
    ///
    /// - Parameter gateway: this process.
    package func operationRun(of gateway: UUID) -> OperationRun {
        OperationRun(
            pool: pool,
            catalog: catalog,
            settling: settling,
            notifier: notifier,
            now: now,
            failure: failure,
            logger: logger,
            gateway: gateway
        )
    }

    /// Writes down all that is stored of a user.
    package var exports: UserExport {
        UserExport(pool: pool, catalog: catalog, now: now, failure: failure)
    }

    /// Writes down all entities of an organization.
    package func export(of organization: UUID, _ filter: EntityExport.Filter) -> EntityExport {
        EntityExport(pool: pool, catalog: catalog, failure: failure, organization: organization, filter: filter)
    }

    package var retention: RetentionStore {
        RetentionStore(pool: pool, settling: settling, now: now, failure: failure, requested: retentionRequested)
    }

    /// Data keys, and rows that are to be sealed anew.
    package var keyRotation: KeyRotation {
        KeyRotation(pool: pool, catalog: catalog, masterKeys: masterKeys, now: now, failure: failure)
    }
}
