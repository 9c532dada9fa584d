import Crypto
public import FoundationEssentials
import JSONText

/// Replaces the client's ids by server ids in a mutation's path and payload, including the relations in the payload.
///
/// The resolver is used in pushes that take effect immediately, in steps of lanes, in retries by a person, and in
/// previews. The resolver does no I/O. The caller supplies the server ids.
struct ReferenceResolver {
    private let entity: EntityName
    private let lookUp: (UUID) -> ServerID?

    /// - Parameters:
    ///   - entity: the mutation's entity, with its server id.
    ///   - lookUp: returns the server id of any other client id. Returns nil if the server id is unknown, or if the
    ///     UUID is only data.
    init(of entity: EntityName, _ lookUp: @escaping (UUID) -> ServerID? = { _ in nil }) {
        self.entity = entity
        self.lookUp = lookUp
    }

    /// The server id of the mutation's own entity.
    var own: ServerID? { entity.serverID }

    /// The server id that replaces a UUID; nil to leave the UUID unchanged.
    func serverID(of id: UUID) -> ServerID? { id == entity.clientID ? entity.serverID : lookUp(id) }

    /// - Parameter own: the server id that replaces `{local_id}`; nil to leave `{local_id}` unchanged.
    func path(_ endpoint: Endpoint, own: ServerID?) -> String { endpoint.resolved(own: own, serverID) }

    /// The payload with server ids; nil if there are no ids to replace.
    ///
    /// - Parameters:
    ///   - related: the local ids (entities' numbers on one device) in the payload's relations.
    ///   - unresolved: returns the replacement of an unresolved local id; nil to leave the number unchanged.
    func payload<Failure>(
        _ payload: JSONValue,
        _ related: [LocalReference] = [],
        unresolved: (LocalReference) throws(Failure) -> JSONReplacement?
    ) throws(Failure) -> [UInt8]? {
        let replacements = related.isEmpty ? [:] : try replacements(of: related, unresolved: unresolved)
        let edits = related.compactMap { reference in
            replacements[reference.clientID].map { JSONEdit(reference.place.value, $0) }
        }
        return payload.rewritten(edits) { serverID(of: $0)?.replacement }
    }

    /// The size of the payload with server ids, in bytes. The payload is not rewritten.
    ///
    /// For an unresolved local id, the number in the payload is counted.
    ///
    /// - Parameter related: as in ``payload(_:_:unresolved:)``.
    func payloadBytes(_ payload: JSONValue, _ related: [LocalReference]) -> Int {
        let edits = related.compactMap { reference in serverID(of: reference.clientID).map(reference.edit) }
        return payload.rewrittenCount(edits) { serverID(of: $0)?.replacement }
    }

    /// The replacements of the local ids in relations. Each key is the UUID that represents the local id.
    func replacements<Failure>(
        of related: [LocalReference],
        unresolved: (LocalReference) throws(Failure) -> JSONReplacement?
    ) throws(Failure) -> [UUID: JSONReplacement] {
        var replacements: [UUID: JSONReplacement] = [:]
        for reference in related where replacements[reference.clientID] == nil {
            let known = serverID(of: reference.clientID)?.replacement
            replacements[reference.clientID] = if let known { known } else { try unresolved(reference) }
        }
        return replacements
    }
}

/// The UUIDs that matched no client id in a device's recent mutations.
///
/// The gateway treated these UUIDs as data (product rule 3). If a later create has one of them as its client id, the
/// create gets a warning.
///
/// The device's row stores six bytes of a hash for each of the last ``limit`` UUIDs. Two UUIDs with the same six bytes
/// of the hash are less likely than a disk error.
public struct UnresolvedIDHistory: Sendable, Hashable {
    public static let limit = 20
    private static let width = 6

    /// The stored form, oldest first.
    public let stored: [UInt8]

    /// - Parameter stored: the stored form; nil for an empty history.
    public init(stored: [UInt8]? = nil) {
        self.stored = stored ?? []
    }

    private init(_ marks: some Sequence<UInt64>) {
        stored = marks.flatMap { mark in (0..<Self.width).map { UInt8(truncatingIfNeeded: mark >> (8 * $0)) } }
    }

    public var isEmpty: Bool { stored.isEmpty }

    public func contains(_ id: UUID) -> Bool {
        !stored.isEmpty && marks.contains(Self.mark(id))
    }

    /// The history with the given ids added; nil if it already contains all of them.
    ///
    /// If there are more ids than the limit, the oldest ids are removed.
    ///
    /// - Parameter ids: the new ids, newest first.
    func adding(_ ids: some Sequence<UUID>) -> UnresolvedIDHistory? {
        let known = marks
        var new: [UInt64] = []
        for id in ids {
            let mark = Self.mark(id)
            if known.contains(mark) || new.contains(mark) { continue }
            new.append(mark)
            if new.count == Self.limit { break }
        }
        return new.isEmpty ? nil : UnresolvedIDHistory((known + new.reversed()).suffix(Self.limit))
    }

    private var marks: [UInt64] {
        stride(from: 0, to: stored.count - Self.width + 1, by: Self.width).map { start in
            stored[start..<start + Self.width].reversed().reduce(0) { $0 << 8 | UInt64($1) }
        }
    }

    /// The mark of a UUID, which is six bytes of a hash.
    ///
    /// The mark does not consist of bytes of the UUID, because some generators change only a few bytes from one UUID to
    /// the next. Every byte of the UUID affects the hash.
    private static func mark(_ id: UUID) -> UInt64 {
        let hash = withUnsafeBytes(of: id.uuid) { SHA256.hash(data: $0) }
        return hash.prefix(width).reduce(0) { $0 << 8 | UInt64($1) }
    }
}

/// A dictionary with one or more values for each id. Most ids have one value, which is stored without a list.
struct ValuesByID<Value> {
    private var firsts: [UUID: Value]
    private var others: [UUID: [Value]] = [:]

    init(capacity: Int) {
        firsts = Dictionary(minimumCapacity: capacity)
    }

    mutating func add(_ value: Value, of id: UUID) {
        guard let first = firsts.updateValue(value, forKey: id) else { return }
        firsts[id] = first
        others[id, default: []].append(value)
    }

    /// The values of an id, in the order of their addition.
    func all(of id: UUID) -> [Value] {
        guard let first = firsts[id] else { return [] }
        return others.isEmpty ? [first] : [first] + (others[id] ?? [])
    }

    func forEach(of id: UUID, _ body: (Value) -> Void) {
        guard let first = firsts[id] else { return }
        body(first)
        if !others.isEmpty { others[id]?.forEach(body) }
    }
}
