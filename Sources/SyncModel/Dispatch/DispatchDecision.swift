import Crypto
public import FoundationEssentials
import JSONText

/// The decision about a mutation at the head of a lane.
struct DispatchDecision {
    let mutation: QueuedMutation
    let surroundings: DispatchPlanner.LaneContext
    let planner: DispatchPlanner
    /// The entity's permanent id.
    ///
    /// Nil if the id is not known, and for a create if the upstream will assign the id.
    let own: ServerID?

    init(_ mutation: QueuedMutation, _ surroundings: DispatchPlanner.LaneContext, by planner: DispatchPlanner) {
        self.mutation = mutation
        self.surroundings = surroundings
        self.planner = planner
        own = surroundings.serverID(of: mutation)
    }

    /// - Throws: the reason why the mutation can never run without a change of its content.
    func decision(now: Timestamp, heldUntil: Timestamp?) throws(Problem) -> DispatchPlanner.Decision {
        if let problem = Problem.unreadable(mutation) { throw problem }
        if let due = mutation.nextRetryAt, due > now { return .hold(until: due) }
        try checkTypes()
        if mutation.operation != .create, own == nil {
            throw Problem(.dependencyRejected, "the entity it changes has no server id")
        }
        guard surroundings.type.isForwarded else {
            return .run(dispatch(to: .builtIn(payload: try body(instead: nil) ?? [])))
        }
        try checkChannels()
        if let conflict = versionConflict() { return conflict }
        // the mutation is held even if this time has passed, because only a permit that was given after this time
        // allows a request
        if let heldUntil { return .hold(until: max(heldUntil, now)) }
        guard let upstream = surroundings.organization.upstream else {
            return .hold(until: now.adding(seconds: DispatchPlanner.pauseWithoutUpstream))
        }
        if let pause = upstream.pause, !pause.isOver(at: now) { return .hold(until: pause.nextCheck(from: now)) }
        let isChecked = surroundings.type.isCheckedBeforeSending
        guard let route = surroundings.type.routes?.route(of: mutation, always: isChecked) else {
            if isChecked { throw withoutRoute }
            return .run(dispatch(to: .upstream(try request(to: upstream), upstream)))
        }
        var routed = upstream
        routed.route = route
        return .run(dispatch(to: .upstream(try request(by: route, to: upstream), routed)))
    }

    /// The outcome of a mutation that can never run.
    ///
    /// Nevertheless, an earlier attempt may have taken effect.
    func failure(_ problem: Problem) -> Outcome {
        var outcome = unsent(.failed, .rejected, serverID: nil)
        outcome.error = problem.json
        outcome.lastError = problem.detail
        return outcome
    }

    /// An outcome without a request. No attempt is spent.
    func unsent(_ status: MutationStatus, _ kind: Outcome.Kind, serverID: ServerID?) -> Outcome {
        var outcome = Outcome(
            status,
            kind,
            of: Dispatch(of: mutation, surroundings, serverID: serverID, to: .builtIn(payload: []))
        )
        outcome.attemptCount = mutation.attemptCount
        outcome.isOutcomeUnknown = mutation.isOutcomeUnknown
        return outcome
    }

    private func dispatch(to destination: Dispatch.Destination) -> Dispatch {
        Dispatch(of: mutation, surroundings, serverID: own, to: destination)
    }
}

/// The mutation's content with permanent ids in place of client ids and local ids. A local id is an entity's number
/// on one device.
extension DispatchDecision {
    /// The resolver of ids. If an entity type is recorded for a client id, only the permanent id in this type is used.
    private var resolver: ReferenceResolver {
        let (mappings, references) = (surroundings.mappings, mutation.references)
        return ReferenceResolver(of: mutation.entity.with(own)) { id in
            guard references.ids.contains(id) else { return nil }
            let type = references.types[id]
            return mappings[id]?.first { type == nil || $0.entityType == type }?.serverID
        }
    }

    /// Checks that each client id without a recorded entity type has a permanent id in only one type.
    func checkTypes() throws(Problem) {
        let references = mutation.references
        for id in references.ids where references.types[id] == nil && id != mutation.entity.clientID {
            guard let known = surroundings.mappings[id], Set<ByteExactString>(known.map(\.entityType)).count > 1 else {
                continue
            }
            throw .ambiguous("client id \(id.lowercased)", known.map(\.entityType))
        }
    }

