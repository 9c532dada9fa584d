import FoundationEssentials
import JSONText

/// Compares a second attempt of a mutation with the first attempt (product rule 5).
///
/// A client id or a local id (an entity's number on one device) is treated as equal to the server id to which it
/// resolved. This server id is a UUID, an integer or a string.
///
/// The comparison does not guess. The places of ids were stored with the first attempt, and only in such a place can
/// the second attempt have another id. One of the two ids must be known to resolve to the other.
///
/// The ids of the first attempt are inserted into the second attempt in these places, and the result must have the same
/// hash as the first attempt. Any other difference means different content, even if the differing text has the form of
/// an id.
struct ContentComparison {
    struct Knowledge {
        /// Returns the server ids of a client id, or of the UUID that represents a local id.
        let serverIDs: (UUID) -> [ServerID]
        /// Returns whether a number is a known id of the device that pushed the second attempt.
        let isKnown: (LocalID) -> Bool
    }

    private let first: FirstAttempt
    private let given: Mutation
    private let knowledge: Knowledge
    /// For each id in a relation of the second attempt's payload, by the id's offset: the entity type of the id.
    private let relations: [Int: String]
    private let device: UUID

    /// - Parameters:
    ///   - device: the device that pushed the second attempt.
    ///   - type: the entity's type; nil if payloads of this type contain no local ids.
    init(_ first: FirstAttempt, _ given: Mutation, by device: UUID, type: EntityType?, _ knowledge: Knowledge) {
        self.first = first
        self.given = given
        self.device = device
        self.knowledge = knowledge
        var relations: [Int: String] = [:]
        if let type, let payload = given.payload {
            for place in payload.values(in: type.relations) where place.relation.idSpace == .device {
                relations[place.value.offset] = place.relation.entityType
            }
        }
        self.relations = relations
    }

    /// Whether both attempts are the same mutation.
    var isSame: Bool {
        guard first.canBe(given), hasServerID else { return false }
        if let differences = first.fingerprint.differences(from: given.fingerprint) {
            return differences.allSatisfy { areOne($0.stored, $0.given) }
        }
        return matches() || (!relations.isEmpty && matches(numbersAsWritten: false))
            || (given.endpoint?.hasUUIDBehindEscape == true && matches(pathsAsWritten: true))
    }

    // MARK: - Ids

    /// Whether the server id of the second attempt, if it has one, is the server id of the first attempt's entity.
    ///
    /// A comparison of the client ids is not sufficient, because another device may use the same client id for another
    /// entity.
    private var hasServerID: Bool {
        guard let id = given.entity.serverID, !first.isKnown(given.entity) else { return true }
        return first.entity.clientID.map { leads($0, to: id) } ?? false
    }

    private func serverIDs(of id: UUID) -> [ServerID] {
        let own = id == first.entity.clientID ? [first.entity.serverID].compactMap { $0 } : []
        return own + knowledge.serverIDs(id)
    }

    private func leads(_ id: UUID, to serverID: ServerID) -> Bool { serverIDs(of: id).contains(serverID) }

    /// Whether two UUIDs identify the same entity, because they are equal or one of them resolves to the other.
    private func areOne(_ stored: UUID, _ given: UUID) -> Bool {
        stored == given || leads(stored, to: ServerID(given)) || leads(given, to: ServerID(stored))
            || isOwnNumber(stored, given)
    }

    /// Whether both attempts identify the entity by the same local id.
    ///
    /// The UUIDs can differ although the numbers are equal: an installation can become a new device, and then sends the
    /// same number again.
    private func isOwnNumber(_ stored: UUID, _ given: UUID) -> Bool {
        guard case .number(let number, stored)? = first.entity.client,
            case .number(number, given)? = self.given.entity.client
        else { return false }
        return true
    }

    /// The server id that the first attempt can have at a place where the second attempt has a client id.
    ///
    /// Nil if the server id is a UUID, because UUIDs are not part of the hashed text.
    private func text(for id: UUID) -> ServerID? { serverIDs(of: id).first { $0.uuid == nil } }

    // MARK: - The first attempt's text

    /// - Parameters:
    ///   - numbersAsWritten: whether local ids at places without a recorded id are compared as they are written. If
    ///     false, the server ids (integers or strings) to which these local ids resolve are compared.
    ///   - pathsAsWritten: whether client ids in the endpoint, at places without a recorded id, are compared as they
    ///     are written. This is necessary because earlier versions of the gateway did not record a UUID that follows
    ///     a percent escape (``Endpoint/hasUUIDBehindEscape``).
    private func matches(numbersAsWritten: Bool = true, pathsAsWritten: Bool = false) -> Bool {
        guard let layout = first.fingerprint.layout else { return false }
        var walk = Walk(
            comparison: self,
            layout.places,
            first.fingerprint.identifiers,
            numbersAsWritten: numbersAsWritten,
            pathsAsWritten: pathsAsWritten
        )
        let own = layout.namesEntity ? walk.nextIdentifier() : nil
        var isPossible = true
        let form = given.canonicalForm(
            entity: { isPossible = appendEntity(own, to: &$0) },
            part: { walk.part($0, $1, at: $2) },
            value: { walk.value($0, at: $1) }
        )
        return isPossible && walk.isPossible && walk.isDone
            && Fingerprint.digest(of: form) == first.fingerprint.digest
    }

