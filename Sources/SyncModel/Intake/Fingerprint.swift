import Crypto
public import FoundationEssentials
import Glibc
import JSONText

/// A mutation's content, in a form for the comparison of two attempts of the mutation (product rule 5).
///
/// The fingerprint consists of a hash of the canonical form without its UUIDs, of these UUIDs in order, and of the
/// places of ids. If a client has replaced client ids by server ids that are UUIDs, the fingerprints of two attempts
/// differ only in some of the UUIDs. The places allow ``ContentComparison`` to find client ids that were replaced by
/// integers or other strings.
public struct Fingerprint: Sendable, Hashable {
    /// One byte with the version of the canonical form, then the SHA-256 of the canonical form.
    public let digest: [UInt8]
    /// The UUIDs in canonical order, which is entity, endpoint, payload, headers.
    public let identifiers: [UUID]
    /// The places of the ids, except the entity's own id, in their stored form (``IDPlaces``).
    ///
    /// Empty if there are no such ids, and for mutations that were stored without places. Mutations without places are
    /// compared only by their digests and UUIDs.
    public let places: [UInt8]

    /// The version of the canonical form, incremented with each change of the form.
    ///
    /// Fingerprints with different versions are never equal.
    static let version: UInt8 = 1

    public init(digest: [UInt8], identifiers: [UUID], places: [UInt8] = []) {
        self.digest = digest
        self.identifiers = identifiers
        self.places = places
    }

    /// The fingerprint of a mutation's content.
    ///
    /// The fingerprint covers the operation, entity type, entity, endpoint, payload, headers, `base_version` and
    /// `order_key`. The order of members and white space have no effect.
    init(of content: MutationContent, _ operation: Operation, _ entity: EntityName) {
        let (endpoint, payload, headers) = (content.endpoint, content.payload, content.headers)
        var canonical = Fingerprint.head(operation, entity.type, room: 256 + (payload?.rawCount ?? 0))
        var identifiers: [UUID] = []
        if let uuid = Fingerprint.append(entity, to: &canonical) { identifiers.append(uuid) }
        let (start, own) = (canonical.count, identifiers.count)
        canonical.append(0)
        endpoint?.appendCanonical(to: &canonical, identifiers: &identifiers)
        canonical.append(0)
        payload?.appendCanonical(to: &canonical, identifiers: &identifiers)
        canonical.append(0)
        headers?.appendCanonical(to: &canonical, identifiers: &identifiers)
        canonical.append(0)
        if let baseVersion = content.baseVersion { canonical += String(baseVersion).utf8 }
        Fingerprint.append(orderKey: content.orderKey, to: &canonical)
        self.init(
            digest: Fingerprint.digest(of: canonical),
            identifiers: identifiers,
            places: IDPlaces(ofMarkersIn: canonical, from: start, count: identifiers.count - own).stored
        )
    }

    // MARK: - Parts of the canonical form

    /// The canonical form up to the entity.
    static func head(_ operation: Operation, _ entityType: String, room: Int) -> [UInt8] {
        var canonical: [UInt8] = []
        canonical.reserveCapacity(room)
        canonical += operation.rawValue.utf8
        canonical.append(0)
        canonical += entityType.utf8
        canonical.append(0)
        return canonical
    }

    /// Appends the entity without its UUID.
    ///
    /// If the entity has both ids, only the client id is used, because the client may have received the server id after
    /// the first attempt.
    ///
    /// - Returns: the UUID of the entity; nil for an entity without an id, or with a server id that is not a UUID.
    @discardableResult
    static func append(_ entity: EntityName, to canonical: inout [UInt8]) -> UUID? {
        if let uuid = entity.clientID ?? entity.serverID?.uuid {
            canonical.append(JSONValue.identifierMarker)
            return uuid
        }
        if let id = entity.serverID { append(id, to: &canonical) }
        return nil
    }

    /// Appends an entity that is identified by a server id other than a UUID.
    static func append(_ serverID: ServerID, to canonical: inout [UInt8]) {
        canonical.append(serverID.isInteger ? 2 : 3)
        canonical += serverID.text.utf8
    }

    /// Appends the order key.
    ///
    /// Without an order key, nothing is appended. The form is then the same as in versions of Sluice without order
    /// keys.
    static func append(orderKey: String?, to canonical: inout [UInt8]) {
        guard let orderKey else { return }
        canonical.append(0)
        canonical += orderKey.utf8
    }

    static func digest(of canonical: [UInt8]) -> [UInt8] {
        var digest: [UInt8] = []
        digest.reserveCapacity(digestBytes)
        digest.append(Fingerprint.version)
        SHA256.hash(data: canonical).withUnsafeBytes { digest += $0 }
        return digest
    }

    // MARK: - Comparing

