import Crypto
public import Foundation
import JSONText

/// Decides what is to be done about the mutation at the head of a lane: whether its turn has come, and what goes out
/// (product rules 2, 6 and 8). Pure.
public struct TurnPlanner: Sendable {
    /// What is known about the head besides its row.
    public struct Surroundings: Sendable {
        /// The lane.
        public var lane: LaneKey
        /// The lease that it runs under.
        public var token: Int64
        /// The tenant.
        public var organization: Organization
        /// The type of the mutation's entity.
        public var type: EntityType
        /// Resolved mappings of the client ids that the mutation names.
        public var mappings: [UUID: [ResolvedID]]
        /// The entity as the feed knows it; nil when it does not.
        public var entity: KnownEntity?

        /// Creates the value.
        public init(
            lane: LaneKey,
            token: Int64,
            organization: Organization,
            type: EntityType,
            mappings: [UUID: [ResolvedID]],
            entity: KnownEntity?
        ) {
            self.lane = lane
            self.token = token
            self.organization = organization
            self.type = type
            self.mappings = mappings
            self.entity = entity
        }
    }

    /// Where a client id leads under one type.
    public struct ResolvedID: Sendable, Hashable {
        /// The type that the client id was created in.
        public var entityType: String
        /// The permanent id.
        public var serverID: ServerID

        /// Creates the value.
        public init(entityType: String, serverID: ServerID) {
            self.entityType = entityType
            self.serverID = serverID
        }
    }

    /// What If-Match is made of.
    public struct KnownEntity: Sendable, Hashable {
        /// The upstream's validator of this state.
        public var etag: String?
        /// Who wrote last through us.
        public var lastWriter: Writer
        /// Our count of its states.
        public var version: Int64
        /// The version before the last writer's uninterrupted run.
        public var runBase: Int64

        /// Creates the value.
        public init(etag: String?, lastWriter: Writer, version: Int64, runBase: Int64) {
            self.etag = etag
            self.lastWriter = lastWriter
            self.version = version
            self.runBase = runBase
        }
    }

    /// What is to be done.
    public enum Decision: Sendable {
        /// Its turn has come.
        case run(Dispatch)
        /// It holds the lane until then.
        case hold(until: Timestamp)
        /// It can never run as it is.
        case fail(Outcome)
    }

    /// How long a lane waits that has nowhere to send to, in seconds.
    static let pauseWithoutUpstream: Double = 30

    /// The lease's length, in seconds: requests time out well before its end.
    public let leaseSeconds: Double

    /// What is left of the lease when a request has timed out, in seconds at least.
    public var leaseMargin: Double { min(10, leaseSeconds / 4) }

    /// Creates a planner.
    public init(leaseSeconds: Double) {
        self.leaseSeconds = leaseSeconds
    }

    /// Decides about a head.
    ///
    /// - Parameter heldUntil: set while the upstream's circuit is open.
    public func decide(
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
        if let due = mutation.nextRetryAt, due > now { return .hold(until: due) }
        let own = ownServerID(mutation, surroundings)
        if mutation.operation != .create, own == nil {
            throw Problem(.dependencyRejected, "the entity it changes has no server id")
        }
        guard surroundings.type.isForwarded else {
            let payload = try body(mutation, surroundings, own, instead: nil) ?? []
            return .run(dispatch(mutation, surroundings, own, .builtIn(payload: payload)))
        }
        if let heldUntil, heldUntil > now { return .hold(until: heldUntil) }
        guard let upstream = surroundings.organization.upstream else {
            return .hold(until: now.adding(seconds: Self.pauseWithoutUpstream))
        }
        guard let endpoint = mutation.endpoint, let path = try? Endpoint(endpoint) else {
            let detail = "its type '\(mutation.entityType)' is forwarded now, and it has no endpoint to be sent to"
            throw Problem(.validationFailed, detail)
        }
        let resolved = mutation.override?.endpoint ?? self.path(path, mutation, surroundings, own)
        guard Endpoint.staysBelow(resolved) else {
            let detail = "with ids in place its endpoint has a '.' or '..' segment"
            throw Problem(.validationFailed, detail)
        }
        let headers = headers(mutation)
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
            timeout: .seconds(min(Double(upstream.timeoutSeconds), max(1, leaseSeconds - leaseMargin)))
        )
        return .run(dispatch(mutation, surroundings, own, .upstream(request, upstream)))
    }

    private func dispatch(
        _ mutation: QueuedMutation,
        _ surroundings: Surroundings,
        _ serverID: ServerID?,
        _ destination: Dispatch.Destination
    ) -> Dispatch {
        Dispatch(
            lane: surroundings.lane,
            token: surroundings.token,
            mutation: mutation,
            type: surroundings.type,
            serverID: serverID,
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
        outcome.error = problem.json
        outcome.lastError = problem.detail
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
        return surroundings.mappings[id]?.first?.serverID
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

    private func headers(_ mutation: QueuedMutation) -> [String: String] {
        guard let json = mutation.headers, let members = try? JSONTree(parsing: json).root.members else { return [:] }
        var headers: [String: String] = [:]
        for (name, value) in members { headers[name.string.lowercased()] = value.string }
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
        guard mutation.operation != .create, let entity = surroundings.entity, let etag = entity.etag else {
            return nil
        }
        let writer = Writer(user: surroundings.lane.user, device: mutation.deviceID)
        let namesState = mutation.baseVersion != nil || headers["if-match"] != nil
        if namesState, entity.lastWriter == writer, (mutation.baseVersion ?? .max) >= entity.runBase { return etag }
        return mutation.baseVersion == entity.version ? etag : nil
    }

    // MARK: - The upstream's key

    /// Our own key, the same for all attempts of a revision (product rule 6): made of what names the revision, so that
    /// any replica makes the same. A UUID of version 8 (RFC 9562, 5.8).
    public static func idempotencyKey(of mutation: QueuedMutation, in lane: LaneKey) -> UUID {
        var hash = SHA256()
        for id in [lane.organization, lane.user, mutation.id] {
            withUnsafeBytes(of: id.uuid) { hash.update(bufferPointer: $0) }
        }
        withUnsafeBytes(of: mutation.revision.bigEndian) { hash.update(bufferPointer: $0) }
        return UUID(hash: hash.finalize())
    }
}
