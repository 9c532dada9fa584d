import Foundation
import Postgres
import SyncModel

// The rows that a group's lane statements take in.

/// A job's lane.
struct JobRow {
    let job: Int32
    let lane: LaneKey

    static let columns = Columns<JobRow>(.int4("job", \.job), .lane(\.lane))
}

/// A lane whose head is looked for.
struct HeadRow {
    let job: Int32
    let lane: LaneKey
    let headPosition: Int64

    static let columns = Columns<HeadRow>(
        .int4("job", \.job),
        .lane(\.lane),
        .int8("head_position", \.headPosition)
    )
}

/// A mutation whose waiters are released.
struct BlockerRow {
    let job: Int32
    let lane: LaneKey
    let blocker: UUID
    let changePosition: Int64
    /// What it may cost, in look-ups.
    var budget: Int64 = 0

    static let columns = Columns<BlockerRow>(
        .int4("job", \.job),
        .lane(\.lane),
        .uuid("blocker", \.blocker),
        .int8("change_position", \.changePosition),
        .int8("budget", \.budget)
    )

    /// What a statement may cost, over all lanes, in look-ups: a tenth of a second, so that whoever is committed together
    /// with a lane that has much to release hardly waits for it.
    static let wholeBudget = 16_384

    static func query(_ rows: [BlockerRow], _ now: Timestamp) -> Query {
        var rows = rows
        for index in rows.indices { rows[index].budget = Int64(wholeBudget / rows.count) }
        return columns.query(LaneStatements.unblock, rows, at: now)
    }
}

/// What is in flight from now on.
struct FlightRow {
    let dispatch: Dispatch

    static let columns = Columns<FlightRow>(
        .lane(\.dispatch.lane),
        .uuid("id", \.dispatch.mutation.id),
        .int2("attempt_count", \.attempts)
    )

    /// The built-in store is no attempt.
    private var attempts: Int16 {
        guard case .upstream = dispatch.destination else { return dispatch.mutation.attemptCount }
        return dispatch.attempts
    }
}

/// What came of a mutation. A class: it is read column by column, and never copied.
final class OutcomeRow: Sendable {
    private let lane: LaneKey
    private let result: LaneOutcome
    private let changePosition: Int64
    /// As they are stored.
    private let responseBody, error, sentPayload: [UInt8]?
    private let lastError: String?

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
    }

    static let columns = Columns<OutcomeRow>(
        .lane(\.lane),
        .uuid("id", \.result.mutation.id),
        .choice("status", \.result.status),
        .int4("revision", \.result.outcome.revision),
        .int2("attempt_count", \.result.outcome.attemptCount),
        .moment("next_retry_at", \.result.outcome.nextRetryAt),
        .serverID(\.result.outcome.serverID),
        .int8("version", \.result.version),
        .choice("resolution", \.result.outcome.resolution),
        .int2("response_status", \.result.outcome.responseStatus),
        .json("response_body", \.responseBody),
        .json("error", \.error),
        .text("last_error", \.lastError),
        .int2("last_error_code", \.result.outcome.lastErrorCode),
        .bool("is_outcome_unknown", \.result.outcome.isOutcomeUnknown),
        .int2("conflict_retries", \.result.outcome.conflictRetries),
        .text("sent_method", \.result.outcome.override?.method),
        .text("sent_endpoint", \.result.outcome.override?.endpoint),
        .json("sent_payload", \.sentPayload),
        .int8("change_position", \.changePosition),
        .choice("expected_status", \.result.from),
        .int2("hold_count") { $0.result.outcome.hold?.count ?? 0 },
        .moment("held_since", \.result.outcome.hold?.since),
        .text("etag", \.result.outcome.etag)
    )
}

/// What became of the mapping of a create.
struct MappingOutcomeRow {
    let lane: LaneKey
    let clientID: UUID
    let entityType: String
    let outcome: Outcome
    let changePosition: Int64
    /// Whether what is said of it may stand here as it is.
    let isPlain: Bool

    /// Creates only have one; those under a device's own id, or a global one, have none.
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
        .uuid("client_id", \.clientID),
        .text("entity_type", \.entityType),
        // an id counts once the create is final
        .serverID { $0.outcome.status.isFinal ? $0.outcome.serverID : nil },
        .bool("fails") { $0.outcome.status == .failed },
        .int2("tries") { $0.outcome.isFailedTry ? 1 : 0 },
        // an upstream's words stand in the mutation, too, and sealed there
        .text("last_error") { $0.outcome.status.isFinal || !$0.isPlain ? nil : $0.outcome.lastError },
        .int8("change_position", \.changePosition)
    )
}

/// What was created under a device's own id.
struct CreatedIDRow {
    let lane: LaneKey
    /// What stands for the device's own id.
    let clientID: UUID
    let mutation: UUID
    let serverID: ServerID

    static let columns = Columns<CreatedIDRow>(
        .lane(\.lane),
        .uuid("client_id", \.clientID),
        .uuid("mutation_id", \.mutation),
        .serverID(\.serverID)
    )
}

extension CreatedIDRow {
    /// An id leads somewhere once its create is final.
    init?(_ lane: LaneKey, _ result: LaneOutcome) {
        let mutation = result.mutation
        guard result.outcome.status.isFinal, mutation.operation == .create, let serverID = result.outcome.serverID,
            case .number(_, let standIn)? = mutation.entity.client
        else { return nil }
        self.init(lane: lane, clientID: standIn, mutation: mutation.id, serverID: serverID)
    }
}
