import JSONText
package import SyncModel

/// The stored position of a worker in a database's log. Operators also see it.
package struct ReplicationState: Sendable, Hashable {
    /// The slot that was read last. A worker can change to another slot if that slot is not ahead of the stored
    /// position.
    @Exact package var slot: String
    /// The server's system identifier. Log positions of servers with different identifiers are not comparable.
    @Exact package var system: String
    /// The database's oid, because the databases of a server share its log positions; nil in states of older gateways.
    package var database: Int64?
    /// The number that is added to log positions to form versions. Because of this number, versions still grow after
    /// the log was reset.
    package var base: Int64
    /// The log position in PostgreSQL's text form. All changes up to this position are in the feed.
    @Exact package var confirmed: String
    /// The server's timeline, which a failover changes.
    ///
    /// It is nil in states of older gateways, which could confirm a position to the server before they stored the
    /// position.
    package var timeline: Int64?
    /// A defect that an operator should correct although the source works. An example is a publication without
    /// TRUNCATE.
    package var warning: String?
    /// The scope of the publication at the last check; nil in states of older gateways.
    package var scope: PublicationScope?
    /// A change of the publication, due to which the log lacks changes of rows; nil if the log lacks no changes.
    ///
    /// The source stops for this reason, until an operator runs it from the beginning.
    @Exact package var gap: String?
    /// The state of the slot at the last check.
    package var report: SlotReport?
    /// The number of refused rows, and the reason for the last refusal.
    package var refused: Int64 = 0
    @Exact package var lastRefusal: String?
    /// The table that was last truncated, with the time. The gateway does not follow TRUNCATE.
    @Exact package var lastTruncation: String?
    /// The number of rows that were inserted after the first TRUNCATE and whose events were stale.
    ///
    /// Such an event is stale because the entity already has a newer version.
    package var staleInsertions: Int64 = 0
    /// The last change that affected rows, but is not in the log; with the time of its detection.
    @Exact package var lastRewrite: String?

    package init(slot: String, system: String, base: Int64, confirmed: String) {
        self.slot = slot
        self.system = system
        self.base = base
        self.confirmed = confirmed
    }

    /// Reads the stored form; nil if the bytes have another form.
    package init?(_ bytes: [UInt8]) {
        guard let root = try? JSONTree(parsing: bytes).root, let slot = root["slot"]?.string,
            let system = root["system"]?.string, let base = root["base"]?.int64,
            let confirmed = root["confirmed_lsn"]?.string
        else { return nil }
        self.init(slot: slot, system: system, base: base, confirmed: confirmed)
        refused = root["refused"]?.int64 ?? 0
        lastRefusal = root["last_refusal"]?.string
        lastTruncation = root["last_truncation"]?.string
        staleInsertions = root["stale_inserts"]?.int64 ?? 0
        lastRewrite = root["last_rewrite"]?.string
        database = root["database"]?.int64
        timeline = root["timeline"]?.int64
        warning = root["warning"]?.string
        report = root["slot_report"].flatMap(SlotReport.init)
        scope = root["publication"].flatMap(PublicationScope.init)
        gap = root["gap"]?.string
    }

    package var json: [UInt8] {
        JSONWriter.object { writer in
            writer.member("confirmed_lsn", confirmed)
            writer.member("slot", slot)
            if let report { writer.member("slot_report", object: report.writeMembers) }
            writer.member("refused", refused)
            if let lastRefusal { writer.member("last_refusal", lastRefusal) }
            if let lastTruncation { writer.member("last_truncation", lastTruncation) }
            if lastTruncation != nil { writer.member("stale_inserts", staleInsertions) }
            if let lastRewrite { writer.member("last_rewrite", lastRewrite) }
            if let warning { writer.member("warning", warning) }
            if let gap { writer.member("gap", gap) }
            if let scope { writer.member("publication", object: scope.writeMembers) }
            writer.member("system", system)
            if let database { writer.member("database", database) }
            if let timeline { writer.member("timeline", timeline) }
            writer.member("base", base)
        }
    }
}

/// The state of a slot, as the server reports it.
package struct SlotReport: Sendable, Hashable {
    /// The possible values of a slot's `wal_status`, the best first.
    package static let walStatuses = ["reserved", "extended", "unreserved", "lost"]

    package var checkedAt: Timestamp
    /// The distance from the confirmed position to the end of the server's log, in bytes.
    package var lagBytes: Int64
    /// The size of the log that the server retains for the slot, in bytes.
    package var retainedBytes: Int64
    /// One of ``walStatuses``.
    @Exact package var walStatus: String
    /// The number of bytes by which the server's log can grow before the slot may be lost; nil if only the disk limits
    /// the log.
    package var safeBytes: Int64?

    package init(checkedAt: Timestamp, lagBytes: Int64, retainedBytes: Int64, walStatus: String, safeBytes: Int64?) {
        self.checkedAt = checkedAt
        self.lagBytes = lagBytes
        self.retainedBytes = retainedBytes
        self.walStatus = walStatus
        self.safeBytes = safeBytes
    }

    init?(_ value: JSONValue) {
        guard let checkedAt = value["checked_at"]?.timestamp,
            let lag = value["lag_bytes"]?.int64, let retained = value["retained_bytes"]?.int64,
            let status = value["wal_status"]?.string
        else { return nil }
        self.init(
            checkedAt: checkedAt,
            lagBytes: lag,
            retainedBytes: retained,
            walStatus: status,
            safeBytes: value["safe_wal_size"]?.int64
        )
    }

    func writeMembers(to writer: inout JSONWriter) {
        writer.member("lag_bytes", lagBytes)
        writer.member("retained_bytes", retainedBytes)
        writer.member("wal_status", walStatus)
        writer.member("safe_wal_size", safeBytes)
        writer.member("checked_at", checkedAt.rfc3339)
    }
}

