import FoundationEssentials
import Postgres
import SyncModel

/// The outcome of a mutation. The type is a class, because a class is not copied when its columns are read one by one.
final class OutcomeRow: Sendable {
    private let lane: LaneKey
    private let result: LaneOutcome
    private let changePosition: Int64
    /// The contents, in stored form.
    private let responseBody, error, sentPayload: [UInt8]?
    private let lastError: String?
    private let stuck: FailureClass?

    init(_ lane: LaneKey, _ result: LaneOutcome, _ state: LaneState, _ seals: SealTable) throws(SealError) {
        self.lane = lane
        self.result = result
        changePosition = state.changePosition
        let (id, outcome) = (result.mutation.id, result.outcome)
        let seal = seals.lane(lane)
        responseBody = try seal.seal(json: outcome.responseBody, .responseBody, of: id)
        error = try seal.seal(json: outcome.error, .error, of: id)
        sentPayload = try seal.seal(json: outcome.override?.payload, .sentPayload, of: id)
        lastError = try seal.seal(text: outcome.lastError, .lastError, of: id)
        stuck = FailureClass(
            of: outcome.status,
            error: outcome.error,
            responseStatus: outcome.responseStatus ?? outcome.lastErrorCode
        )
    }

    /// The columns that have values for a success.
    static let common = Columns<OutcomeRow>(
        .lane(\.lane),
        .value("id", \.result.mutation.id),
        .choice("status", \.result.status),
        .value("revision", \.result.outcome.revision),
        .value("attempt_count", \.result.outcome.attemptCount),
        .serverID(\.result.outcome.serverID),
        .value("version", \.result.version),
        .value("response_status", \.result.outcome.responseStatus),
        .json("response_body", \.responseBody),
        .value("change_position", \.changePosition),
        .choice("expected_status", \.result.from),
        .value("etag", \.result.outcome.etag)
    )

    /// The columns that explain why a mutation did not succeed at its first attempt.
    static let uncommon = Columns<OutcomeRow>(
        .value("next_retry_at", \.result.outcome.nextRetryAt),
        .choice("resolution", \.result.outcome.resolution),
        .json("error", \.error),
        .value("last_error", \.lastError),
        .value("last_error_code", \.result.outcome.lastErrorCode),
        .value("error_code", \.stuck?.code),
        .value("error_status", \.stuck?.status),
        .value("sent_method", \.result.outcome.override?.method),
        .value("sent_endpoint", \.result.outcome.override?.endpoint),
        .json("sent_payload", \.sentPayload),
        .value("held_since", \.result.outcome.hold?.since)
    )

    static let columns = Columns(
        common,
        uncommon,
        .value("is_outcome_unknown", \.result.outcome.isOutcomeUnknown),
        .value("conflict_retries", \.result.outcome.conflictRetries),
        .value("hold_count") { $0.result.outcome.hold?.count ?? 0 }
    )

    /// Whether ``common`` suffices for the given rows, because all their other columns have the defaults.
    static func areCommon(_ rows: [OutcomeRow]) -> Bool {
        rows.allSatisfy { row in
            let outcome = row.result.outcome
            return !outcome.isOutcomeUnknown && outcome.conflictRetries == 0 && outcome.hold == nil
        } && uncommon.areNull(rows)
    }
}

// MARK: - AttemptRow

/// A request in a mutation's history.
struct AttemptRow {
    /// The maximum number of requests that are stored for a mutation. The latest requests are kept.
    static let kept = 20

    private let lane: LaneKey
    private let result: LaneOutcome
    private let note: AttemptRecord

    /// Returns nil if there is no attempt to record, which is the usual case.
    init?(_ lane: LaneKey, _ result: LaneOutcome) {
        guard let note = result.outcome.attempt else { return nil }
        self.lane = lane
        self.result = result
        self.note = note
    }

    static let columns = Columns<AttemptRow>(
        .lane(\.lane),
        .value("id", \.result.mutation.id),
        .value("revision", \.note.revision),
        .value("number", \.note.number),
        .value("sent_at", \.note.sentAt),
        .value("duration_ms", \.note.milliseconds),
        .value("status", \.note.status),
        .value("error", \.note.reason),
        .choice("outcome") { $0.note.result }
    )

