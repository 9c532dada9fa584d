package import FoundationEssentials
import Postgres
package import SyncModel
import SyncStore

/// The operators' actions on webhooks: endpoints, their secrets, and deliveries.
package struct WebhookAdministration: Sendable {
    /// The maximum number of endpoints of an organization.
    package static let maximumEndpoints = 20
    /// The maximum number of dead deliveries that one request retries.
    package static let retryBatch = 1_000
    static let deleteBatch: Int64 = 5_000

    let pool: Pool
    let catalog: Catalog
    let now: TimeSource
    let failure: StoreFailure
    private let ids = UUIDv7Generator()

    init(pool: Pool, catalog: Catalog, now: @escaping TimeSource, failure: StoreFailure) {
        self.pool = pool
        self.catalog = catalog
        self.now = now
        self.failure = failure
    }

    // MARK: - Endpoints

    /// Returns an organization's endpoints, oldest first; nil if there is no such organization.
    package func list(in organization: UUID) async throws(Problem) -> [WebhookEndpointRow]? {
        do {
            let key = Parameters(of: organization)
            let results = try await pool.run([
                Query(Administration.isThereStatement, key), Query(WebhookAdminStatements.list, key),
            ])
            return results[0].count == 0 ? nil : try results[1].read(WebhookEndpointRow.init)
        } catch {
            throw failure.problem(error, doing: "list webhooks")
        }
    }

    package func endpoint(_ endpoint: WebhookKey) async throws(Problem) -> WebhookEndpointRow? {
        do {
            return try await pool.run([Query(WebhookAdminStatements.get, Self.key(endpoint))])[0]
                .read(WebhookEndpointRow.init).first
        } catch {
            throw failure.problem(error, doing: "read a webhook")
        }
    }

    /// Adds an endpoint; returns nil if there is no such organization.
    ///
    /// - Parameter secret: the secret with which the endpoint's messages are signed.
    /// - Throws: `validation_failed` if the organization has the maximum number of endpoints.
    package func add(
        to organization: UUID,
        _ update: WebhookUpdate,
        url: String,
        secret: String
    ) async throws(Problem) -> WebhookEndpointRow? {
        let moment = now()
        let endpoint = WebhookKey(organization: organization, id: ids.make(at: moment))
        let events = update.events ?? WebhookEvent.defaults
        do {
            return try await catalog.opening(organization) { seal in
                let sealed = try seal.seal(text: secret, as: .webhook(.secret, endpoint.id))
                return try await pool.transaction { connection in
                    let found = try await connection.run([
                        Administration.lockUpstreamStatement(organization: organization),
                        WebhookAdminStatements.list(organization: organization),
                    ])
                    guard found[0].count > 0 else { return nil }
                    guard found[1].count < Self.maximumEndpoints else { throw Self.tooMany }
                    let made = try await connection.run(
                        WebhookAdminStatements.add(
                            organization: organization,
                            endpoint: endpoint.id,
                            url: url,
                            description: update.description ?? "",
                            events: events.map(\.rawValue),
                            status: update.isEnabled ?? true ? "enabled" : "disabled",
                            secret: sealed,
                            now: moment,
                            takes_feed: events.contains(.entityChanged)
                        )
                    )
                    return try made.read(WebhookEndpointRow.init).first
                }
            }
        } catch {
            throw failure.problem(error, doing: "add a webhook")
        }
    }

    private static var tooMany: Problem {
        Problem(
            .validationFailed,
            pointer: "",
            rule: Rule.range,
            "an organization has at most \(maximumEndpoints) webhooks; delete one first"
        )
    }

    /// Changes an endpoint; returns nil if there is no such endpoint.
    ///
    /// If the change enables the endpoint or sets another URL, the endpoint counts as healthy again, and deliveries are
    /// attempted immediately.
    package func change(_ endpoint: WebhookKey, _ update: WebhookUpdate) async throws(Problem) -> WebhookEndpointRow? {
        let parameters = Parameters(
            of: endpoint.organization,
            endpoint.id,
            update.url,
            update.description,
            update.events?.map(\.rawValue) ?? [],
            update.events != nil,
            update.isEnabled.map { $0 ? "enabled" : "disabled" },
            now()
        )
        do {
            return try await pool.run([Query(WebhookAdminStatements.change, parameters)])[0]
                .read(WebhookEndpointRow.init).first
        } catch {
            throw failure.problem(error, doing: "change a webhook")
        }
    }

    /// Replaces an endpoint's secret; returns nil if there is no such endpoint.
    ///
    /// - Parameters:
    ///   - secret: the new secret.
    ///   - overlap: the number of seconds for which the previous secret also signs. With 0, the previous secret becomes
    ///     invalid immediately.
    package func rotate(
        _ endpoint: WebhookKey,
        to secret: String,
        overlap: Double
    ) async throws(Problem) -> WebhookEndpointRow? {
        let moment = now()
        do {
            return try await catalog.opening(endpoint.organization) { seal in
                try await pool.transaction { connection in
                    let locked = try await connection.run([
                        Administration.lockUpstreamStatement(organization: endpoint.organization),
                        Query(WebhookAdminStatements.lockSecret, Self.key(endpoint)),
                    ])
                    guard locked[0].count > 0, var row = locked[1].first else { return nil }
                    let old = try seal.open(text: row.read("secret"), as: .webhook(.secret, endpoint.id))
                    return try await connection.run(
                        WebhookAdminStatements.rotate(
                            organization: endpoint.organization,
                            endpoint: endpoint.id,
                            secret: try seal.seal(text: secret, as: .webhook(.secret, endpoint.id)),
                            previous_secret: overlap > 0
                                ? try seal.seal(text: old, as: .webhook(.previousSecret, endpoint.id)) : nil,
                            previous_until: overlap > 0 ? moment.adding(seconds: overlap) : nil,
                            now: moment
                        )
                    )
                    .read(WebhookEndpointRow.init).first
                }
            }
        } catch {
            throw failure.problem(error, doing: "rotate a webhook's secret")
        }
    }

    /// Deletes an endpoint with all its deliveries; returns false if there is no such endpoint.
    ///
    /// Messages in flight are completed.
    package func delete(_ endpoint: WebhookKey) async throws(Problem) -> Bool {
        do {
            let key = Self.key(endpoint)
            var batch = key
            batch.add(Self.deleteBatch)
            let found = try await pool.run([Query(WebhookAdminStatements.delete, key)])[0].affected > 0
            // deliveries are deleted even if the endpoint no longer exists, because an earlier deletion may have been
            // interrupted
            var deleted = 1
            while deleted > 0 {
                deleted = try await pool.transaction { [batch] connection in
                    try await connection.runByIndex(Query(WebhookAdminStatements.deleteDeliveries, batch)).affected
                }
            }
            return found
        } catch {
            throw failure.problem(error, doing: "delete a webhook")
        }
    }

    /// Records a delivery of `webhook.test`, regardless of the endpoint's subscription.
    ///
    /// - Returns: the delivery's id; nil if there is no such endpoint, or if it is not enabled.
    package func test(_ endpoint: WebhookKey) async throws(Problem) -> UUID? {
        let moment = now()
        let id = ids.make(at: moment)
        do {
            let rows = try await pool.run([
                WebhookAdminStatements.test(
                    organization: endpoint.organization,
                    endpoint: endpoint.id,
                    id: id,
                    now: moment
                )
            ])[0]
            return rows.affected > 0 ? id : nil
        } catch {
            throw failure.problem(error, doing: "test a webhook")
        }
    }

    // MARK: - Deliveries

    /// Returns a page of an endpoint's deliveries, newest first. If more deliveries follow, it also returns the page's
    /// last delivery. Returns nil if there is no such endpoint.
    ///
    /// - Parameters:
    ///   - status: the status of the deliveries; nil for all.
    ///   - limit: 1 to 1,000.
    ///   - last: the last delivery of the previous page; nil starts with the newest.
    package func deliveries(
        of endpoint: WebhookKey,
        _ status: WebhookOutcome.Status?,
        limit: Int,
        after last: UUID?
    ) async throws(Problem) -> (deliveries: [WebhookDeliveryRow], next: UUID?)? {
        guard try await self.endpoint(endpoint) != nil else { return nil }
        do {
            let end: UUID = last ?? .greatest
            var parameters = Parameters(of: endpoint.organization, endpoint.id, end, limit + 1)
            if let status { parameters.add(status.rawValue) }
            let statement = status == nil ? WebhookAdminStatements.page : WebhookAdminStatements.pageOfStatus
            let rows = try await pool.transaction { [parameters] connection in
                try await connection.runByIndex(Query(statement, parameters))
            }
            let found = try rows.read(WebhookDeliveryRow.init)
            let shown = Array(found.prefix(limit))
            return (shown, found.count > limit ? shown.last?.id : nil)
        } catch {
            throw failure.problem(error, doing: "list deliveries")
        }
    }

    /// The result of a request to retry a delivery.
    package enum Retry: Sendable, Equatable {
        case retried
        case notFound
        /// The delivery waits, or was delivered.
        case notDead
    }

    /// Retries a dead delivery under its own id and number, with as many attempts as a new delivery.
    package func retry(_ id: UUID, of endpoint: WebhookKey) async throws(Problem) -> Retry {
        let one = Parameters(of: endpoint.organization, endpoint.id, now(), id)
        do {
            let results = try await pool.transaction { connection in
                try await connection.runByIndex([
                    Query(WebhookAdminStatements.lockSecret, Self.key(endpoint)),
                    Query(WebhookAdminStatements.retry, one),
                    WebhookAdminStatements.statusOf(organization: endpoint.organization, endpoint: endpoint.id, id: id),
                ])
            }
            if results[0].count == 0 || results[2].count == 0 { return .notFound }
            return results[1].affected > 0 ? .retried : .notDead
        } catch {
            throw failure.problem(error, doing: "retry a delivery")
        }
    }

    /// Retries the oldest dead deliveries, at most 1,000.
    ///
    /// - Returns: the number of retried deliveries; nil if there is no such endpoint.
    package func retryAll(of endpoint: WebhookKey) async throws(Problem) -> Int? {
        let parameters = Parameters(of: endpoint.organization, endpoint.id, now(), Self.retryBatch)
        do {
            let results = try await pool.transaction { connection in
                try await connection.runByIndex([
                    Query(WebhookAdminStatements.lockSecret, Self.key(endpoint)),
                    Query(WebhookAdminStatements.retryAll, parameters),
                ])
            }
            return results[0].count == 0 ? nil : results[1].affected
        } catch {
            throw failure.problem(error, doing: "retry deliveries")
        }
    }

    private static func key(_ endpoint: WebhookKey) -> Parameters {
        Parameters(of: endpoint.organization, endpoint.id)
    }
}

extension UUID {
    /// The greatest id in PostgreSQL's order.
    static let greatest = UUID(
        uuid: (255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255)
    )
}
