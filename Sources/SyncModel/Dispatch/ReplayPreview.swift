public import FoundationEssentials
import JSONText

/// A mutation's request, as in the last attempt or as it will be in the next attempt.
///
/// The request contains permanent ids, and the preview lists the places at which permanent ids replace client ids. The
/// preview does no I/O.
public struct ReplayPreview: Sendable {
    /// A client id that was replaced by a permanent id.
    public struct Rewrite: Sendable, Hashable {
        /// A JSON Pointer into the payload; `endpoint` for the path.
        @Exact public private(set) var pointer: String
        /// A client id, which is a UUID, or a number that the device assigned to the entity.
        public let clientID: ServerID
        public let serverID: ServerID
        @Exact public private(set) var entityType: String
    }

    public let request: PreviewedRequest
    /// The upstream's base URL. The path of the request is below this URL.
    public let baseURL: String
    public let idempotencyKey: UUID
    /// The places at which permanent ids replaced client ids, at most ``placeLimit``.
    public let rewritten: [Rewrite]

    /// The maximum number of places in ``rewritten``.
    ///
    /// Without this bound, an answer about a small payload with thousands of ids below a long name would have hundreds
    /// of megabytes. For the same reason, long pointers are truncated (``ErrorBounds/pointer``).
    public static let placeLimit = 1_000

    /// Creates the preview; nil if there is no request to show.
    ///
    /// There is no request if the mutation is not replayed to an upstream, cannot be sent in its present state, or has
    /// a body that is too large for an answer.
    ///
    /// - Parameter surroundings: the inputs of the decision. Their `mappings` must contain every client id of the
    ///   content for which a permanent id is known.
    public init?(of mutation: QueuedMutation, _ surroundings: DispatchPlanner.LaneContext, now: Timestamp) {
        let planner = DispatchPlanner(leaseSeconds: 3_600, bodyLimit: WorkBounds.answer)
        var (queued, surroundings) = (mutation, surroundings)
        queued.nextRetryAt = nil
        surroundings.organization.upstream?.pause = nil
        // the attempt was made before, with the user's rights at that time
        surroundings.type.checksChannels = false
        var decision = planner.decide(queued, surroundings, now: now, heldUntil: nil)
        if case .conflict = decision {
            // the conflict refers to the entity's present state, but the attempt found an earlier state
            surroundings.entity = nil
            decision = planner.decide(queued, surroundings, now: now, heldUntil: nil)
        }
        guard case .run(let dispatch) = decision, case .upstream(let request, let upstream) = dispatch.destination
        else { return nil }
        self.request = PreviewedRequest(request, unresolved: [])
        baseURL = upstream.baseURL
        idempotencyKey = request.idempotencyKey
        rewritten = Self.rewrites(of: mutation, surroundings)
    }

    private static func rewrites(of mutation: QueuedMutation, _ surroundings: DispatchPlanner.LaneContext) -> [Rewrite]
    {
        let references = mutation.references
        func resolved(_ id: UUID) -> DispatchPlanner.ResolvedID? {
            if id == mutation.entity.clientID {
                return surroundings.serverID(of: mutation)
                    .map { DispatchPlanner.ResolvedID(entityType: mutation.entity.type, serverID: $0) }
            }
            guard references.ids.contains(id) else { return nil }
            let type = references.types[id]
            return surroundings.mappings[id]?.first { type == nil || $0.entityType == type }
        }
        func rewrite(_ pointer: String, _ client: ServerID, _ known: DispatchPlanner.ResolvedID) -> Rewrite {
            Rewrite(pointer: pointer, clientID: client, serverID: known.serverID, entityType: known.entityType)
        }
        var found: [Rewrite] = []
        if mutation.override?.endpoint == nil, let endpoint = mutation.endpoint {
            var ids = endpoint.uuids
            if endpoint.text.contains("{local_id}"), let own = mutation.entity.clientID { ids.append(own) }
            for id in ids {
                if let known = resolved(id) { found.append(rewrite("endpoint", ServerID(id), known)) }
            }
        }
        guard mutation.override?.payload == nil, let payload = mutation.payload,
            let root = try? JSONTree(parsing: payload).root
        else { return found }
        for place in surroundings.type.localReferences(in: root, on: mutation.deviceID) {
            guard found.count < placeLimit else { return found }
            guard let known = resolved(place.clientID) else { continue }
            let pointer = ErrorBounds.cut(place.place.pointer, to: ErrorBounds.pointer)
            found.append(rewrite(pointer, ServerID(place.id.number), known))
        }
        _ = root.visitUUIDs(at: "") { id, pointer in
            guard found.count < placeLimit else { return false }
            if let known = resolved(id) { found.append(rewrite(pointer, ServerID(id), known)) }
            return true
        }
        return found
    }
}

