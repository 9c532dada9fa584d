import FoundationEssentials
import Postgres
import SyncModel

/// A request to be sent for an organization that accepts events.
struct SentRequestRow {
    let organization: UUID
    let key: UUID
    let entityType: String
    let entityID: String?

    init(_ dispatch: Dispatch) {
        organization = dispatch.lane.organization
        key = DispatchPlanner.idempotencyKey(of: dispatch.mutation, in: dispatch.lane)
        entityType = dispatch.mutation.entity.type
        entityID = dispatch.serverID?.text
    }

    static let columns = Columns<SentRequestRow>(
        .value("organization_id", \.organization),
        .value("idempotency_key", \.key),
        .value("entity_type", \.entityType),
        .value("server_id", \.entityID)
    )

    /// Records requests. If a request is sent again, its record is in flight again.
    static let write = Statement(
        "lane_note_requests",
        columns.inputs + ["now"],
        """
        INSERT INTO sent_requests AS s (\(columns.names), sent_at)
        SELECT k.*, :now FROM \(columns.unnested(as: "k"))
        ON CONFLICT (organization_id, idempotency_key) DO UPDATE
        SET sent_at = excluded.sent_at, answered_at = NULL
        """
    )
}

/// The outcome of a request.
struct AnsweredRequestRow {
    let organization: UUID
    let key: UUID
    let entityID: String?
    let content: [UInt8]?
    let version: Int64?

    static let columns = Columns<AnsweredRequestRow>(
        .value("organization_id", \.organization),
        .value("idempotency_key", \.key),
        .value("server_id", \.entityID),
        .bytes("content", \.content),
        .value("version", \.version)
    )

    static let write = Statement(
        "lane_note_answers",
        columns.inputs + ["now"],
        """
        UPDATE sent_requests AS s
        SET answered_at = :now::timestamptz, server_id = coalesce(k.server_id, s.server_id),
            content = k.content, version = k.version
        FROM \(columns.unnested(as: "k"))
        WHERE s.organization_id = k.organization_id AND s.idempotency_key = k.idempotency_key
        """
    )

    /// Deletes the records of requests that cannot have taken effect.
    static let forget = Statement(
        "lane_forget_requests",
        RequestKeyRow.columns.inputs,
        """
        DELETE FROM sent_requests AS s
        USING \(RequestKeyRow.columns.unnested(as: "k"))
        WHERE s.organization_id = k.organization_id AND s.idempotency_key = k.idempotency_key
        """
    )

    static let statements = [SentRequestRow.write, write, forget]
}

/// The outcomes of requests, for organizations that accept events.
struct RequestOutcomes {
    private var answered: [AnsweredRequestRow] = []
    private var void: [RequestKeyRow] = []

    /// - Parameter entity: the entity's state in the feed after the outcome.
    mutating func add(_ lane: LaneKey, _ result: LaneOutcome, entity: EntityState?) {
        guard result.from == .inFlight else { return }
        let key = DispatchPlanner.idempotencyKey(of: result.mutation, in: lane)
        let outcome = result.outcome
        switch outcome.echo {
        case .expected:
            let content = outcome.describesEntity ? entity.flatMap(ContentHash.init(of:)) : nil
            answered.append(
                AnsweredRequestRow(
                    organization: lane.organization,
                    key: key,
                    entityID: outcome.serverID?.text,
                    content: content?.bytes,
                    version: content == nil ? nil : SentRecord.version(of: outcome.etag)
                )
            )
        case .open: break
        case .none: void.append(RequestKeyRow(organization: lane.organization, key: key))
        }
    }

    func queries(at now: Timestamp) -> [Query] {
        var queries: [Query] = []
        if !answered.isEmpty {
            queries.append(AnsweredRequestRow.columns.query(AnsweredRequestRow.write, answered, at: now))
        }
        if !void.isEmpty { queries.append(RequestKeyRow.columns.query(AnsweredRequestRow.forget, void)) }
        return queries
    }
}
