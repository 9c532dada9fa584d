import Foundation
import JSONText

@testable import SyncModel

/// Mutations to send, and their context.
struct Sample {
    static let now = Timestamp(microseconds: 1_795_000_000_000_000)
    static let id = UUID(uuid: (1, 1, 1, 1, 1, 1, 0x41, 1, 0x81, 1, 1, 1, 1, 1, 1, 1))
    static let local = UUID(uuid: (2, 2, 2, 2, 2, 2, 0x42, 2, 0x82, 2, 2, 2, 2, 2, 2, 2))
    static let device = UUID(uuid: (3, 3, 3, 3, 3, 3, 0x43, 3, 0x83, 3, 3, 3, 3, 3, 3, 3))
    static let lane = LaneKey(
        organization: UUID(uuid: (4, 4, 4, 4, 4, 4, 0x44, 4, 0x84, 4, 4, 4, 4, 4, 4, 4)),
        user: UUID(uuid: (5, 5, 5, 5, 5, 5, 0x45, 5, 0x85, 5, 5, 5, 5, 5, 5, 5))
    )
    static var writer: Writer { Writer(user: lane.user, device: device) }

    var position: Int64 = 1
    var operation: SyncModel.Operation = .create
    var client: ClientName? = .id(Sample.local)
    var serverID: ServerID?
    var endpoint: String? = "/contacts"
    var payload: String? = #"{"name":"Kari"}"#
    var headers: String?
    var baseVersion: Int64?
    var references: [UUID] = []
    var referenceTypes: [UUID: String] = [:]
    var visibility = Visibility.user
    var revision: Int32 = 1
    var attempts: Int16 = 0
    var maxAttempts: Int16 = 5
    var nextRetryAt: Timestamp?
    var strategy: ConflictResolution = .manual
    var resolution: ConflictResolution?
    var isOutcomeUnknown = false
    var conflictRetries: Int16 = 0
    var hold: AuthBackoff?
    var override: SentRequest?
    var idSpace: IDSpace = .mapped
    var relations: [Relation] = []
    var isForwarded = true
    /// The type's routes, JSON.
    var routes: String?
    var upstream: UpstreamSettings? = UpstreamSettings(baseURL: "http://upstream.invalid")
    var lane = Sample.lane
    var mappings: [UUID: [DispatchPlanner.ResolvedID]] = [:]
    var entity: EntityState?

    /// An update, replace or delete of contact 7, or a create.
    static func of(_ operation: SyncModel.Operation, _ strategy: ConflictResolution = .manual) -> Sample {
        var sample = Sample(operation: operation, strategy: strategy)
        guard operation != .create else { return sample }
        sample.serverID = ServerID(text: "7", isInteger: true)
        sample.endpoint = "/contacts/{local_id}"
        if operation == .delete { sample.payload = nil }
        return sample
    }

    var mutation: QueuedMutation {
        var mutation = QueuedMutation(
            id: Self.id,
            deviceID: Self.device,
            position: position,
            acceptedAt: Self.now,
            operation: operation,
            entity: EntityName(type: "contact", client: client, serverID: serverID),
            maxAttempts: maxAttempts,
            conflictResolution: strategy
        )
        mutation.endpoint = endpoint.flatMap { try? Endpoint($0) }
        mutation.payload = payload.map { Array($0.utf8) }
        mutation.headers = headers.map { Array($0.utf8) }
        mutation.baseVersion = baseVersion
        mutation.references = References(references, types: referenceTypes)
        mutation.revision = revision
        mutation.attemptCount = attempts
        mutation.nextRetryAt = nextRetryAt
        mutation.resolution = resolution
        mutation.isOutcomeUnknown = isOutcomeUnknown
        mutation.conflictRetries = conflictRetries
        mutation.hold = hold
        mutation.override = override
        return mutation
    }

    var surroundings: DispatchPlanner.LaneContext {
        var surroundings = DispatchPlanner.LaneContext(
            lane: lane,
            token: 1,
            leasedUntil: Self.now.adding(seconds: 120),
            organization: Organization(
                id: lane.organization,
                name: "Test",
                status: .active,
                settings: OrganizationSettings(),
                upstream: upstream
            ),
            type: EntityType(
                name: "contact",
                idSpace: idSpace,
                relations: relations,
                visibility: visibility,
                defaultPriority: 0,
                isForwarded: isForwarded,
                isInUse: true
            ),
            mappings: mappings,
            entity: entity
        )
        surroundings.type.routes = routes.flatMap { routes in
            (try? JSONTree(parsing: Array(routes.utf8)).root).map { EntityRoutes(stored: $0) }
        }
        return surroundings
    }