// MARK: - ReplicationSettings

/// A source of kind `postgres`: the gateway reads the log of the organization's own database.
package struct ReplicationSettings: TableObject, Hashable {
    package static let tableLimit = 100

    /// The logical replication slot, created for `pgoutput`.
    @Exact package private(set) var slot: String = ""
    @Exact package private(set) var publication: String = ""
    /// Whether a missing slot is created before the first run.
    package private(set) var createsSlot = false
    package private(set) var tables: [FollowedTable] = []

    package init() {}

    package static let table = MemberTable<Self, Self>("the settings of a postgres source") {
        BodyMember("slot", .text(slotForm) { isSlotName($0) }, as: \.slot).required()
        BodyMember("publication", .plain(QualifiedName.partLimit), as: \.publication).required()
        BodyMember("create_slot", .bool(subject: "this"), as: \.createsSlot)
        BodyMember("tables", MemberKind { tables($0, at: $1.pointer, &$2) }, as: \.tables).required()
    }

    private static let slotForm = "must be the name of a slot: 1 to 63 of a-z, 0-9 and _"

    private static func tables(_ value: JSONValue, at pointer: String, _ report: inout MemberReport)
        -> [FollowedTable]
    {
        guard let elements = value.elements.map({ Array($0.prefix(tableLimit + 1)) }),
            (1...tableLimit).contains(elements.count)
        else {
            report.refuse(pointer, Rule.range, "tables must be an array of 1 to \(tableLimit) tables")
            return []
        }
        var tables: [FollowedTable] = []
        for (index, element) in elements.enumerated() {
            let place = "\(pointer)/\(index)"
            guard let table = FollowedTable(element, at: place, &report) else { continue }
            if tables.contains(where: { $0.name == table.name }) {
                report.refuse("\(place)/table", Rule.range, "table \(table.name) occurs twice")
            }
            tables.append(table)
        }
        return tables
    }

    /// If several tables have the same entity type, adds an error to the report for each of them without
    /// `distinct_ids`. Rows of these tables with equal ids would be one entity, and a deletion in one table would
    /// delete this entity.
    ///
    /// Stored settings are read without this check, because older gateways accepted such settings. Their sources work,
    /// and operators see ``mergeWarning``.
    func refuseMergingTables(at pointer: String, _ report: inout MemberReport) {
        for (index, table) in tables.enumerated() where !table.hasDistinctIDs {
            guard let other = tables.first(where: { $0.entityType == table.entityType && $0.name != table.name })
            else { continue }
            report.refuse(
                "\(pointer)/tables/\(index)/entity_type",
                Rule.range,
                "table \(other.name) has the same entity_type '\(table.entityType)', so rows of both tables with equal "
                    + "ids would become one entity; use another entity_type, or set distinct_ids: true in each table "
                    + "of this type if no id ever occurs in two of them"
            )
        }
    }

    /// A warning about the first table without `distinct_ids` that shares its entity type with another table; nil if
    /// there is no such table.
    var mergeWarning: String? {
        for table in tables where !table.hasDistinctIDs {
            guard let other = tables.first(where: { $0.entityType == table.entityType && $0.name != table.name })
            else { continue }
            return
                "Tables \(table.name) and \(other.name) have the same entity_type '\(table.entityType)', so rows with "
                + "equal ids become one entity. Use different types in the settings, or set distinct_ids: true in "
                + "each table of this type if no id ever occurs in two of them"
        }
        return nil
    }

    private static func isSlotName(_ text: String) -> Bool {
        (1...QualifiedName.partLimit).contains(text.utf8.count)
            && text.utf8.allSatisfy { (97...122).contains($0) || (48...57).contains($0) || $0 == UInt8(ascii: "_") }
    }

    /// Returns the reason why a text is not a connection URI; nil for a valid URI. The reason contains no part of the
    /// text.
    static func problem(ofSecret secret: String?) -> String? {
        guard let secret else { return "a postgres source requires a secret: the URI of the database" }
        do throws(DatabaseURI.Malformed) {
            _ = try DatabaseURI(secret)
            return nil
        } catch {
            return error.reason
        }
    }

    /// Refuses an operator's request to read all data from a place on, because a slot has only one position.
    ///
    /// Adds an error to the report, and always returns nil.
    static func state(from value: JSONValue, at pointer: String, _ report: inout MemberReport) -> [UInt8]? {
        report.refuse(pointer, Rule.range, "from must be null: a slot is read from its position")
        return nil
    }
}

/// The reason why a source cannot be read.
///
/// The message has one or two sentences, instructs the operator, and contains no secret.
package struct SourceFailure: Error, Sendable, Hashable {
    package let userMessage: String
    /// Whether the failure persists until an operator corrects it.
    package let isFatal: Bool

    package init(_ userMessage: String, isFatal: Bool = true) {
        self.userMessage = userMessage
        self.isFatal = isFatal
    }
}