    /// Writes attempts. The statement must run before the outcome is written.
    ///
    /// If the time of sending is not recorded, the time when the mutation was marked as in flight is used. The rows of
    /// a mutation form a ring, in which a new attempt replaces the oldest one, so that no row has to be deleted.
    static let write = Statement(
        "lane_write_attempts",
        columns.inputs,
        """
        INSERT INTO attempts AS a (
            organization_id, user_id, mutation_id, slot, ordinal, revision, number, sent_at, duration_ms, status, error,
            outcome)
        SELECT k.organization_id, k.user_id, k.id, (l.ordinal % \(kept))::int2, l.ordinal, k.revision, k.number,
            coalesce(k.sent_at, m.changed_at), k.duration_ms, k.status, k.error, k.outcome
        FROM \(columns.unnested(as: "k"))
        CROSS JOIN LATERAL (
            SELECT x.changed_at FROM mutations x
            WHERE x.organization_id = k.organization_id AND x.user_id = k.user_id AND x.id = k.id
                AND x.status = 'in_flight'
            OFFSET 0
        ) m
        CROSS JOIN LATERAL (
            SELECT coalesce(max(x.ordinal), 0) + 1 AS ordinal FROM attempts x
            WHERE x.organization_id = k.organization_id AND x.user_id = k.user_id AND x.mutation_id = k.id
        ) l
        ON CONFLICT (organization_id, user_id, mutation_id, slot) DO UPDATE
        SET ordinal = excluded.ordinal, revision = excluded.revision, number = excluded.number,
            sent_at = excluded.sent_at, duration_ms = excluded.duration_ms, status = excluded.status,
            error = excluded.error, outcome = excluded.outcome
        """
    )
}

/// The outcome of a create's mapping.
struct MappingOutcomeRow {
    let lane: LaneKey
    let clientID: UUID
    let entityType: String
    let outcome: Outcome
    let changePosition: Int64
    /// Whether the error can be stored in the mapping unsealed.
    let isPlain: Bool

    /// Returns nil if the mutation has no mapping.
    ///
    /// Only creates have a mapping. A create has no mapping if its entity has a local id of the device, or an id in the
    /// id space `shared`.
    init?(_ lane: LaneKey, _ result: LaneOutcome, _ state: LaneState, _ seals: SealTable) {
        let mutation = result.mutation
        guard let clientID = mutation.createdClientID else { return nil }
        self.lane = lane
        self.clientID = clientID
        entityType = mutation.entity.type
        outcome = result.outcome
        changePosition = state.changePosition
        isPlain = seals[lane.organization].isPlain
    }

    static let columns = Columns<MappingOutcomeRow>(
        .lane(\.lane),
        .value("client_id", \.clientID),
        .value("entity_type", \.entityType),
        // the id is stored once the create is final
        .serverID { $0.outcome.status.isFinal ? $0.outcome.serverID : nil },
        .value("fails") { $0.outcome.status == .failed },
        .value("tries") { $0.outcome.isFailedTry ? 1 : 0 },
        // an error that must be sealed is stored only in the mutation
        .value("last_error") { $0.outcome.status.isFinal || !$0.isPlain ? nil : $0.outcome.lastError },
        .value("change_position", \.changePosition)
    )
}

/// The server id of an entity that was created under a device's local id.
struct CreatedIDRow {
    let lane: LaneKey
    /// The UUID that represents the local id.
    let clientID: UUID
    let mutation: UUID
    let serverID: ServerID

    static let columns = Columns<CreatedIDRow>(
        .lane(\.lane),
        .value("client_id", \.clientID),
        .value("mutation_id", \.mutation),
        .serverID(\.serverID)
    )
}

extension CreatedIDRow {
    /// Returns nil while the create is not final, because only a final create has a server id.
    init?(_ lane: LaneKey, _ result: LaneOutcome) {
        let mutation = result.mutation
        guard result.outcome.status.isFinal, mutation.operation == .create, let serverID = result.outcome.serverID,
            case .number(_, let standIn)? = mutation.entity.client
        else { return nil }
        self.init(lane: lane, clientID: standIn, mutation: mutation.id, serverID: serverID)
    }
}