    /// The path with server ids. In a create, which has no server id yet, the client's own id is used instead.
    func path(_ endpoint: Endpoint) -> String {
        resolver.path(endpoint, own: own ?? mutation.entity.client?.asServerID)
    }

    /// The body with server ids: the mutation's payload or, if the request overrides a conflict, the override's body.
    ///
    /// - Throws: `dependency_rejected` if a relation contains a local id that has no server id. The local id is not
    ///   sent, because on another device the same number may identify another entity. `validation_failed` if the server
    ///   ids would make the body too large.
    func body(instead sent: [UInt8]?) throws(Problem) -> [UInt8]? {
        let type = surroundings.type
        if let sent, !type.holdsLocalIDs { return sent }
        guard let payload = mutation.payload, let root = try? JSONTree(parsing: payload).root else { return sent }
        let related = type.localReferences(in: root, on: mutation.deviceID)
        if sent == nil { try checkSize(of: root, related) }
        guard let sent else { return try resolver.payload(root, related, unresolved: unresolved) ?? payload }
        // if a local id was unresolved when the override was stored, the override's body contains the UUID that
        // represents the local id
        let replacements = try resolver.replacements(of: related, unresolved: unresolved)
        guard !replacements.isEmpty, let root = try? JSONTree(parsing: sent, limits: .widest).root else { return sent }
        return root.rewritten { replacements[$0] } ?? sent
    }

    /// Refuses a payload that would become too large if server ids replaced its client ids. This check takes place
    /// before the replacement.
    private func checkSize(of payload: JSONValue, _ related: [LocalReference]) throws(Problem) {
        // usually there are no ids to replace
        let replacesIDs = !mutation.references.ids.isEmpty || !related.isEmpty
        guard replacesIDs,
            resolver.payloadBytes(payload, related) > max(planner.bodyLimit, payload.rawCount)
        else { return }
        let detail =
            "with server ids in place of client ids, its payload would have more than \(planner.bodyLimit) bytes; "
            + "send a smaller payload"
        throw Problem(.validationFailed, pointer: "/payload", rule: Rule.payload, detail)
    }

    private func unresolved(_ reference: LocalReference) throws(Problem) -> JSONReplacement {
        // the built-in store will replace this UUID after it has generated the server id
        if reference.clientID == mutation.created?.clientID, !surroundings.type.isForwarded {
            return .uuid(reference.clientID)
        }
        let pointer = "/payload" + reference.place.pointer
        let isOwn = reference.clientID == mutation.entity.clientID
        let reason = isOwn ? "which this mutation creates, so it has no server id yet" : "which has no server id"
        let detail = "\(pointer) contains \(reference.id.words), \(reason)"
        throw Problem(.dependencyRejected, pointer: pointer, rule: Rule.entityReference, detail)
    }
}

/// The mutation's request to an upstream.
extension DispatchDecision {
    /// - Throws: the reason why no request can express the mutation.
    func request(to upstream: UpstreamSettings) throws(Problem) -> UpstreamRequest {
        guard let resolved = mutation.override?.endpoint ?? mutation.endpoint.map(path) else {
            let detail =
                "its type '\(mutation.entity.type)' is forwarded, but the mutation has no endpoint, and the type has no "
                + "route"
            throw Problem(.validationFailed, detail)
        }
        if let problem = PathRules.problem(in: resolved) {
            throw Problem(.validationFailed, "after replacement of ids, its endpoint \(problem)")
        }
        let method = mutation.override?.method ?? mutation.operation.method
        return request(method, resolved, try body(instead: mutation.override?.payload), upstream)
    }

    /// - Throws: the reason why the route cannot build a request from the mutation.
    func request(by route: EntityRoute, to upstream: UpstreamSettings) throws(Problem) -> UpstreamRequest {
        let content = try body(instead: mutation.override?.payload)
        let payload = content.flatMap { try? JSONTree(parsing: $0, limits: .widest).root }
        // the client's own id is never used, because at the upstream it may be the id of another entity
        let path = try route.path.path(id: own, payload: payload)
        let routed = route.body.map { RoutedBody($0, id: own, payload: content, root: payload) }
        if let bytes = routed?.bytes, bytes > planner.bodyLimit {
            let detail = "the body of its route would have more than \(planner.bodyLimit) bytes"
            throw Problem(.validationFailed, detail)
        }
        var request = request(route.method, path, routed == nil ? content : nil, upstream)
        (request.content, request.routedBody) = (content, routed)
        request.route = UpstreamRequest.Route(method: route.method, path: route.path.text)
        request.namesEntity = own != nil && route.namesEntity
        return request
    }

