import Foundation
import JSONText
import Postgres
import StoreSupport
import SyncHTTP
import SyncModel
import TestSupport

@testable import AdministrationFeature
@testable import SyncStore

extension Gateway {
    /// Declares an entity type, as an operator does.
    func declare(_ name: String, _ idSpace: String, relations: String = "{}", in organization: Organization)
        async throws
    {
        let body = #"{"id_space":"\#(idSpace)","relations":\#(relations),"visibility":"organization"}"#
        _ = try await store.administration.putEntityType(
            name,
            in: organization.id,
            EntityTypeUpdate(body: Array(body.utf8))
        )
    }

    /// Rows of the database, each as text, in the order of the query.
    func rows(_ sql: String) async throws -> [String] {
        let connection = try await database.connect()
        defer { connection.close() }
        let rows = try await connection.run(Query(Statement("select_\(UInt32.random(in: 0...(.max)))", sql)))
        return try (0..<rows.count).map { try rows.read($0, 0, as: String.self) }
    }
}

extension Phone {
    /// An entry that references its entity by a number of this device.
    func numbered(
        _ operation: String,
        _ number: Int64,
        _ type: String = "task",
        payload: String? = nil
    ) -> Entry {
        var entry = entry(operation, type, payload: payload)
        entry.extra["local_id"] = String(number)
        return entry
    }
}

/// An organization with folders and tasks of device ids, contacts of client ids and tags of shared ids.
func folderOrganization(_ gateway: Gateway, _ settings: String = "{}") async throws -> Organization {
    let organization = try await gateway.organization(settings)
    try await gateway.declare("folder", "device", relations: #"{"parentId":"folder"}"#, in: organization)
    let relations = #"{"folderId":"folder","related":"task","contactId":"contact","tagIds":"tag","gone":"nothing"}"#
    try await gateway.declare("task", "device", relations: relations, in: organization)
    try await gateway.declare("note", "mapped", relations: #"{"taskId":"task"}"#, in: organization)
    try await gateway.declare("tag", "shared", in: organization)
    return try await gateway.known(organization.id)
}
