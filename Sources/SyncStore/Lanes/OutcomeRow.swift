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

    /// Columns that a success has values for.
    static let common = Columns<OutcomeRow>(
        .lane(\.lane),
        .uuid("id", \.result.mutation.id),
        .choice("status", \.result.status),
        .int4("revision", \.result.outcome.revision),
        .int2("attempt_count", \.result.outcome.attemptCount),
        .serverID(\.result.outcome.serverID),
        .int8("version", \.result.version),
        .int2("response_status", \.result.outcome.responseStatus),
        .json("response_body", \.responseBody),
        .int8("change_position", \.changePosition),
        .choice("expected_status", \.result.from),
        .text("etag", \.result.outcome.etag)
    )

    /// Columns that explain why a mutation did not simply succeed.
    static let uncommon = Columns<OutcomeRow>(
        .moment("next_retry_at", \.result.outcome.nextRetryAt),
        .choice("resolution", \.result.outcome.resolution),
        .json("error", \.error),
        .text("last_error", \.lastError),
        .int2("last_error_code", \.result.outcome.lastErrorCode),
        .text("error_code", \.stuck?.code),
        .int2("error_status", \.stuck?.status),
        .text("sent_method", \.result.outcome.override?.method),
        .text("sent_endpoint", \.result.outcome.override?.endpoint),
        .json("sent_payload", \.sentPayload),
        .moment("held_since", \.result.outcome.hold?.since)
    )

    static let columns = Columns(
        common,
        uncommon,
        .bool("is_outcome_unknown", \.result.outcome.isOutcomeUnknown),
        .int2("conflict_retries", \.result.outcome.conflictRetries),
        .int2("hold_count") { $0.result.outcome.hold?.count ?? 0 }
    )

    /// Whether ``common`` covers all of them: the other columns have their defaults.
    static func areCommon(_ rows: [OutcomeRow]) -> Bool {
        rows.allSatisfy { row in
            let outcome = row.result.outcome
            return !outcome.isOutcomeUnknown && outcome.conflictRetries == 0 && outcome.hold == nil
        } && uncommon.areNull(rows)
    }
}
