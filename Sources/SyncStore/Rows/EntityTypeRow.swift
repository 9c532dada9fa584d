import Foundation
import JSONText
package import Postgres
package import SyncModel

/// Reads an ``EntityType``.
package enum EntityTypeRow {
    /// For a table that is called `t`.
    package static let list = """
        t.name, t.id_space, t.visibility, t.default_priority, t.is_forwarded, t.is_in_use, t.relations, t.on_erase,
            t.channels, t.grants, t.former_visibility
        """

    /// Reads the columns of ``list``.
    ///
    /// The id spaces that its relations lead to are not known here.
    package static func read(_ row: inout RowReader) throws -> EntityType {
        var type = EntityType(
            name: try row.string("name"),
            idSpace: IDSpace(rawValue: try row.string("id_space")) ?? .mapped,
            visibility: Visibility(rawValue: try row.string("visibility")) ?? .user,
            defaultPriority: try row.int16("default_priority"),
            isForwarded: try row.bool("is_forwarded"),
            isInUse: try row.bool("is_in_use")
        )
        type.relations = EntityType.relations(stored: try JSONTree(parsing: row.bytes("relations")).root)
        type.onErase = OnErase(rawValue: try row.string("on_erase")) ?? .delete
        type.channels = ChannelRules(
            storedChannels: try JSONTree(parsing: row.bytes("channels")).root,
            storedGrants: try JSONTree(parsing: row.bytes("grants")).root
        )
        type.formerVisibility = try row.optionalString("former_visibility").flatMap(Visibility.init)
        return type
    }
}

/// An entity type that is in use from this push on.
struct TypeRow {
    let organization: UUID
    let type: EntityType

    static let columns = Columns<TypeRow>(
        .uuid("organization_id", \.organization),
        .text("name", \.type.name),
        .choice("id_space", \.type.idSpace),
        .choice("visibility", \.type.visibility),
        .int2("default_priority", \.type.defaultPriority),
        .bool("is_forwarded", \.type.isForwarded),
        .text("relations") { String(decoding: $0.type.storedRelations, as: UTF8.self) }
    )
}

/// Reads an organization's ``UpstreamSettings``.
package enum UpstreamSettingsRow {
    /// Columns of `upstreams`.
    package static let list = """
        base_url, credential, timeout_seconds, max_concurrency, id_pointer, headers, allowed_headers, erase_endpoint,
            send_weak_etags
        """

    /// Reads the columns of ``list``, unsealed.
    package static func read(_ row: inout RowReader, _ seal: Seal) throws -> UpstreamSettings {
        let baseURL = try row.string("base_url")
        let credential = try seal.open(json: row.optionalBytes("credential"), as: .upstream(.credential))
        var settings = UpstreamSettings(
            baseURL: baseURL,
            credential: try credential.flatMap { UpstreamCredential(stored: try JSONTree(parsing: $0).root) },
            timeoutSeconds: Int(try row.int16("timeout_seconds")),
            maximumConcurrency: Int(try row.int16("max_concurrency")),
            idPointer: try row.string("id_pointer"),
            headers: try headers(row.bytes("headers"), seal),
            allowedHeaders: try row.strings("allowed_headers"),
            eraseEndpoint: try row.optionalString("erase_endpoint")
        )
        settings.sendsWeakETags = try row.bool("send_weak_etags")
        return settings
    }

    private static func headers(_ stored: [UInt8], _ seal: Seal) throws -> [ByteExactString: String] {
        let opened = try seal.open(json: stored, as: .upstream(.headers)) ?? []
        return UpstreamSettings.headers(stored: try JSONTree(parsing: opened).root)
    }
}
