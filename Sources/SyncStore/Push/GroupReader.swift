import FoundationEssentials
import JSONText
import Postgres
import SyncModel

/// The first round trip of a group of pushes: its queries, and the handling of their results.
struct GroupReader {
    /// Whether rows are read under locks.
    enum Access {
        /// Reads under locks, in a transaction that will write. Missing lanes are created.
        case locking
        /// Reads one snapshot without locks, in a transaction that writes nothing.
        ///
        /// The read never waits for locks.
        case reading
    }

    /// A query, and the handling of its result.
    typealias Step = (query: Query, read: (Rows, inout GroupSnapshot) throws -> Void)

    let group: [PushInput]
    private let access: Access
    private let opening: [Query]
    let seals: SealTable
    /// The maximum bytes of documents that the group reads.
    private let documentBytes: Int
    /// The maximum bytes of documents of entities that mutations name.
    let namedBytes: Int
    private var lanes: [LaneKey] = []
    private var pushOfLane: [LaneKey: Int] = [:]
    /// The first look-ups of each push.
    let wanted: [PushLookUps]
    /// For each push, the watermark above which keys are assumed to be new; nil to look up every key.
    let watermarks: [Int64]?
    /// Whether the first look-ups suffice to refuse an entry.
    private let isComplete: Bool
    /// The queries and the handlers of their results, in order.
    var steps: [Step] = []

    /// - Parameters:
    ///   - hints: the cached watermarks of devices, which reduce the look-ups of keys and ids; nil to look up all keys
    ///     and ids. A device without a cached watermark is assumed to be new: its user's lane is created if missing,
    ///     and the device's keys are not looked up. Omitted keys and ids are looked up before anything is refused
    ///     (``completion(of:)``).
    ///   - deviceLimit: the maximum number of a user's devices, at which counting stops.
    ///   - documentBytes: the maximum bytes of documents to read; other documents are left out.
    ///   - namedBytes: the maximum bytes of documents of entities that mutations name; nil for `documentBytes`.
    init(
        _ group: [PushInput],
        hints: WatermarkHints?,
        deviceLimit: Int,
        seals: SealTable,
        documentBytes: Int = WorkBounds.groupDocuments,
        namedBytes: Int? = nil,
        access: Access = .locking
    ) {
        let remembered = group.map { hints?[$0.device] }
        self.init(
            group,
            seals,
            access,
            documentBytes,
            namedBytes ?? documentBytes,
            // a read without locks uses a connection of the pool, which by default does not plan by index
            opening: access == .locking ? [.begin] : Query.beginReadingByIndex,
            watermarks: hints == nil ? nil : remembered.map { $0 ?? 0 },
            isComplete: hints == nil
        )
        let maybeNew = deviceRows().filter { remembered[$0.push] == nil }
        addLanes(maybeNew: maybeNew.map(\.lane).sorted())
        addDeviceCounts(maybeNew, limit: deviceLimit)
        addAllowances()
        addLookUps()
        addOrderKeys()
        addEntities()
        steps += accessSteps
    }

    /// Reads the data of repeats, on a committer's connection.
    ///
    /// The read omits the data that only new entries require.
    init(repeating group: [PushInput], seals: SealTable) {
        self.init(group, seals, .reading, 0, 0, opening: [.beginReading], watermarks: nil, isComplete: false)
        addLanes(maybeNew: [])
        addAllowances()
        addRepeated()
    }

    private init(
        _ group: [PushInput],
        _ seals: SealTable,
        _ access: Access,
        _ documentBytes: Int,
        _ namedBytes: Int,
        opening: [Query],
        watermarks: [Int64]?,
        isComplete: Bool
    ) {
        self.group = group
        self.seals = seals
        self.access = access
        self.documentBytes = documentBytes
        self.namedBytes = namedBytes
        self.opening = opening
        self.watermarks = watermarks
        self.isComplete = isComplete
        wanted = group.enumerated().map { PushLookUps.initial(for: $1.push, above: watermarks?[$0]) }
        lanes = group.map(\.lane)
        for (index, job) in group.enumerated() { pushOfLane[job.lane] = index }
    }

    var queries: [Query] { opening + steps.map(\.query) }

