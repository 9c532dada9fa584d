import Foundation
import GatewaySupport
import JSONText
import Postgres
import TestSupport

/// A device that pushes to one gateway process, without retries.
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

    /// Also creates an organization.
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

    /// An entry; a create of a new entity by default.
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
