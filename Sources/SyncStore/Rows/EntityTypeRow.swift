import FoundationEssentials
import JSONText
package import Postgres
package import SyncModel

/// Reads an ``EntityType``.
package enum EntityTypeRow {
    /// The columns, for a table that is called `t`.
    package static let list =
        """
        t.name, t.id_space, t.visibility, t.default_priority, t.is_forwarded, t.is_in_use, t.relations, t.on_delete,
            t.on_erase, t.routes, t.channels, t.grants, t.former_visibility, t.check_channels
        """

    /// Reads the columns of ``list``.
    ///
    /// The result lacks the id spaces of the types to which the type's relations refer.
    package static func read(_ row: inout RowReader) throws -> EntityType {
        var type = EntityType(
            name: try row.read("name"),
            idSpace: IDSpace(rawValue: try row.read("id_space")) ?? .mapped,
            visibility: Visibility(rawValue: try row.read("visibility")) ?? .user,
            defaultPriority: try row.read("default_priority"),
            isForwarded: try row.read("is_forwarded"),
            isInUse: try row.read("is_in_use")
        )
        type.relations = EntityType.relations(
            stored: try JSONTree(parsing: row.read("relations")).root,
            rules: try JSONTree(parsing: row.read("on_delete")).root
        )
        type.onErase = OnErase(rawValue: try row.read("on_erase")) ?? .delete
        let routes: [UInt8]? = try row.read("routes")
        type.routes = try routes.map { EntityRoutes(stored: try JSONTree(parsing: $0).root) }
        type.channels = ChannelRules(
            storedChannels: try JSONTree(parsing: row.read("channels")).root,
            storedGrants: try JSONTree(parsing: row.read("grants")).root
        )
        type.formerVisibility = try row.optionalChoice("former_visibility")
        type.checksChannels = try row.read("check_channels")
        return type
    }
}

/// An entity type that a push uses. The type is in use once the push is committed.
struct TypeRow {
    let organization: UUID
    let type: EntityType

    static let columns = Columns<TypeRow>(
        .value("organization_id", \.organization),
        .value("name", \.type.name),
        .choice("id_space", \.type.idSpace),
        .choice("visibility", \.type.visibility),
        .value("default_priority", \.type.defaultPriority),
        .value("is_forwarded", \.type.isForwarded),
        .value("relations") { String(decoding: $0.type.storedRelations, as: UTF8.self) }
    )
}

/// Reads an organization's ``UpstreamSettings``.
package enum UpstreamSettingsRow {
    /// Columns of `upstreams`.
    package static let list = """
        base_url, credential, timeout_seconds, max_concurrency, id_pointer, headers, allowed_headers, erase_endpoint,
            send_weak_etags, outcomes, is_paused, paused_until, requests_per_second, batch, updated_at
        """

    /// Reads the columns of ``list``, and unseals them.
    package static func read(_ row: inout RowReader, _ seal: Seal) throws -> UpstreamSettings {
        let baseURL: String = try row.read("base_url")
        let credential = try seal.open(json: row.read("credential"), as: .upstream(.credential))
        var settings = UpstreamSettings(
            baseURL: baseURL,
            credential: try credential.flatMap { UpstreamCredential(stored: try JSONTree(parsing: $0).root) },
            timeoutSeconds: try row.read("timeout_seconds"),
            maximumConcurrency: try row.read("max_concurrency"),
            idPointer: try row.read("id_pointer"),
            headers: try headers(row.read("headers"), seal),
            allowedHeaders: try row.read("allowed_headers"),
            eraseEndpoint: try row.read("erase_endpoint")
        )
        settings.sendsWeakETags = try row.read("send_weak_etags")
        settings.outcomes = OutcomeRules(stored: try JSONTree(parsing: row.read("outcomes")).root)
        let (isPaused, pausedUntil): (Bool, Timestamp?) = (try row.read("is_paused"), try row.read("paused_until"))
        if isPaused { settings.pause = UpstreamPause(until: pausedUntil) }
        settings.requestsPerSecond = try row.read("requests_per_second")
        let batch: [UInt8]? = try row.read("batch")
        settings.batch = try batch.flatMap { UpstreamBatch(stored: try JSONTree(parsing: $0).root) }
        settings.changedAt = try row.read("updated_at")
        return settings
    }

    private static func headers(_ stored: [UInt8], _ seal: Seal) throws -> [ByteExactString: String] {
        let opened = try seal.open(json: stored, as: .upstream(.headers)) ?? []
        return UpstreamSettings.headers(stored: try JSONTree(parsing: opened).root)
    }
}