    /// Appends the entity, and returns whether both attempts can refer to the same entity.
    ///
    /// - Parameter stored: the UUID of the entity in the first attempt; nil if the first attempt had no id, or had a
    ///   server id that is not a UUID.
    private func appendEntity(_ stored: UUID?, to form: inout [UInt8]) -> Bool {
        let entity = given.entity
        let uuid = entity.clientID ?? entity.serverID?.uuid
        if let stored {
            form.append(JSONValue.identifierMarker)
            if let uuid { return areOne(stored, uuid) }
            return entity.serverID.map { leads(stored, to: $0) } ?? false
        }
        guard let uuid else {
            if let id = entity.serverID { Fingerprint.append(id, to: &form) }
            return true
        }
        let known = text(for: uuid) ?? (serverIDs(of: uuid).isEmpty ? entity.serverID : nil)
        guard let known, known.uuid == nil else { return false }
        Fingerprint.append(known, to: &form)
        return true
    }

    /// A walk through the second attempt's content that inserts the first attempt's ids.
    private struct Walk {
        let comparison: ContentComparison
        private let places: [IDPlaces.Place]
        private let identifiers: [UUID]
        private let numbersAsWritten: Bool
        private let pathsAsWritten: Bool
        private var place = 0
        private var identifier = 0
        /// Whether the contents can still be the same at this point of the walk.
        private(set) var isPossible = true

        init(
            comparison: ContentComparison,
            _ places: [IDPlaces.Place],
            _ identifiers: [UUID],
            numbersAsWritten: Bool,
            pathsAsWritten: Bool
        ) {
            self.comparison = comparison
            self.places = places
            self.identifiers = identifiers
            self.numbersAsWritten = numbersAsWritten
            self.pathsAsWritten = pathsAsWritten
        }

        /// Whether the walk has reached all places.
        var isDone: Bool { place == places.count }

        mutating func nextIdentifier() -> UUID {
            defer { identifier += 1 }
            return identifiers[identifier]
        }

        private mutating func next(at offset: Int) -> IDPlaces.Place? {
            guard place < places.count, places[place].offset == offset else { return nil }
            defer { place += 1 }
            return places[place]
        }

        mutating func part(_ path: ArraySlice<UInt8>, _ uuid: UUID?, at offset: Int) -> Endpoint.CanonicalPart? {
            guard isPossible else { return nil }
            guard next(at: offset) != nil else {
                guard let uuid, !pathsAsWritten else { return nil }
                guard let id = comparison.text(for: uuid) else { return impossible() }
                return .serverID(id)
            }
            let stored = nextIdentifier()
            if let uuid {
                return comparison.areOne(stored, uuid) ? .identifier(length: Endpoint.uuidBytes) : impossible()
            }
            let lengths = comparison.serverIDs(of: stored).compactMap { Endpoint.length(of: $0, at: path) }
            return lengths.max().map { .identifier(length: $0) } ?? impossible()
        }

        mutating func value(_ value: JSONValue, at offset: Int) -> CanonicalReplacement? {
            guard isPossible else { return nil }
            let related = comparison.relations[value.offset].flatMap { type in
                value.int64.map { LocalID(entityType: type, number: $0) }
            }
            guard let place = next(at: offset) else {
                if let uuid = value.uuid {
                    return comparison.text(for: uuid).map { .value($0.replacement) } ?? impossible()
                }
                guard !numbersAsWritten, let related else { return nil }
                return comparison.text(for: related.clientID(on: comparison.device)).map { .value($0.replacement) }
            }
            if let number = place.number { return self.value(value, insteadOf: number, related) }
            let stored = nextIdentifier()
            if let uuid = value.uuid ?? related?.clientID(on: comparison.device) {
                return comparison.areOne(stored, uuid) ? .identifier : impossible()
            }
            guard let id = ServerID(json: value), comparison.leads(stored, to: id) else { return impossible() }
            return .identifier
        }

        /// The replacement at a place where the first attempt had a local id.
        ///
        /// Nil if the second attempt's value is not a server id of this local id, or is an integer that is a known
        /// local id of the device that pushed the second attempt.
        private func value(_ value: JSONValue, insteadOf number: Int64, _ related: LocalID?) -> CanonicalReplacement? {
            guard let type = comparison.relations[value.offset], value.int64 != number, let id = ServerID(json: value),
                comparison.leads(
                    LocalID(entityType: type, number: number).clientID(on: comparison.first.device),
                    to: id
                )
            else { return nil }
            if let related, comparison.knowledge.isKnown(related) { return nil }
            return .value(.integer(number))
        }

        private mutating func impossible<Answer>() -> Answer? {
            isPossible = false
            return nil
        }
    }
}

/// The parts of a mutation's first attempt that are compared with a second attempt.
struct FirstAttempt {
    let id: UUID
    let device: UUID
    let operation: Operation
    /// The entity, with its server id if the id is known.
    let entity: EntityName
    let fingerprint: Fingerprint

    /// Creates the first attempt from its stored record.
    init(_ record: MutationRecord) {
        id = record.id
        device = record.deviceID
        operation = record.operation
        entity = record.entity
        fingerprint = record.fingerprint
    }

    /// Creates the first attempt from a mutation in the same push.
    ///
    /// - Parameter references: the local ids in the mutation's relations.
    init(_ mutation: Mutation, by device: UUID, _ references: [LocalReference]) {
        id = mutation.id
        self.device = device
        operation = mutation.operation
        entity = mutation.entity
        fingerprint = mutation.fingerprint(noting: references)
    }
}
