import Foundation
import GatewaySupport
import JSONText
import Postgres
import TestSupport

/// A device that pushes to one gateway process, once each time.
struct SingleWorker: Sendable {
    let gateway: GatewayProcess
    let organization: UUID
    let user: UUID
    let device = UUID()
    let token: String

    init(_ gateway: GatewayProcess, organization: UUID) async throws {
        self.gateway = gateway
        self.organization = organization
        user = UUID()
        token = try await GatewayProcess.token(organization: organization, user: user)
    }

    /// Another device of the same user.
    init(_ gateway: GatewayProcess, as other: SingleWorker) {
        self.gateway = gateway
        (organization, user, token) = (other.organization, other.user, other.token)
    }

    /// Makes an organization, too.
    init(_ gateway: GatewayProcess) async throws {
        let organization = UUID()
        try await gateway.makeOrganization(organization)
        try await self.init(gateway, organization: organization)
    }

    func push(_ drafts: [Draft], prefer: String? = nil) async throws -> Reply {
        try await GatewayProcess.post(
            gateway.address + "/v1/mutations",
            token: token,
            prefer: prefer,
            body: envelope(drafts)
        )
    }

    func get(_ path: String) async throws -> Reply {
        try await GatewayProcess.get(gateway.address + path, token: token)
    }

    func envelope(_ drafts: [Draft]) -> String {
        let list = drafts.map(\.json).joined(separator: ",")
        return #"{"device_id":\#(device.quoted),"mutations":[\#(list)]}"#
    }

    /// An entry; a create of a new entity unless the members say otherwise.
    func draft(_ number: Int64, _ members: [String: String] = [:]) -> Draft {
        var all = [
            "id": UUID().quoted, "idempotency_key": UUID().quoted, "sequence_number": "\(number)",
            "operation": #""create""#, "entity_type": #""task""#, "payload": #"{"title":"x"}"#,
            "created_at": #""2026-11-18T07:00:00.000Z""#,
        ]
        if members["operation"] == nil { all["local_id"] = UUID().quoted }
        return Draft(members: all.merging(members) { $1 })
    }
}

/// A look behind the gateway, at what its sessions in Postgres do.
struct DatabaseSessions: Sendable {
    let connection: Connection

    /// Waits until so many sessions wait for something.
    ///
    /// - Parameter event: a wait event's type or name: `Lock`, `SyncRep`.
    func await(_ count: Int, waitingFor event: String) async throws {
        let statement = Statement(
            "sessions_waiting",
            """
            SELECT count(*) FROM pg_stat_activity
            WHERE datname = current_database() AND '\(event)' IN (wait_event_type, wait_event)
            """
        )
        try await waitUntil("\(count) sessions wait for \(event)") {
            try await connection.run(Query(statement)).int64(0, 0) >= count
        }
    }

    /// The process ids of all other sessions of the database.
    func others() async throws -> [pid_t] {
        let statement = Statement(
            "sessions_others",
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        let rows = try await connection.run(Query(statement))
        return try (0..<rows.count).map { try rows.int32($0, 0) }
    }

    /// Ends all other sessions of the database.
    func terminateOthers() async throws {
        try await connection.execute(
            script: """
                SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                WHERE datname = current_database() AND pid <> pg_backend_pid()
                """
        )
    }
}
