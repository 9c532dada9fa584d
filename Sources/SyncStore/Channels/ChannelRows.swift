import FoundationEssentials
import Metrics
import Postgres
import SyncModel

/// The rows about channels that a transaction changes: grants, and stays. (A stay is the time that an entity spends in
/// a channel.)
struct ChannelWrites {
    private var moved: [StayRow] = []
    private var joined: [StayRow] = []
    private var left: [StayRow] = []
    private var sources: [GrantSourceRow] = []
    private var grants: [GrantRow] = []

    /// Adds a write of an entity.
    mutating func add(_ row: EntityRow) {
        let changes = row.state.stays
        func rows(_ channels: [ChannelID]) -> [StayRow] { channels.map { StayRow(entity: row, channel: $0) } }
        moved += rows(changes.moved)
        joined += rows(changes.joined)
        left += rows(changes.left)
        guard let granted = row.state.grants else { return }
        let source = GrantSource.entity(row.key).text
        sources.append(GrantSourceRow(organization: row.organization, source: source))
        grants += granted.map { GrantRow(organization: row.organization, source: source, grant: $0) }
    }

    /// The queries to run after the feeds are raised and before the entities are written.
    var queries: [Query] {
        var queries: [Query] = []
        if !left.isEmpty {
            queries.append(StayRow.columns.query(ChannelStatements.recordEnds, left))
            queries.append(StayRow.columns.query(ChannelStatements.endStays, left))
        }
        if !moved.isEmpty { queries.append(StayRow.columns.query(ChannelStatements.moveStays, moved)) }
        if !joined.isEmpty { queries.append(StayRow.columns.query(ChannelStatements.beginStays, joined)) }
        if !sources.isEmpty {
            var parameters = GrantSourceRow.columns.parameters(sources)
            GrantRow.columns.add(grants, to: &parameters)
            queries.append(Query(ChannelStatements.endGrants, parameters))
        }
        if !grants.isEmpty { queries.append(GrantRow.columns.query(ChannelStatements.beginGrants, grants)) }
        return queries
    }
}

/// A channel of an entity that is written.
struct StayRow {
    let entity: EntityRow
    let channel: ChannelID

    static let columns = Columns<StayRow>(
        .value("organization_id", \.entity.organization),
        .value("channel", \.channel.uuid),
        .value("changed_at") { $0.entity.state.stored?.position ?? 0 },
        .value("before_end", \.entity.beforeEnd),
        .value("entity_type", \.entity.key.type),
        .value("id", \.entity.key.id),
        .value("id_is_integer", \.entity.state.isIntegerID)
    )
}

/// An entity that makes grants: the source of these grants.
struct GrantSourceRow {
    let organization: UUID
    let source: String

    static let columns = Columns<GrantSourceRow>(
        .value("organization_id", \.organization),
        .value("source", \.source)
    ).inputs(prefixed: "of_")
}

/// A grant that an entity makes.
struct GrantRow {
    let organization: UUID
    let source: String
    let grant: GrantedChannel

    static let columns = Columns<GrantRow>(
        .value("organization_id", \.organization),
        .value("source", \.source),
        .value("user_id", \.grant.holder.user),
        .value("issuer", \.grant.holder.subject?.issuer.string),
        .value("subject", \.grant.holder.subject?.text.string),
        .value("channel") { ChannelID(named: $0.grant.channel).uuid },
        .value("name", \.grant.channel),
        .choice("role", \.grant.role)
    )
}

/// A user or a subject to whom an entity grants channels.
struct HolderRow {
    let organization: UUID
    let holder: GrantHolder

    static let columns = Columns<HolderRow>(
        .value("organization_id", \.organization),
        .value("user_id", \.holder.user),
        .value("issuer", \.holder.subject?.issuer.string),
        .value("subject", \.holder.subject?.text.string)
    )

    /// Reads the result of ``ChannelStatements/holders``: the users who hold the grants.
    static func holders(_ rows: Rows) throws -> [GrantHolder: UUID] {
        var holders: [GrantHolder: UUID] = [:]
        for var row in rows {
            let user: UUID? = try row.read("user_id")
            let (issuer, subject): (String?, String?) = (try row.read("issuer"), try row.read("subject"))
            let holder = try row.read("holder_id", as: UUID.self)
            if let user {
                holders[.user(user)] = holder
            } else if let issuer, let subject {
                holders[.subject(Subject(issuer: ByteExactString(issuer), text: ByteExactString(subject)))] = holder
            }
        }
        return holders
    }
}

extension GrantHolder {
    fileprivate var user: UUID? { if case .user(let id) = self { id } else { nil } }
    fileprivate var subject: Subject? { if case .subject(let subject) = self { subject } else { nil } }
}

/// A channel on which a decision about a user depends.
struct UserChannelRow {
    let user: LaneKey
    let channel: ChannelID

    static let columns = Columns<UserChannelRow>(.lane(\.user), .value("channel", \.channel.uuid))
}

extension ChannelRules {
    /// The rules of the types with channels.
    static func byType(_ types: [ByteExactString: EntityType]) -> [ByteExactString: ChannelRules] {
        types.compactMapValues(\.channelRules)
    }

    /// Whether any type's entities grant channels to subjects.
    static func grantToSubjects(_ rules: [ByteExactString: ChannelRules]) -> Bool {
        rules.values.contains(where: \.grantsToSubjects)
    }
}

extension ChannelAccess {
    /// Reads the result of ``ChannelStatements/access`` for one user.
    init(of user: LaneKey, _ rows: Rows) throws {
        var tables: [UUID: EntityTable] = [:]
        try Self.read(rows, into: &tables)
        self = tables[user.organization]?.access ?? ChannelAccess()
    }