    func snapshot(_ results: [Rows]) throws -> GroupSnapshot {
        var snapshot = GroupSnapshot(
            pushes: group.map { input in
                var push = PushSnapshot()
                push.isComplete = isComplete
                push.localIDs = input.localIDs
                return push
            },
            hasLane: group.map { _ in false }
        )
        for input in group where !input.channelRules.isEmpty && snapshot.entities[input.lane.organization] == nil {
            snapshot.entities[input.lane.organization] = EntityTable(input.channelRules)
        }
        for (step, rows) in zip(steps, results.dropFirst(opening.count)) { try step.read(rows, &snapshot) }
        for input in group where !input.relations.isEmpty {
            snapshot.entities[input.lane.organization, default: EntityTable()].relations = input.relations
        }
        return snapshot
    }

    /// Returns the reader of the referrers: the entities that refer to an entity which the pushes may delete.
    func referrers(_ snapshot: GroupSnapshot) -> ReferrerReader {
        // usually no organization has relations
        if group.allSatisfy(\.relations.isEmpty) { return ReferrerReader([], access, seals, documentBytes: 0) }
        let deletions = zip(group, snapshot.pushes).map { input, push in
            let names = input.push.entries.compactMap(\.mutation).filter { mutation in
                mutation.operation == .delete && input.relations.isTarget(mutation.entity.type)
            }
            return (input, push, names)
        }
        let deleting = Set(deletions.lazy.filter { !$0.2.isEmpty }.map(\.0.lane.organization))
        return ReferrerReader(
            deletions.map { input, push, deleted in
                // a deletion also affects entities whose references to the deleted entity were written by this group
                let others =
                    deleting.contains(input.lane.organization)
                    ? input.push.entries.compactMap(\.mutation).filter { input.relations.isChained($0.entity.type) }
                    : []
                return ReferrerReader.Deletions(
                    organization: input.lane.organization,
                    relations: input.relations,
                    entities: Array(Set((deleted + others).flatMap { push.keys(of: $0.entity) }))
                )
            },
            access,
            seals,
            documentBytes: documentBytes
        )
    }

    // MARK: - Lanes and devices

    /// - Parameter maybeNew: lanes that may be missing. If a device is cached, its lane exists unless the lane was
    ///   purged.
    private mutating func addLanes(maybeNew: [LaneKey]) {
        let pushOfLane = pushOfLane
        if access == .locking, !maybeNew.isEmpty {
            steps.append(
                (
                    Query(GroupStatements.makeLanes, LaneRows.keys(maybeNew)),
                    { rows, snapshot in
                        for var row in rows {
                            if let push = pushOfLane[try row.lane()] { snapshot.pushes[push].isLaneNew = true }
                        }
                    }
                )
            )
        }
        steps.append(
            (
                access == .locking ? LaneRows.lock(lanes) : LaneRows.find(lanes),
                { rows, snapshot in
                    for (key, lane) in try LaneRows.lanes(rows) {
                        guard let push = pushOfLane[key] else { continue }
                        snapshot.hasLane[push] = true
                        snapshot.pushes[push].lane = lane
                    }
                }
            )
        )
        steps.append(
            (
                GroupStatements.devices(group.map(\.device)),
                { [group] rows, snapshot in
                    for var row in rows {
                        let lane = try row.lane()
                        let device = DeviceKey(lane: lane, id: try row.read("device_id"))
                        guard let push = pushOfLane[lane], group[push].device == device else { continue }
                        snapshot.pushes[push].watermark = try row.read("accepted_sequence")
                        snapshot.pushes[push].deviceSeenAt = try row.read("last_seen_at")
                        snapshot.pushes[push].unresolvedIDs = UnresolvedIDHistory(
                            stored: try row.read("stray_ids")
                        )
                    }
                }
            )
        )
    }

    private func deviceRows() -> [PushIDRow] {
        group.enumerated().map { PushIDRow(push: $0, lane: $1.lane, id: $1.push.deviceID) }
    }

