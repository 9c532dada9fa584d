package import FoundationEssentials
import JSONText
import Postgres
package import SyncModel

/// A new mutation in stored form. The type is a class, because a class is not copied when its columns are read one by
/// one.
final class MutationRow {
    private let lane: LaneKey
    private let new: NewMutation
    private let changePosition: Int64
    private let traceparent: String?
    var dependencies = FlattenedLists.Bounds()
    var blockers = FlattenedLists.Bounds()
    var references = FlattenedLists.Bounds()
    // members that may be sealed
    private var payload, headers: ArraySlice<UInt8>?
    private var error: [UInt8]?
    private var lastError: String?
    private let stuck: FailureClass?

    init(_ lane: LaneKey, _ new: NewMutation, changePosition: Int64, traceparent: String?) {
        self.lane = lane
        self.new = new
        self.changePosition = changePosition
        self.traceparent = new.record.status.isFinal ? nil : traceparent
        payload = new.mutation.payload?.raw
        headers = new.mutation.headers?.raw
        error = new.record.error
        lastError = new.record.lastError
        stuck = FailureClass(of: new.record.status, error: error, responseStatus: new.record.responseStatus)
    }

    /// The columns that have values for a mutation that takes effect immediately, as in the built-in store.
    static let common = Columns<MutationRow>(
        .lane(\.lane),
        .value("id", \.new.mutation.id),
        .value("device_id", \.new.record.parts.origin.deviceID),
        .value("sequence_number", \.new.mutation.sequenceNumber),
        .value("position", \.new.record.parts.origin.position),
        .value("change_position", \.changePosition),
        .value("idempotency_key", \.new.mutation.idempotencyKey),
        .bytes("fingerprint", \.new.record.fingerprint.stored),
        .bytes("fingerprint_places") { row in
            let places = row.new.record.fingerprint.places
            return places.isEmpty ? nil : places
        },
        .choice("operation", \.new.mutation.operation),
        .entity(\.new.record.entity),
        .value("endpoint", \.new.mutation.endpoint?.text),
        .json("payload", \.payload),
        .value("priority", \.new.priority),
        .value("max_attempts", \.new.mutation.maxAttempts),
        .choice("conflict_resolution", \.new.conflictResolution),
        .value("base_version", \.new.mutation.baseVersion),
        .choice("status") { MutationStatus.pending.moved(to: $0.new.record.status) },
        .value("version", \.new.record.parts.state.version),
        .value("response_status", \.new.record.parts.response.responseStatus),
        .value("created_at", \.new.mutation.createdAt),
        .value("synced_at", \.new.record.parts.state.syncedAt)
    )

    /// The columns for which few mutations have a value.
    static let uncommon = Columns<MutationRow>(
        .json("headers", \.headers),
        .value("order_key", \.new.mutation.orderKey),
        .choice("resolution", \.new.record.parts.state.resolution),
        .json("error", \.error),
        .value("last_error", \.lastError),
        .value("traceparent", \.traceparent),
        .value("error_code", \.stuck?.code),
        .value("error_status", \.stuck?.status)
    )

    /// All columns except those that contain lists.
    static let plain = Columns(common, uncommon)

    /// Whether ``common`` covers all of the given mutations.
    ///
    /// If so, the mutations are final, their lists are empty, and ``uncommon`` contains no value.
    static func areCommon(_ rows: [MutationRow]) -> Bool {
        rows.allSatisfy { row in
            row.new.record.syncedAt != nil && row.dependencies.isEmpty && row.blockers.isEmpty && row.references.isEmpty
        } && uncommon.areNull(rows)
    }

    /// All columns. Lists are given by their bounds.
    static let columns = Columns(
        plain,
        .value("dependencies_from", \.dependencies.from),
        .value("dependencies_to", \.dependencies.to),
        .value("blockers_from", \.blockers.from),
        .value("blockers_to", \.blockers.to),
        .value("references_from", \.references.from),
        .value("references_to", \.references.to)
    )

    /// Whether a member that is stored unchanged would be mistaken for a sealed value.
    ///
    /// Headers and problems cannot be mistaken, because they are objects.
    var looksSealed: Bool {
        payload.map { SealedText.needsEscape(json: $0) } ?? false
            || lastError.map { SealedText.needsEscape(text: $0) } ?? false
    }

    /// Seals all members for storage.
    func seal(_ seal: LaneSeal) throws(SealError) {
        let id = new.mutation.id
        payload = try seal.seal(json: payload.map { Array($0) }, .payload, of: id).map { $0[...] }
        headers = try seal.seal(json: headers.map { Array($0) }, .headers, of: id).map { $0[...] }
        error = try seal.seal(json: error, .error, of: id)
        lastError = try seal.seal(text: lastError, .lastError, of: id)
    }
}

/// A refused mutation. The refusal is recorded so that a repeat gets the same response.
struct RejectionRow {
    private let lane: LaneKey
    private let rejection: Rejection
    /// The error, in stored form.
    private let error: [UInt8]?

    init(_ lane: LaneKey, _ rejection: Rejection, _ seals: SealTable) throws(SealError) {
        self.lane = lane
        self.rejection = rejection
        let place = SealedPlace.rejection(user: lane.user, key: rejection.idempotencyKey)
        error = try seals[lane.organization].seal(json: rejection.error, as: place)
    }

    static let columns = Columns<RejectionRow>(
        .lane(\.lane),
        .value("idempotency_key", \.rejection.idempotencyKey),
        .value("id", \.rejection.id),
        .value("device_id", \.rejection.deviceID),
        .value("sequence_number", \.rejection.sequenceNumber),
        .json("error", \.error)
    )
}

struct MappingRow {
    let lane: LaneKey
    let changePosition: Int64
    let new: NewMapping

    static let columns = Columns<MappingRow>(
        .lane(\.lane),
        .value("client_id", \.new.mapping.clientID),
        .value("entity_type", \.new.mapping.entityType),
        .serverID(\.new.mapping.serverID),
        .choice("status", \.new.mapping.status),
        .value("mutation_id", \.new.mapping.mutationID),
        .value("change_position", \.changePosition),
        .value("created_at", \.new.createdAt)
    )
}

/// A user's client id of an entity type: the key of a mapping.
package struct MappingName: Hashable, Comparable {
    package let lane: LaneKey
    package let clientID: UUID
    @Exact package private(set) var entityType: String

    package init(lane: LaneKey, clientID: UUID, entityType: String) {
        self.lane = lane
        self.clientID = clientID
        self.entityType = entityType
    }

    package static func < (left: MappingName, right: MappingName) -> Bool {
        if left.lane != right.lane { return left.lane < right.lane }
        return (left.clientID, left.entityType) < (right.clientID, right.entityType)
    }
}

/// A user's use of the quota of mutations.
struct AllowanceRow {
    let lane: LaneKey
    let bucket: TokenBucket

    static let columns = Columns<AllowanceRow>(
        .lane(\.lane),
        .value("missing", \.bucket.missing),
        .value("as_of", \.bucket.asOf)
    )
}

extension FeedCursor {
    /// Reads `organization_id`, `epoch` and `last_position` of a feed, as the feed's end.
    static func end(_ row: inout RowReader) throws -> (organization: UUID, end: FeedCursor) {
        let organization: UUID = try row.read("organization_id")
        let epoch: Int64 = try row.read("epoch")
        let position: Int64 = try row.read("last_position")
        return (organization, FeedCursor(epoch: epoch, position: position, head: position))
    }
}
