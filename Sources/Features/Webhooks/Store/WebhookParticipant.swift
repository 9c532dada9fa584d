package import FoundationEssentials
package import Postgres
package import SyncModel
package import SyncStore

/// Writes deliveries to the outbox in the transaction of the change that they report.
package struct WebhookParticipant: CommitParticipant {
    package init() {}

    package func queries(for outcomes: [FailedOutcome], at moment: Timestamp) -> [Query] {
        let records = outcomes.flatMap { outcome in
            switch outcome.origin {
            case .push(let new): new.records(of: outcome.lane, outcome.state) { WebhookOutbox.makeID(at: moment) }
            case .lane(let ran): ran.records(of: outcome.lane, outcome.state) { WebhookOutbox.makeID(at: moment) }
            }
        }
        return records.isEmpty ? [] : [WebhookOutbox.query(records, at: moment)]
    }

    package func queries(forErased users: [UUID], of organization: UUID, at moment: Timestamp) -> [Query] {
        let records = users.map { user in
            WebhookRecord.erased(user: user, of: organization, id: WebhookOutbox.makeID(at: moment))
        }
        return records.isEmpty ? [] : [WebhookOutbox.query(records, at: moment)]
    }
}

extension Store {
    /// The database operations of the delivery workers.
    package var webhooks: WebhookStore { WebhookStore(pool: pool, catalog: catalog, now: now, failure: failure) }

    /// Manages organizations' webhook endpoints and their deliveries.
    package var webhookAdministration: WebhookAdministration {
        WebhookAdministration(pool: pool, catalog: catalog, now: now, failure: failure)
    }
}