    func decision(heldUntil: Timestamp? = nil, leaseSeconds: Double = 120) -> DispatchPlanner.Decision {
        DispatchPlanner(leaseSeconds: leaseSeconds)
            .decide(mutation, surroundings, now: Self.now, heldUntil: heldUntil)
    }

    var dispatch: Dispatch? {
        if case .run(let dispatch) = decision() { dispatch } else { nil }
    }

    var request: UpstreamRequest? {
        if case .upstream(let request, _)? = dispatch?.destination { request } else { nil }
    }

    func outcome(_ answer: UpstreamAnswer, othersSucceeded: Bool = false, jitter: Double = 0) -> Outcome? {
        dispatch.map {
            OutcomePlanner(policy: RetryPolicy()).outcome(
                of: answer,
                to: $0,
                othersSucceeded: othersSucceeded,
                now: Self.now,
                jitter: jitter
            )
        }
    }

    func outcome(
        _ status: Int,
        _ json: String? = nil,
        retryAfter: Double? = nil,
        location: String? = nil,
        etag: String? = nil,
        othersSucceeded: Bool = false
    ) -> Outcome? {
        let response = UpstreamResponse(
            status: status,
            retryAt: retryAfter.map { Self.now.adding(seconds: $0) },
            location: location,
            etag: etag,
            json: json.map { Array($0.utf8) }
        )
        return outcome(.response(response), othersSucceeded: othersSucceeded)
    }

    /// The mutation after one of its outcomes was stored.
    func after(_ outcome: Outcome) -> Sample {
        var next = self
        next.revision = outcome.revision
        next.attempts = outcome.attemptCount
        next.nextRetryAt = nil
        next.serverID = outcome.serverID ?? serverID
        next.resolution = outcome.resolution
        next.isOutcomeUnknown = outcome.isOutcomeUnknown
        next.conflictRetries = outcome.conflictRetries
        next.hold = outcome.hold
        next.override = outcome.override
        return next
    }
}

extension EntityState {
    /// An entity as the feed has it.
    static func known(
        etag: String?,
        owner: UUID,
        lastWriter: Writer,
        version: Int64,
        runBase: Int64,
        isDeleted: Bool = false,
        document: [UInt8]? = nil
    ) -> EntityState {
        var state = EntityState(
            isIntegerID: true,
            version: version,
            isDeleted: isDeleted,
            document: document,
            owner: owner,
            clientID: nil,
            lastWriter: lastWriter,
            runBase: runBase
        )
        state.isStored = true
        state.etag = etag
        return state
    }
}

extension Outcome {
    var code: String? {
        error.flatMap { try? JSONTree(parsing: $0).root["code"]?.string }
    }
    var detail: String? {
        error.flatMap { try? JSONTree(parsing: $0).root["detail"]?.string }
    }
    var current: String? {
        error.flatMap {
            try? JSONTree(parsing: $0).root["current"]?["document"].map { String(decoding: $0.raw, as: UTF8.self) }
        }
    }
    /// The id of the entity with which a create is in conflict.
    var existingID: ServerID? {
        error.flatMap { try? JSONTree(parsing: $0).root["existing_id"].flatMap(ServerID.init(json:)) }
    }
    var feedVersion: Int64? {
        error.flatMap { try? JSONTree(parsing: $0).root["current"]?["feed_version"]?.int64 }
    }
    /// Seconds until the next attempt.
    var pause: Double? {
        nextRetryAt.map { Double($0.microseconds - Sample.now.microseconds) / 1_000_000 }
    }
    var document: String? {
        if case .document(let bytes, _) = entity { String(decoding: bytes, as: UTF8.self) } else { nil }
    }
    var patch: String? {
        if case .patch(let bytes, _) = entity { String(decoding: bytes, as: UTF8.self) } else { nil }
    }
    /// The validator that is stored in the feed.
    var feedETag: String? {
        switch entity {
        case .document(_, let etag), .patch(_, let etag): etag
        case .none, .deleted: nil
        }
    }
}

extension SentRequest {
    var line: String { "\(method) \(endpoint ?? "-") \(payload.map { String(decoding: $0, as: UTF8.self) } ?? "-")" }
}