    /// Adds the result of ``ChannelStatements/access`` to a snapshot, by organization.
    static func read(_ rows: Rows, _ snapshot: inout GroupSnapshot) throws { try read(rows, into: &snapshot.entities) }

    /// The maximum number of a user's grants that a transaction reads at first.
    ///
    /// If a user has more grants, the transaction later reads the channels on which its plans depend.
    static let mostTogether = 200
    /// The maximum number of reads of single further channels. After these, one more read returns all channels of the
    /// users.
    private static let mostReads = 4

    /// Reads the result of ``ChannelStatements/subjects``.
    static func readSubjects(_ rows: Rows, _ snapshot: inout GroupSnapshot) throws {
        try readSubjects(rows, into: &snapshot.entities)
    }

    static func readSubjects(_ rows: Rows, into tables: inout [UUID: EntityTable]) throws {
        for var row in rows {
            let user = try row.lane()
            let subject = Subject(
                issuer: ByteExactString(try row.read("issuer", as: String.self)),
                text: ByteExactString(try row.read("subject", as: String.self))
            )
            tables[user.organization, default: EntityTable()].access.note(subject, of: user.user)
        }
    }

    /// Reads the result of ``ChannelStatements/accessOfFew``.
    static func readFew(_ rows: Rows, _ snapshot: inout GroupSnapshot) throws {
        try readFew(rows, into: &snapshot.entities)
    }

    static func readFew(_ rows: Rows, into tables: inout [UUID: EntityTable]) throws {
        try read(rows, into: &tables)
        var counts: [LaneKey: Int] = [:]
        for var row in rows { counts[try row.lane(), default: 0] += 1 }
        for (user, count) in counts where count > mostTogether {
            tables[user.organization]?.access.leaveOut(user.user)
        }
    }

    /// Reads the channels on which a plan depended although they had not been read.
    ///
    /// - Parameter reads: the number of earlier calls for the group.
    /// - Returns: false if there are no such channels.
    static func readUnread(
        _ tables: inout [UUID: EntityTable],
        _ reads: inout Int,
        on connection: Connection
    ) async throws -> Bool {
        let unread = tables.flatMap { organization, table in
            table.access.unread.map { (user: LaneKey(organization: organization, user: $0), channels: $1) }
        }
        guard !unread.isEmpty else { return false }
        reads += 1
        let readsAll = reads > mostReads
        guard readsAll else {
            try await read(unread, into: &tables, on: connection)
            return true
        }
        let query = Columns.lanes.query(ChannelStatements.access, unread.map(\.user).sorted())
        try read(await connection.run([query])[0], into: &tables)
        for (user, _) in unread { tables[user.organization]?.access.note(read: nil, of: user.user) }
        return true
    }

    /// Reads the grants of some channels, for users with many channels.
    static func read(
        _ unread: [(user: LaneKey, channels: Set<ChannelID>)],
        into tables: inout [UUID: EntityTable],
        on connection: Connection
    ) async throws {
        let rows = unread.flatMap { user, channels in
            channels.sorted().map { UserChannelRow(user: user, channel: $0) }
        }
        guard !rows.isEmpty else { return }
        try read(
            await connection.run([UserChannelRow.columns.query(ChannelStatements.accessTo, rows)])[0],
            into: &tables
        )
        for (user, channels) in unread {
            tables[user.organization]?.access.note(read: channels, of: user.user)
        }
    }

    /// The query for a user's grants to some channels.
    static func query(of user: LaneKey, to channels: [ChannelID]) -> Query {
        let rows = channels.map { UserChannelRow(user: user, channel: $0) }
        return UserChannelRow.columns.query(ChannelStatements.accessTo, rows)
    }

    static func read(_ rows: Rows, into tables: inout [UUID: EntityTable]) throws {
        for var row in rows {
            let user = try row.lane()
            tables[user.organization, default: EntityTable()].access.load(
                user.user,
                ChannelID(try row.read("channel")),
                try row.choice("role"),
                from: try row.read("source")
            )
        }
    }
}

/// Counts changes of users' grants.
package struct ChannelMetrics: Sendable {
    /// The number of grants that began or ended, by `source`.
    package static let changedGrants = "sluice_channel_grants_changed_total"
    /// The number of entities whose channels were evaluated again, by `result`.
    package static let evaluatedEntities = "sluice_channel_evaluated_entities_total"

    private let entity = Counter(label: changedGrants, dimensions: [("source", "entity")])
    private let `operator` = Counter(label: changedGrants, dimensions: [("source", "operator")])
    private let token = Counter(label: changedGrants, dimensions: [("source", "token")])
    private let written = Counter(label: evaluatedEntities, dimensions: [("result", "written")])
    private let unchanged = Counter(label: evaluatedEntities, dimensions: [("result", "unchanged")])
    private let unreadable = Counter(label: evaluatedEntities, dimensions: [("result", "unreadable")])

    package init() {}

    package func countChange(byOperator changed: Int) { `operator`.increment(by: changed) }

    func countChange(byToken changed: Int) { token.increment(by: changed) }

    func count(_ step: ChannelEvaluation.Step) {
        written.increment(by: step.written)
        unchanged.increment(by: step.examined - step.written - step.unreadable)
        unreadable.increment(by: step.unreadable)
    }

    /// Counts the grants that entities began or ended, from the results of committed queries.
    func count(_ queries: [Query], _ results: [Rows]) {
        let changed = zip(queries, results).reduce(0) { sum, pair in
            Self.statements.contains(pair.0.statement.name) ? sum + pair.1.affected : sum
        }
        if changed > 0 { entity.increment(by: changed) }
    }

    private static let statements = [ChannelStatements.endGrants.name, ChannelStatements.beginGrants.name]
}