    /// Counts the devices of the users who push from a new device.
    private mutating func addDeviceCounts(_ maybeNew: [PushIDRow], limit: Int) {
        guard !maybeNew.isEmpty else { return }
        var parameters = PushIDRow.devices.parameters(maybeNew)
        parameters.add(limit)
        steps.append(
            (
                Query(GroupStatements.deviceCounts, parameters),
                { rows, snapshot in
                    for var row in rows {
                        snapshot.pushes[try row.push()].deviceCount = try row.read("count")
                    }
                }
            )
        )
    }

    /// Reads the quota use of users that have a quota.
    private mutating func addAllowances() {
        let limited = group.enumerated().filter { $0.element.quota != nil }
            .map { PushRow(push: $0.offset, lane: $0.element.lane) }
        guard !limited.isEmpty else { return }
        steps.append(
            (
                PushRow.columns.query(QuotaStatements.mutations, limited),
                { rows, snapshot in
                    for var row in rows {
                        let push = try row.push()
                        snapshot.pushes[push].allowance = TokenBucket(
                            missing: try row.read("missing"),
                            asOf: try row.read("as_of")
                        )
                    }
                }
            )
        )
    }

    // MARK: - Entities

    /// The queries for the channels of users in organizations that have types with channels.
    ///
    /// The queries run after the locks of entities. A grant that was read before the gateway waited for such a lock may
    /// have ended before the locked state of the entity was written. This grant would then show the user a state that
    /// was never visible to the user.
    private var accessSteps: [Step] {
        let users = Set(group.lazy.filter { !$0.channelRules.isEmpty }.map(\.lane)).sorted()
        guard !users.isEmpty else { return [] }
        let named = Set(group.lazy.filter(\.grantsToSubjects).map(\.lane)).sorted()
        let subjects: [Step] =
            named.isEmpty
            ? [] : [(Columns.lanes.query(ChannelStatements.subjects, named), ChannelAccess.readSubjects)]
        // a preview is about one user, so all channels of this user are read
        guard access == .locking else {
            return subjects + [(Columns.lanes.query(ChannelStatements.access, users), ChannelAccess.read)]
        }
        return subjects + [(Columns.lanes.query(ChannelStatements.accessOfFew, users), ChannelAccess.readFew)]
    }

    /// Reads the channels of users again, after further entities were locked.
    func readAccess(into snapshot: inout GroupSnapshot, on connection: Connection) async throws {
        let steps = accessSteps
        guard !steps.isEmpty else { return }
        for organization in snapshot.entities.keys { snapshot.entities[organization]?.access = ChannelAccess() }
        let results = try await connection.run(steps.map(\.query))
        for (step, rows) in zip(steps, results) { try step.read(rows, &snapshot) }
    }

    private mutating func addEntities() {
        var entities = EntityLookUps()
        for (index, job) in group.enumerated() {
            for mutation in job.push.entries.compactMap(\.mutation) {
                for target in job.targets(of: mutation) {
                    entities.add(target: PushEntityRow(push: index, device: job.device, entity: target))
                }
                guard mutation.namesKnownEntity else { continue }
                entities.add(PushEntityRow(push: index, device: job.device, entity: mutation.entity))
            }
        }
        if let open = entities.open { steps.append((open, Self.readOpen)) }
        guard !entities.isEmpty else { return }
        steps.append(
            (
                entities.query(access, documentBytes: namedBytes),
                { [seals, hasTargets = entities.hasTargets] rows, snapshot in
                    try EntityRows.loadBounded(rows, hasTargets: hasTargets, into: &snapshot.entities, seals)
                }
            )
        )
    }

    /// Adds the look-up of the latest open mutations with the order keys of the group. Few pushes have order keys.
    private mutating func addOrderKeys() {
        var rows: Set<PushOrderKeyRow> = []
        for (index, job) in group.enumerated() {
            for entry in job.push.entries {
                guard let key = entry.mutation?.orderKey else { continue }
                rows.insert(PushOrderKeyRow(push: index, lane: job.lane, key: ByteExactString(key)))
            }
        }
        guard !rows.isEmpty else { return }
        steps.append(
            (
                PushOrderKeyRow.columns.query(GroupStatements.openByOrderKey, Array(rows)),
                { rows, snapshot in
                    for var row in rows {
                        let push = try row.push()
                        let key: String = try row.read("order_key")
                        snapshot.pushes[push].openOrderKeys[ByteExactString(key)] = try row.read("id", as: UUID.self)
                    }
                }
            )
        )
    }