    /// The pairs of UUIDs that differ between two attempts; nil if the attempts also have another difference.
    func differences(from other: Fingerprint) -> [(stored: UUID, given: UUID)]? {
        guard digest == other.digest, identifiers.count == other.identifiers.count else { return nil }
        return zip(identifiers, other.identifiers).filter { $0 != $1 }.map { (stored: $0, given: $1) }
    }

    /// The places of ids, and whether the first UUID is the entity's id; nil if the places were not stored.
    var layout: (places: [IDPlaces.Place], namesEntity: Bool)? {
        guard let places = IDPlaces.places(places) else { return nil }
        let rest = identifiers.count - places.count { $0.number == nil }
        return rest == 0 || rest == 1 ? (places, rest == 1) : nil
    }
}

extension Fingerprint {
    private static let digestBytes = 33

    /// Reads the stored form, which is the digest, followed by 16 bytes for each identifier.
    ///
    /// - Parameter places: the places, which are stored separately; nil if no places are stored.
    public init(stored: [UInt8], places: [UInt8]?) {
        let rest = stored.dropFirst(Fingerprint.digestBytes)
        let identifiers = stride(from: rest.startIndex, to: rest.endIndex - 15, by: 16).map { start in
            rest[start..<start + 16].withUnsafeBytes { UUID(uuid: $0.loadUnaligned(as: uuid_t.self)) }
        }
        self.init(
            digest: Array(stored.prefix(Fingerprint.digestBytes)),
            identifiers: identifiers,
            places: places ?? []
        )
    }

    /// The stored form without the places, because the places are stored separately.
    ///
    /// Gateways of earlier versions, which do not store places, can also read this form.
    public var stored: [UInt8] {
        var bytes = digest
        bytes.reserveCapacity(digest.count + identifiers.count * 16)
        for identifier in identifiers { withUnsafeBytes(of: identifier.uuid) { bytes += $0 } }
        return bytes
    }
}

// MARK: - IDPlaces

/// The places of ids in the canonical form of a mutation's content.
///
/// A place is a byte offset from the beginning of the form. The place of the entity's own id is not included.
///
/// The stored form consists of integers of variable length, with seven bits in each byte and the lowest bits first.
/// Each integer is twice the distance from the previous place, plus 1 if a local id follows. Usually a place takes one
/// byte.
struct IDPlaces: Sendable, Hashable {
    struct Place: Sendable, Hashable {
        let offset: Int
        /// The local id (an entity's number on one device) at this place; nil if a UUID was removed at this place.
        var number: Int64?
    }

    private(set) var stored: [UInt8] = []
    private var last = 0

    init() {}

    /// Finds the places from which UUIDs were removed in a form.
    ///
    /// - Parameters:
    ///   - count: the number of UUIDs. The search ends after the last UUID.
    ///   - start: the offset at which the search begins.
    init(ofMarkersIn form: [UInt8], from start: Int, count: Int) {
        guard count > 0 else { return }
        form.withUnsafeBytes { form in
            guard let first = form.baseAddress else { return }
            var offset = start
            for _ in 0..<count {
                guard let found = memchr(first + offset, Int32(JSONValue.identifierMarker), form.count - offset) else {
                    return
                }
                let place = UnsafeRawPointer(found) - first
                append(Place(offset: place))
                offset = place + 1
            }
        }
    }

    mutating func append(_ place: Place) {
        append(UInt64(place.offset - last) << 1 | (place.number == nil ? 0 : 1))
        if let number = place.number { append(UInt64(bitPattern: number << 1 ^ number >> 63)) }
        last = place.offset
    }

    private mutating func append(_ value: UInt64) {
        var rest = value
        while rest > 0x7f {
            stored.append(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest >>= 7
        }
        stored.append(UInt8(rest))
    }

    /// Reads the stored form; nil if the form is invalid.
    static func places(_ stored: [UInt8]) -> [Place]? {
        var rest = stored[...]
        func next() -> UInt64? {
            var value: UInt64 = 0
            for shift in stride(from: UInt64(0), to: 64, by: 7) {
                guard let byte = rest.popFirst() else { return nil }
                value |= UInt64(byte & 0x7f) << shift
                if byte & 0x80 == 0 { return value }
            }
            return nil
        }
        var places: [Place] = []
        var offset = 0
        while !rest.isEmpty {
            guard let step = next(), let distance = Int(exactly: step >> 1) else { return nil }
            let (sum, overflow) = offset.addingReportingOverflow(distance)
            guard !overflow else { return nil }
            offset = sum
            guard step & 1 == 1 else {
                places.append(Place(offset: offset))
                continue
            }
            guard let number = next() else { return nil }
            places.append(Place(offset: offset, number: Int64(bitPattern: number >> 1) ^ -Int64(number & 1)))
        }
        return places
    }
}
