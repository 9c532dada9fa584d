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
    func declare(
        _ name: String,
        _ idSpace: String,
        relations: String = "{}",
        onDelete: String = "{}",
        in organization: Organization
    ) async throws {
        let body =
            #"{"id_space":"\#(idSpace)","relations":\#(relations),"on_delete":\#(onDelete),"#
            + #""visibility":"organization"}"#
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
    /// Returns an entry that names its entity by a number of this device.
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

/// Returns an organization with folders and tasks that have device ids, contacts that have client ids, and tags that
/// have shared ids.
///
/// Entities may refer to deleted entities.
func folderOrganization(_ gateway: Gateway, _ settings: String = "{}") async throws -> Organization {
    let organization = try await gateway.organization(settings)
    func declare(_ name: String, _ idSpace: String, _ relations: [String: String]) async throws {
        func object(_ values: [String: String]) -> String {
            "{" + values.map { #""\#($0)":"\#($1)""# }.joined(separator: ",") + "}"
        }
        let ignored = relations.mapValues { _ in "ignore" }
        try await gateway.declare(
            name,
            idSpace,
            relations: object(relations),
            onDelete: object(ignored),
            in: organization
        )
    }
    try await declare("folder", "device", ["parentId": "folder"])
    let ofTasks = [
        "folderId": "folder", "related": "task", "contactId": "contact", "tagIds": "tag", "gone": "nothing",
    ]
    try await declare("task", "device", ofTasks)
    try await declare("note", "mapped", ["taskId": "task"])
    try await declare("tag", "shared", [:])
    return try await gateway.known(organization.id)
}