    static func readOpen(_ rows: Rows, _ snapshot: inout GroupSnapshot) throws {
        for var row in rows {
            let push = try row.push()
            snapshot.pushes[push].open.append(
                OpenMutation(id: try row.read("id"), entity: try row.entity(), position: try row.read("position"))
            )
        }
    }
}

extension PushInput {
    /// The entities to which a mutation's payload refers by enforced relations.
    ///
    /// A UUID may be a client id or a server id.
    func targets(of mutation: Mutation) -> [EntityName] {
        let own = relations.of(mutation.entity.type)
        guard !own.isEmpty, mutation.operation != .delete, let payload = mutation.payload else { return [] }
        return payload.values(in: own).prefix(EntityRelations.limit).flatMap { value -> [EntityName] in
            let type = value.relation.entityType
            var names: [EntityName] = []
            if value.relation.idSpace == .device, let number = value.value.int64 {
                let id = LocalID(entityType: type, number: number)
                names.append(EntityName(type: type, client: id.name(on: push.deviceID)))
            } else if value.relation.idSpace == .mapped, let id = value.value.uuid {
                names.append(EntityName(type: type, client: .id(id)))
            }
            if let id = ServerID(json: value.value) { names.append(EntityName(type: type, client: nil, serverID: id)) }
            return names
        }
    }
}

extension PushSnapshot {
    /// The keys under which an entity may be stored.
    fileprivate func keys(of entity: EntityName) -> [EntityKey] {
        let mapped = (entity.clientID.flatMap { mappings[$0] } ?? []).filter { $0.entityType == entity.type }
        return (mapped.map(\.serverID) + [entity.serverID]).compactMap { id in
            id.map { EntityKey(type: entity.type, id: $0.text) }
        }
    }
}

/// Documents that are read only when it is known whether the user sees them.
///
/// The documents of entities that the user does not see count towards no limit. Otherwise a refusal because of a limit
/// would show that these entities exist.
extension GroupReader {
    /// The maximum number of times that documents are read because a grant of the push made them visible. A push that
    /// needs more reads is refused as too large.
    static let documentReads = 64

    /// For a group with one push: whether the documents of the entities that the push names are read only if the push's
    /// user sees these entities.
    var readsVisible: Bool { namedBytes == 0 && documentBytes > 0 }

    /// Whether the documents of the entities that a push names depend on what its user sees.
    static func dependsOnVisibility(_ push: PushRequest, _ types: [ByteExactString: EntityType]) -> Bool {
        push.entries.contains { entry in
            guard let type = entry.mutation.flatMap({ types[$0.entity.type] }) else { return false }
            return type.visibility != .organization
        }
    }

    /// For a group with one push: reads the documents that were omitted so far, of the entities that the push's user
    /// sees.
    nonisolated(nonsending) func readVisible(
        _ types: [ByteExactString: EntityType],
        readsForwarded: Bool,
        into snapshot: inout GroupSnapshot,
        on connection: Connection
    ) async throws {
        let lane = group[0].lane
        let entities = snapshot.entities[lane.organization] ?? EntityTable()
        let keys = entities.unread { key, state in
            let type = types[key.type]
            guard readsForwarded || type?.isForwarded != true else { return false }
            let visibility = type?.visibility ?? .organization
            // if the templates were not evaluated for this entity yet, its channels are known only after its document
            // is read
            return visibility == .channels && state.stored?.channels == nil
                || state.mayBeSeen(by: lane.user, visibility, entities.access)
        }
        try await read(keys, into: &snapshot, on: connection)
    }

    /// For a group with one push: reads the documents of some entities that the push names.
    nonisolated(nonsending) func read(
        _ keys: [EntityKey],
        into snapshot: inout GroupSnapshot,
        on connection: Connection
    ) async throws {
        guard !keys.isEmpty else { return }
        let organization = group[0].lane.organization
        let query = EntityRows.query(access, keys.map { (organization, $0) }, documentBytes: documentBytes)
        try EntityRows.loadBounded(await connection.run([query])[0], into: &snapshot.entities, seals)
    }
}