    private func request(
        _ method: String,
        _ path: String,
        _ body: [UInt8]?,
        _ upstream: UpstreamSettings
    ) -> UpstreamRequest {
        let headers = headers(upstream)
        var request = UpstreamRequest(
            organization: surroundings.lane.organization,
            user: surroundings.lane.user,
            method: method,
            path: path,
            headers: headers,
            body: body,
            idempotencyKey: DispatchPlanner.idempotencyKey(of: mutation, in: surroundings.lane),
            timeout: .seconds(planner.lease.timeout(of: upstream))
        )
        request.isUnconditional = mutation.override != nil
        if mutation.override == nil { request.ifMatch = ifMatch(headers, sendsWeak: upstream.sendsWeakETags) }
        request.trace = mutation.trace
        return request
    }

    /// The mutation's headers that the operator allows.
    private func headers(_ upstream: UpstreamSettings) -> [ByteExactString: String] {
        guard let json = mutation.headers, let members = try? JSONTree(parsing: json).root.members else { return [:] }
        var headers: [ByteExactString: String] = [:]
        for (name, value) in members where upstream.allows(name.string) {
            headers[name.string.lowercased()] = value.string
        }
        return headers
    }

    /// The If-Match of the request.
    ///
    /// As long as no other writer changes the entity, the If-Match has the ETag of the upstream's last response. This
    /// If-Match replaces the client's own If-Match, which may have an older ETag because the client was offline. With
    /// the older ETag, the writer's later writes would be in conflict with the writer's own earlier writes.
    ///
    /// A mutation that has neither a `base_version` nor an If-Match gets no condition.
    ///
    /// A weak ETag is sent only to an upstream that is known to accept weak ETags. Other upstreams get the mutation
    /// without a condition, because If-Match requires the strong comparison, in which a weak ETag never matches (RFC
    /// 9110, 13.1.1).
    private func ifMatch(_ headers: [ByteExactString: String], sendsWeak: Bool) -> String? {
        guard mutation.operation != .create, mutation.resolution != .clientWins,
            let entity = surroundings.visibleEntity, let etag = entity.etag, HeaderField.isValue(etag)
        else { return nil }
        let writer = Writer(user: surroundings.lane.user, device: mutation.deviceID)
        let isSendable = sendsWeak || !etag.hasPrefix("W/")
        if let baseVersion = mutation.baseVersion {
            if entity.run.verdict(on: baseVersion, from: writer) != .fits { return Self.passedValidator }
            return isSendable ? etag : nil
        }
        return headers["if-match"] != nil && entity.lastWriter == writer && isSendable ? etag : nil
    }
}

extension DispatchPlanner {
    /// The gateway's idempotency key, the same for all attempts of a revision.
    ///
    /// The key is a hash of the revision's identity. Therefore every gateway computes the same key, even after the user
    /// was joined into another user (product rule 6). The key is a UUID of version 8 (RFC 9562, 5.8).
    public static func idempotencyKey(of mutation: QueuedMutation, in lane: LaneKey) -> UUID {
        var hash = SHA256()
        for id in [lane.organization, mutation.keyUser ?? lane.user, mutation.id] {
            withUnsafeBytes(of: id.uuid) { hash.update(bufferPointer: $0) }
        }
        withUnsafeBytes(of: mutation.revision.bigEndian) { hash.update(bufferPointer: $0) }
        return UUID(hash: hash.finalize())
    }
}

/// The right to write to entities in channels, which the gateway checks if the type requires it (product rule 27).
extension DispatchDecision {
    /// The user must hold at least one of these channels with the role `write`. Nil if the gateway does not check the
    /// right.
    ///
    /// Nothing is checked after an attempt of unknown outcome, because only the upstream has the outcome.
    var requiredChannels: [ChannelID]? {
        guard surroundings.type.isCheckedBeforeSending, !mutation.isOutcomeUnknown else { return nil }
        return mutation.operation == .create ? channelsOfNewEntity : surroundings.entity?.channels ?? []
    }

