package import FoundationEssentials
import Postgres
package import SyncModel
import SyncStore

/// Reads the facts that explain why a user's data have not arrived, in a few bounded reads.
package struct UserExplainer: Sendable {
    let pool: Pool
    let catalog: Catalog
    let backlog: BacklogReader
    let now: TimeSource
    let failure: StoreFailure

    /// Returns the reasons why data of a user have not arrived.
    ///
    /// - Parameters:
    ///   - mutation: the mutation that the question is about; nil if it is about none.
    ///   - device: the device that the question is about; nil for all devices.
    ///   - entity: the entity that the question is about; nil if it is about none.
    package func explanation(
        of user: UUID,
        in organization: Organization,
        mutation: UUID?,
        device: UUID?,
        entity: EntityKey? = nil
    ) async throws(Problem) -> Explanation {
        let lane = LaneKey(organization: organization.id, user: user)
        let access = try await access(of: lane)
        var snapshot = UserSnapshot(
            organization: organization.status,
            access: access,
            isKnown: true,
            device: device,
            now: now()
        )
        guard access == .itself else { return Explanation(of: snapshot) }
        snapshot.backlog = try await backlog.backlog(organization: lane.organization, user: user)
        do {
            let key = Parameters(of: lane)
            let results = try await pool.readByIndex([
                Query(LaneListing.laneStatement, key),
                Query(Self.isKnownStatement, key),
            ])
            snapshot.lane = try results[0].read { try LaneRows.read(&$0).state }.first
            snapshot.isKnown = try results[1].read(0, 0)
            snapshot.isLetIn =
                try organization.settings.provisioning != .explicit || results[1].read(0, 1, as: Bool.self)
            if let mutation { snapshot.mutation = try await question(about: mutation, lane) }
            if let entity { snapshot.entity = try await question(about: entity, lane) }
        } catch {
            throw failure.problem(error, doing: "explain a user")
        }
        return Explanation(of: snapshot)
    }

    private func access(of lane: LaneKey) async throws(Problem) -> UserSnapshot.Access {
        switch try await catalog.entry(lane.organization).joins.state(of: lane.user, at: now()) {
        case .part(let target): return .part(of: target)
        case .closed: return .joining
        case .itself: return try await catalog.isErased(lane) ? .erased : .itself
        }
    }

    private func question(about id: UUID, _ lane: LaneKey) async throws -> UserSnapshot.Question {
        try await catalog.opening(lane.organization) { seal in
            let bytes = Int64(WorkBounds.answer)
            let results = try await pool.readByIndex([
                MutationReader.recordsStatement(
                    organization: lane.organization,
                    user: lane.user,
                    ids: [id],
                    bytes: bytes,
                    all_bytes: bytes
                ),
                MutationHistoryStatements.ahead(organization: lane.organization, user: lane.user, id: id),
                MutationHistoryStatements.attempts(organization: lane.organization, user: lane.user, id: id),
            ])
            let laneSeal = LaneSeal(seal: seal.withoutKeyRefresh, user: lane.user)
            let record = try results[0].read { try RecordColumns.boundedRecord(&$0, laneSeal) }.first
            var question = UserSnapshot.Question(
                id: id,
                record: record,
                ahead: BoundedCount(found: try results[1].read(0, 0))
            )
            question.rule = try results[2].read(MutationHistory.Attempt.init).last?.note.rule
            return question
        }
    }

    private func question(about key: EntityKey, _ lane: LaneKey) async throws -> UserSnapshot.EntityQuestion {
        let type = try await catalog.entry(lane.organization).types[key.type]
        return try await catalog.opening(lane.organization) { seal in
            var question = UserSnapshot.EntityQuestion(user: lane.user, key: key)
            question.type = type
            let seals = SealTable([lane.organization: seal.withoutKeyRefresh])
            let find = EntityRows.find(at: [(organization: lane.organization, key: key)])
            let found = try await pool.readByIndex([find])[0].read { try EntityRows.read(&$0, seals).state }
            guard let state = found.first else { return question }
            question.state = state
            guard let rules = type?.channelRules, let channels = state.channels else { return question }
            let id = ServerID(text: key.id, isInteger: state.isIntegerID)
            question.channels = rules.names(document: state.document, id: id, owner: state.owner)
            let held = Self.heldStatement(
                organization: lane.organization,
                user: lane.user,
                channels: channels.map(\.uuid)
            )
            question.grants = try await pool.readByIndex([held])[0].read { row in
                (try row.read("name"), try row.choice("role"), try row.read("source"))
            }
            return question
        }
    }

    /// The grants through which a user holds any of the given channels.
    static let heldStatement = Statement(
        "explain_held",
        ["organization", "user", "channels"],
        """
        SELECT g.name, g.role, g.source FROM channel_grants g
        WHERE g.organization_id = :organization AND g.user_id = :user AND g.channel = ANY (:channels::uuid[])
            AND g.until IS NULL
        ORDER BY g.name, g.source LIMIT 20
        """
    )

    /// Whether any data of the user exist, and whether an operator or a first push provisioned the user.
    static let isKnownStatement = Statement(
        "explain_is_known",
        ["organization", "user"],
        """
        SELECT \(KnownUsers.isListed(":user")) AS is_known, \(KnownUsers.isListed(":user", in: ["users"])) AS is_let_in
        """
    )
}
