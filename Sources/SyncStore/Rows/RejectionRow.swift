import Postgres
import SyncModel

/// A refused entry, recorded so that a repetition gets the same answer.
struct RejectionRow {
    private let lane: LaneKey
    private let rejection: Rejection
    /// In stored form.
    private let error: [UInt8]?

    init(_ lane: LaneKey, _ rejection: Rejection, _ seals: SealTable) throws(SealError) {
        self.lane = lane
        self.rejection = rejection
        let place = SealedPlace.rejection(user: lane.user, key: rejection.idempotencyKey)
        error = try seals[lane.organization].seal(json: rejection.error, as: place)
    }

    static let columns = Columns<RejectionRow>(
        .lane(\.lane),
        .uuid("idempotency_key", \.rejection.idempotencyKey),
        .uuid("id", \.rejection.id),
        .uuid("device_id", \.rejection.deviceID),
        .int8("sequence_number", \.rejection.sequenceNumber),
        .json("error", \.error)
    )
}
