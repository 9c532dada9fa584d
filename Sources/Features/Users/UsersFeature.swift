package import ArgumentParser
package import CommandSupport
import HTTPTypes
package import ServiceLifecycle
package import SyncHTTP
package import SyncModel
package import SyncStore
package import Telemetry
import Tokens

/// Lists and provisions users; exports, merges and erases a user's data.
package struct UsersFeature: GatewayFeature {
    private let gateway: GatewayContext
    private let erasures: ErasureService

    package static let tables = [
        StoredTable("erased_names", key: ["user_hash", "name_hash"])
            .open("user_hash", "name_hash", "fingerprint_hash"),
        StoredTable("erased_subjects", key: ["subject_hash"]).open("subject_hash", "user_hash"),
        StoredTable("user_erasures", key: ["user_hash"])
            .naming("user_ids", erase: .step, merge: .keep)
            .plain(
                "started_at",
                "state",
                "walked_position",
                "attempts",
                "last_error",
                "due_at",
                "finished_at"
            )
            .open("user_hash"),
        StoredTable("erasure_salts", key: [], purge: .last).open("salt"),
    ]

    package static let commands: [any ParsableCommand.Type] = [UsersCommand.self]

    package init(_ gateway: GatewayContext) {
        self.gateway = gateway
        var erasing = gateway.store.erasing
        erasing.upstream = gateway.configuration.upstream
        erasures = ErasureService(erasing: erasing, logger: gateway.logger)
    }

    package var services: [any Service] { [erasures] }

    package func addRoutes(to routes: inout OperatorRoutes, _ context: OperatorContext) {
        let (store, http, verifier) = (gateway.store, gateway.configuration, gateway.verifier)
        var erasing = store.erasing
        erasing.upstream = http.upstream
        erasing.settling = http.joinSettling
        let users = UserEndpoints(
            store: store,
            bodies: context.bodies,
            erasing: erasing,
            userCalled: { subject throws(TokenConfiguration.UnusableSubject) in
                try verifier?.user(called: subject.text, by: subject.issuer) ?? .subject(subject.text)
            },
            timeout: http.joinTimeout
        )
        let all = "/admin/organizations/{id}/users"
        routes.read(at: all, users.list)
        routes.write("letUserIn", .post, all, users.letIn)
        let user = all + "/{user}"
        routes.read(at: user, users.read)
        routes.write("putUser", .put, user, users.add)
        routes.write("deleteUser", .delete, user, auditTarget: users.removed, users.remove)
        let exports = UserExportEndpoint(exports: store.exports)
        routes.read(
            at: user + "/export",
            needs: .admin,
            audited: "exportUser",
            answers: UserExportEndpoint.mediaType,
            exports.export
        )
        var joining = store.joining
        joining.settling = http.joinSettling
        let joins = UserJoinEndpoint(
            joining: joining,
            administration: store.administration,
            bodies: context.bodies,
            timeout: http.joinTimeout
        )
        routes.write("joinUser", .post, user + "/join", joins.join)
    }

    package static func describeMetrics(in registry: PrometheusRegistry) {
        for (name, help) in [
            (UserMetrics.erasedUsers, "Users whose data this replica erased."),
            (UserMetrics.unpublishedErasures, "Failed attempts to notify an upstream of an erasure."),
            (UserMetrics.joinedUsers, "Users that operators merged into others through this replica."),
        ] { registry.describe(name, kind: .counter, help: help) }
    }

    package func addMetrics(to registry: PrometheusRegistry) {
        let erasures = erasures
        registry.addGauge(
            "sluice_erasures_open",
            "Users being erased on all replicas; at most 1,000 are counted."
        ) { Double(erasures.state.count) }
        registry.addGauge(
            "sluice_erasures_open_since_timestamp_seconds",
            "Start of the oldest erasure in progress; 0 without erasures."
        ) { Double(erasures.state.since?.microseconds ?? 0) / 1_000_000 }
    }

    package static func completeDemo(
        _ tenant: inout DemoTenant,
        in administration: Administration
    ) async throws(Problem) { _ = try await administration.putUser(tenant.user, in: tenant.organization) }
}

extension Store {
    /// Joins users.
    package var joining: UserJoining { UserJoining(self) }

    /// Erases users.
    package var erasing: UserErasing { UserErasing(self) }

    /// Exports all stored data of a user.
    package var exports: UserExport { UserExport(self) }
}

/// Names of the feature's counters.
package enum UserMetrics {
    /// Users that were merged into others.
    package static let joinedUsers = "sluice_users_joined_total"
    /// Users that were erased.
    package static let erasedUsers = "sluice_users_erased_total"
    /// Failed attempts to report an erasure to an upstream.
    package static let unpublishedErasures = "sluice_erasures_untold_total"
}