extension QueuedMutation {
    /// All ids in the mutation's content that may be client ids. These are all UUIDs, and the UUIDs that represent
    /// local ids (entities' numbers on one device).
    ///
    /// The ids are needed for a final mutation, because its references are not stored.
    public func namedIDs(in type: EntityType) -> [UUID] {
        var ids = references.ids + (endpoint?.uuids ?? [])
        if let payload, let root = try? JSONTree(parsing: payload).root {
            ids += root.uuids + type.localReferences(in: root, on: deviceID).map(\.clientID)
        }
        if let own = entity.clientID { ids.append(own) }
        return Array(Set(ids))
    }

    /// The mutation in its state before it became final, as far as this state can be reconstructed.
    ///
    /// An id in the content is treated as a reference if its permanent id is given in `mappings`.
    public func recalling(_ mappings: [UUID: [DispatchPlanner.ResolvedID]]) -> QueuedMutation {
        var mutation = self
        guard references.ids.isEmpty else { return mutation }
        let known = mappings.filter { $0.value.count == 1 && $0.key != entity.clientID }
        mutation.references = References(Array(known.keys), types: known.compactMapValues { $0.first?.entityType })
        return mutation
    }
}

extension JSONValue {
    /// Visits the strings in the form of a UUID within this value, with their JSON Pointers, until `visit` returns
    /// false.
    ///
    /// Long pointers are truncated (``ErrorBounds/pointer``).
    ///
    /// - Returns: whether all of these strings were visited.
    fileprivate func visitUUIDs(at pointer: String, _ visit: (UUID, String) -> Bool) -> Bool {
        func next(_ value: JSONValue, _ step: String) -> Bool {
            value.visitUUIDs(at: ErrorBounds.cut(pointer + step, to: ErrorBounds.pointer), visit)
        }
        if let uuid { return visit(uuid, pointer) }
        if let members {
            for (name, value) in members where !next(value, JSONPointer.member(name.string)) { return false }
        } else if let elements {
            for (place, value) in elements.enumerated() where !next(value, "/\(place)") { return false }
        }
        return true
    }
}

/// A request as a shell command, which never contains the organization's credential.
public struct CurlCommand: Sendable {
    public let text: String

    public init(_ preview: ReplayPreview) {
        let request = preview.request
        var words = ["curl", "-X", request.method, Self.quoted(preview.baseURL + request.path)]
        for header in request.headers { words += ["-H", Self.quoted("\(header.name): \(header.value)")] }
        if let body = request.body {
            words += ["-H", Self.quoted("content-type: application/json")]
            words += ["--data-raw", Self.quoted(String(decoding: body, as: UTF8.self))]
        }
        text = words.joined(separator: " ")
    }

    /// Puts a text into single quotes. Within single quotes, a shell interprets no other character.
    private static func quoted(_ text: String) -> String {
        "'" + text.split(separator: "'", omittingEmptySubsequences: false).joined(separator: #"'\''"#) + "'"
    }
}