    /// The channels of the new entity. Templates with `{id}` are left out, because the upstream will assign the id.
    private var channelsOfNewEntity: [ChannelID] {
        // a create that overwrites an existing entity would change an entity whose channels were not checked
        guard var rules = surroundings.type.channelRules, mutation.override == nil else { return [] }
        rules.channels.removeAll(where: \.namesItself)
        let document = (try? body(instead: nil)) ?? mutation.payload
        let names = rules.names(document: document, id: ServerID(mutation.id), owner: surroundings.lane.user)
        // the feed ignores the other channels
        return names.prefix(ChannelName.limitOfEntity).map(ChannelID.init(named:))
    }

    /// The problem of a mutation for which there is no route. The gateway cannot check which entity a request to the
    /// mutation's own endpoint would change.
    private var withoutRoute: Problem {
        let detail =
            "its type '\(mutation.entity.type)' has check_channels, so its mutations are sent by routes only, and there is "
            + "no route for this operation"
        return Problem(.validationFailed, detail)
    }

    /// Refuses a mutation whose user may not write to the entity.
    ///
    /// An entity that the user does not see gets the same answer as an entity that the gateway does not have.
    func checkChannels() throws(Problem) {
        guard let required = requiredChannels else { return }
        switch surroundings.access.role(of: surroundings.lane.user, on: required) {
        case .write: return
        case _ where mutation.operation == .create:
            let isNew = mutation.override == nil
            let detail = isNew ? "you may not write to any channel of the new entity" : "the entity exists"
            throw Problem(.forbidden, detail)
        case .read: throw Problem(.forbidden, "you may read the entity, but not write it")
        case nil: throw Problem(.forbidden, "the entity does not exist, or you may not write it")
        }
    }
}

/// The conflict of a forwarded mutation that has an outdated base version.
///
/// The gateway detects this conflict without a request, and no attempt is spent (product rule 12).
extension DispatchDecision {
    /// An If-Match that matches no state of an entity.
    ///
    /// The gateway uses this If-Match if a request's outcome is unknown, and another writer has changed the entity
    /// after the mutation's base version. The request must be sent again under the same idempotency key, because only
    /// the upstream has the outcome. If the upstream received the request before, the upstream repeats its response to
    /// this key. Otherwise the upstream rejects the request because of this If-Match.
    static let passedValidator = #""base-version-was-passed""#

    /// The mutation's conflict with the entity in the feed; nil if the mutation can be sent.
    func versionConflict() -> DispatchPlanner.Decision? {
        // a mutation that overrides an earlier conflict is sent
        guard mutation.operation != .create, mutation.override == nil, mutation.resolution != .clientWins,
            let baseVersion = mutation.baseVersion, let entity = surroundings.visibleEntity, let own
        else { return nil }
        let writer = Writer(user: surroundings.lane.user, device: mutation.deviceID)
        let verdict = entity.run.verdict(on: baseVersion, from: writer)
        // the deletion of a deleted entity is not a conflict
        if verdict == .fits || (entity.isDeleted && mutation.operation == .delete) { return nil }
        if mutation.isOutcomeUnknown, verdict == .passed, entity.etag != nil { return nil }
        var outcome = unsent(.conflict, .conflict, serverID: own)
        var problem = Problem(
            .conflict,
            entity.isDeleted ? "another writer deleted the entity" : entity.run.conflictDescription(on: baseVersion)
        )
        problem.current = entity.json(type: mutation.entity.type, id: own)
        outcome.error = problem.json
        outcome.lastError = problem.detail
        switch mutation.conflictResolution {
        case .manual: return .conflict(outcome, version: nil)
        case .serverWins:
            outcome.status = .discarded
            outcome.kind = .discarded
            outcome.resolution = .serverWins
            return .conflict(outcome, version: entity.version)
        case .clientWins: return .conflict(overriding(outcome, own), version: nil)
        }
    }

    /// Overrides the conflict with the client's version.
    ///
    /// A patch is sent unchanged. The patch is not merged into the feed's document, because this document may be older
    /// than the upstream's document.
    private func overriding(_ conflict: Outcome, _ own: ServerID) -> Outcome {
        let sent = ClientWins.plan(
            operation: mutation.operation,
            idSpace: surroundings.type.idSpace,
            endpoint: mutation.endpoint?.text ?? "",
            payload: nil,
            current: nil,
            serverID: own
        )
        return sent.map { conflict.overridden(by: $0, of: own) } ?? conflict
    }
}
