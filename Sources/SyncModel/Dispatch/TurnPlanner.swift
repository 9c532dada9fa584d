import Crypto
package import Foundation
import JSONText

/// Decides what is to be done about the mutation at the head of a lane: whether its turn has come, and what goes out
/// (product rules 2, 6 and 8). Pure.
package struct TurnPlanner: Sendable {
    /// What is known about the head besides its row.
    package struct Surroundings: Sendable {
        /// The lane.
        package var lane: LaneKey
        /// The lease that it runs under.
        package var token: Int64
        /// When that lease ends.
        package var leasedUntil: Timestamp
        /// The tenant.
        package var organization: Organization
        /// The type of the mutation's entity.
        package var type: EntityType
        /// Resolved mappings of the client ids that the mutation names.
        package var mappings: [UUID: [ResolvedID]]
        /// The entity as the feed knows it; nil when it does not.
        package var entity: KnownEntity?

        /// Creates the value.
        package init(
            lane: LaneKey,
            token: Int64,
            leasedUntil: Timestamp,
            organization: Organization,
            type: EntityType,
            mappings: [UUID: [ResolvedID]],
            entity: KnownEntity?
        ) {
            self.lane = lane
            self.token = token
            self.leasedUntil = leasedUntil
            self.organization = organization
            self.type = type
            self.mappings = mappings
            self.entity = entity
        }
    }

    /// Where a client id leads under one type.
    package struct ResolvedID: Sendable, Hashable {
        /// The type that the client id was created in.
        package var entityType: String
        /// The permanent id.
        package var serverID: ServerID

        /// Creates the value.
        package init(entityType: String, serverID: ServerID) {
            self.entityType = entityType
            self.serverID = serverID
        }
    }

    /// The entity that a mutation changes, as the feed knows it: what a `base_version` is judged by, and what If-Match is
    /// made of.
    package struct KnownEntity: Sendable, Hashable {
        /// The upstream's validator of this state.
        package var etag: String?
        /// Whose the entity is.
        package var owner: UUID
        /// Who wrote last through us.
        package var lastWriter: Writer
        /// Our count of its states.
        package var version: Int64
        /// The version before the last writer's uninterrupted run.
        package var runBase: Int64
        /// Whether it is a tombstone.
        package var isDeleted: Bool
        /// JSON; nil where nobody needs it: the mutation was made on this very version.
        package var document: [UInt8]?
        /// Whether its document is stored and cannot be opened.
        package var isUnreadable: Bool

        /// Creates the value.
        package init(
            etag: String?,
            owner: UUID,
            lastWriter: Writer,
            version: Int64,
            runBase: Int64,
            isDeleted: Bool = false,
            document: [UInt8]? = nil,
            isUnreadable: Bool = false
        ) {
            self.etag = etag
            self.owner = owner
            self.lastWriter = lastWriter
            self.version = version
            self.runBase = runBase
            self.isDeleted = isDeleted
            self.document = document
            self.isUnreadable = isUnreadable
        }

        var run: VersionRun { VersionRun(version: version, base: runBase, lastWriter: lastWriter) }
    }

    /// What is to be done.
    package enum Decision: Sendable {
        /// Its turn has come.
        case run(Dispatch)
        /// It holds the lane until then.
        case hold(until: Timestamp)
        /// It can never run as it is.
        case fail(Outcome)
        /// It is in conflict with what is known here, and nothing is sent; the entity's version, where it gave way to that.
        case conflict(Outcome, version: Int64?)
    }

    /// How long a lane waits that has nowhere to send to, in seconds.
    static let pauseWithoutUpstream: Double = 30

    /// What lanes run under: requests time out well before its end.
    let lease: LaneLease

    /// Creates a planner.
    package init(leaseSeconds: Double) {
        lease = LaneLease(seconds: leaseSeconds)
    }

    /// Decides about a head.
    ///
    /// - Parameter heldUntil: set while the upstream's circuit is open.
    package func decide(
        _ mutation: QueuedMutation,
        _ surroundings: Surroundings,
        now: Timestamp,
        heldUntil: Timestamp?
    ) -> Decision {
        do throws(Problem) {
            return try turn(mutation, surroundings, now: now, heldUntil: heldUntil)
        } catch {
            return fail(mutation, surroundings, error)
        }
    }

    private func turn(
        _ mutation: QueuedMutation,
        _ surroundings: Surroundings,
        now: Timestamp,
        heldUntil: Timestamp?
    ) throws(Problem) -> Decision {
        if let problem = Problem.unreadable(mutation) { throw problem }
        if let due = mutation.nextRetryAt, due > now { return .hold(until: due) }
        try checkTypes(mutation, surroundings)
        let own = ownServerID(mutation, surroundings)
        if mutation.operation != .create, own == nil {
            throw Problem(.dependencyRejected, "the entity it changes has no server id")
        }
        guard surroundings.type.isForwarded else {
            let payload = try body(mutation, surroundings, own, instead: nil) ?? []
            return .run(dispatch(mutation, surroundings, own, .builtIn(payload: payload)))
        }
        if let conflict = versionConflict(mutation, surroundings, own) { return conflict }
        if let heldUntil, heldUntil > now { return .hold(until: heldUntil) }
        guard let upstream = surroundings.organization.upstream else {
            return .hold(until: now.adding(seconds: Self.pauseWithoutUpstream))
        }
        guard let endpoint = mutation.endpoint, let path = try? Endpoint(endpoint) else {
            let detail = "its type '\(mutation.entityType)' is forwarded now, and it has no endpoint to be sent to"
            throw Problem(.validationFailed, detail)
        }
        let resolved = mutation.override?.endpoint ?? self.path(path, mutation, surroundings, own)
        if let problem = PathRules.problem(in: resolved) {
            throw Problem(.validationFailed, "with ids in place its endpoint \(problem)")
        }
        let headers = headers(mutation, upstream)
        let request = UpstreamRequest(
            organization: surroundings.lane.organization,
            user: surroundings.lane.user,
            method: mutation.override?.method ?? mutation.operation.method,
            path: resolved,
            headers: headers,
            ifMatch: mutation.override == nil ? ifMatch(mutation, surroundings, headers) : nil,
            isUnconditional: mutation.override != nil,
            body: try body(mutation, surroundings, own, instead: mutation.override?.payload),
            idempotencyKey: Self.idempotencyKey(of: mutation, in: surroundings.lane),
            trace: mutation.trace,
            timeout: .seconds(lease.timeout(of: upstream))
        )
        return .run(dispatch(mutation, surroundings, own, .upstream(request, upstream)))
    }

    func dispatch(
        _ mutation: QueuedMutation,
        _ surroundings: Surroundings,
        _ serverID: ServerID?,
        _ destination: Dispatch.Destination
    ) -> Dispatch {
        Dispatch(
            lane: surroundings.lane,
            token: surroundings.token,
            leasedUntil: surroundings.leasedUntil,
            mutation: mutation,
            type: surroundings.type,
            serverID: serverID,
            entityVersion: surroundings.visibleEntity?.version,
            organization: surroundings.organization,
            destination: destination
        )
    }

    private func fail(
        _ mutation: QueuedMutation,
        _ surroundings: Surroundings,
        _ problem: Problem
    ) -> Decision {
        var outcome = Outcome(
            .failed,
            .rejected,
            of: dispatch(mutation, surroundings, nil, .builtIn(payload: []))
        )
        outcome.attemptCount = mutation.attemptCount
        // an earlier attempt may have taken effect all the same
        outcome.isOutcomeUnknown = mutation.isOutcomeUnknown
        outcome.error = problem.json
        outcome.lastError = problem.detail
        // nothing was learned of an earlier attempt
        outcome.isOutcomeUnknown = mutation.isOutcomeUnknown
        return .fail(outcome)
    }

    // MARK: - Ids

    private func ownServerID(_ mutation: QueuedMutation, _ surroundings: Surroundings) -> ServerID? {
        if mutation.operation == .create, surroundings.type.idSpace.isServerGiven, mutation.override == nil {
            // not even when it met an entity that was there before
            return nil
        }
        if let id = mutation.serverID { return id }
        guard mutation.operation != .create, let localID = mutation.localID else { return nil }
        return surroundings.mappings[localID]?.first { $0.entityType == mutation.entityType }?.serverID
    }

    private func resolve(_ id: UUID, _ mutation: QueuedMutation, _ surroundings: Surroundings, _ own: ServerID?)
        -> ServerID?
    {
        if id == mutation.localID { return own }
        guard mutation.references.contains(id) else { return nil }
        let type = mutation.referenceTypes[id]
        return surroundings.mappings[id]?.first { type == nil || $0.entityType == type }?.serverID
    }

    /// Of a client id whose type was not noted, more than one cannot be chosen from.
    private func checkTypes(_ mutation: QueuedMutation, _ surroundings: Surroundings) throws(Problem) {
        for id in mutation.references where mutation.referenceTypes[id] == nil && id != mutation.localID {
            guard let known = surroundings.mappings[id], Set(known.map(\.entityType)).count > 1 else { continue }
            throw .ambiguous("client id \(id.lowercased)", known.map(\.entityType))
        }
    }

    private func path(_ path: Endpoint, _ mutation: QueuedMutation, _ surroundings: Surroundings, _ own: ServerID?)
        -> String
    {
        // a create has no server id yet: the id that its device gave it stands for it
        let given =
            mutation.localNumber.map { ServerID(text: String($0), isInteger: true) }
            ?? mutation.localID.map { ServerID($0) }
        return path.resolved(own: own ?? given) {
            resolve($0, mutation, surroundings, own)
        }
    }

    /// The mutation's payload with server ids in place, or what it sends instead.
    ///
    /// - Throws: `dependency_rejected` where a relation holds an id of the device that leads to no server id. To everybody
    ///   else such a number means another entity, or none.
    private func body(
        _ mutation: QueuedMutation,
        _ surroundings: Surroundings,
        _ own: ServerID?,
        instead sent: [UInt8]?
    ) throws(Problem) -> [UInt8]? {
        if let sent, !surroundings.type.holdsLocalIDs { return sent }
        guard let payload = mutation.payload, let root = try? JSONTree(parsing: payload).root else { return sent }
        let references = surroundings.type.localReferences(in: root, on: mutation.deviceID)
        var replacements: [UUID: JSONReplacement] = [:]
        for reference in references where replacements[reference.clientID] == nil {
            replacements[reference.clientID] = try replacement(of: reference, mutation, surroundings, own)
        }
        if let sent {
            // what was not known when this was decided went in by the UUID that stands for it
            guard !replacements.isEmpty, let root = try? JSONTree(parsing: sent, limits: .widest).root else {
                return sent
            }
            return root.rewritten { replacements[$0] } ?? sent
        }
        let edits = references.compactMap { reference in
            replacements[reference.clientID].map { JSONEdit(reference.place.value, $0) }
        }
        return root.rewritten(edits) { resolve($0, mutation, surroundings, own)?.replacement } ?? payload
    }

    private func replacement(
        of reference: LocalReference,
        _ mutation: QueuedMutation,
        _ surroundings: Surroundings,
        _ own: ServerID?
    ) throws(Problem) -> JSONReplacement {
        let isOwn = reference.clientID == mutation.localID
        let known = surroundings.mappings[reference.clientID]?.first { $0.entityType == reference.id.entityType }
        if let id = isOwn ? own : known?.serverID { return id.replacement }
        // the built-in store puts the id in when it has made it
        if isOwn, mutation.operation == .create, !surroundings.type.isForwarded { return .uuid(reference.clientID) }
        let pointer = "/payload" + reference.place.pointer
        let reason = isOwn ? "which this mutation creates: it has no server id before that" : "which has no server id"
        let detail = "\(pointer) holds \(reference.id.words), \(reason)"
        throw Problem(.dependencyRejected, pointer: pointer, rule: Rule.entityReference, detail)
    }

    // MARK: - Headers

    private func headers(_ mutation: QueuedMutation, _ upstream: UpstreamSettings) -> [String: String] {
        guard let json = mutation.headers, let members = try? JSONTree(parsing: json).root.members else { return [:] }
        var headers: [String: String] = [:]
        for (name, value) in members where upstream.allows(name.string) {
            headers[name.string.lowercased()] = value.string
        }
        return headers
    }

    /// Within a writer's own run of writes the upstream's state is the one that our last answer showed, whatever the
    /// client saw when it was offline; the client's own If-Match would conflict with itself. A mutation that names no
    /// state gets no condition.
    private func ifMatch(
        _ mutation: QueuedMutation,
        _ surroundings: Surroundings,
        _ headers: [String: String]
    ) -> String? {
        guard mutation.operation != .create, mutation.resolution != .clientWins,
            let entity = surroundings.visibleEntity, let etag = entity.etag, HeaderField.isValue(etag)
        else { return nil }
        let writer = Writer(user: surroundings.lane.user, device: mutation.deviceID)
        if let baseVersion = mutation.baseVersion {
            return entity.run.verdict(on: baseVersion, from: writer) == .fits ? etag : Self.passedValidator
        }
        return headers["if-match"] != nil && entity.lastWriter == writer ? etag : nil
    }

    // MARK: - The upstream's key

    /// Our own key, the same for all attempts of a revision (product rule 6): made of what names the revision, so that
    /// any replica makes the same. A UUID of version 8 (RFC 9562, 5.8).
    package static func idempotencyKey(of mutation: QueuedMutation, in lane: LaneKey) -> UUID {
        var hash = SHA256()
        for id in [lane.organization, lane.user, mutation.id] {
            withUnsafeBytes(of: id.uuid) { hash.update(bufferPointer: $0) }
        }
        withUnsafeBytes(of: mutation.revision.bigEndian) { hash.update(bufferPointer: $0) }
        return UUID(hash: hash.finalize())
    }
}

extension TurnPlanner.Surroundings {
    /// The entity, where it is the mutation's user's to see: of another's nothing is sent.
    var visibleEntity: TurnPlanner.KnownEntity? {
        type.visibility == .organization || entity?.owner == lane.user ? entity : nil
    }
}
