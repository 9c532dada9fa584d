import Postgres
import SyncModel

/// A refused entry that is remembered.
struct RejectionRow {
    private let lane: LaneKey
    private let rejection: Rejection
    /// As it is stored.
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
