import Postgres
import SyncModel

/// The outcome of a mutation. A class: it is read column by column, and never copied.
final class OutcomeRow: Sendable {
    private let lane: LaneKey
    private let result: LaneOutcome
    private let changePosition: Int64
    /// In stored form.
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
