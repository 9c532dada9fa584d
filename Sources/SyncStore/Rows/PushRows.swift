import Foundation
package import Postgres
import SyncModel

// What a group of pushes writes beside mutations.

/// A device that has pushed.
struct DevicePushRow {
    let lane: LaneKey
    let id: UUID
    let acceptedSequence: Int64
    /// As they are stored; nil where they stay what they are.
    let strayIDs: [UInt8]?

    static let columns = Columns<DevicePushRow>(
        .lane(\.lane),
        .uuid("device_id", \.id),
        .int8("accepted_sequence", \.acceptedSequence),
        .bytes("stray_ids", \.strayIDs)
    )
}

/// A new mapping.
struct MappingRow {
    let lane: LaneKey
    let changePosition: Int64
    let new: NewMapping

    static let columns = Columns<MappingRow>(
        .lane(\.lane),
        .uuid("client_id", \.new.mapping.clientID),
        .text("entity_type", \.new.mapping.entityType),
        .serverID(\.new.mapping.serverID),
        .choice("status", \.new.mapping.status),
        .uuid("mutation_id", \.new.mapping.mutationID),
        .int8("change_position", \.changePosition),
        .moment("created_at", \.new.createdAt)
    )
}

extension MappingName {
    package static let columns = Columns<MappingName>(
        .lane(\.lane),
        .uuid("client_id", \.clientID),
        .text("entity_type", \.entityType)
    )
}

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

/// What a user has used of the quota of mutations.
struct AllowanceRow {
    let lane: LaneKey
    let bucket: TokenBucket

    static let columns = Columns<AllowanceRow>(
        .lane(\.lane),
        .int8("missing", \.bucket.missing),
        .moment("as_of", \.bucket.asOf)
    )
}

/// A type of entities that is in use from now on.
struct TypeRow {
    let organization: UUID
    let type: EntityType

    static let columns = Columns<TypeRow>(
        .uuid("organization_id", \.organization),
        .text("name", \.type.name),
        .choice("id_space", \.type.idSpace),
        .choice("visibility", \.type.visibility),
        .int2("default_priority", \.type.defaultPriority),
        .bool("is_forwarded", \.type.isForwarded),
        .text("relations") { String(decoding: $0.type.storedRelations, as: UTF8.self) }
    )
}
