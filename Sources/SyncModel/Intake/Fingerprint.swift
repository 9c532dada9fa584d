import Crypto
public import Foundation
import JSONText

/// A mutation's content in a form that two tries of it share (product rule 5): a hash of the canonical form with every
/// UUID cut out, and those UUIDs beside it in order. A worker that put server ids in the place of client ids between
/// two tries changes only the latter, pairwise.
public struct Fingerprint: Sendable, Hashable {
    /// Version of the canonical form (one byte), then SHA-256.
    public let digest: [UInt8]
    /// The UUIDs, in canonical order: entity, endpoint, payload, headers.
    public let identifiers: [UUID]

    /// Raised whenever the canonical form changes; stored records of another version compare unequal.
    static let version: UInt8 = 1

    /// Creates the value from its stored form.
    public init(digest: [UInt8], identifiers: [UUID]) {
        self.digest = digest
        self.identifiers = identifiers
    }

    /// Takes the fingerprint of a mutation's content: operation, entity type, entity, endpoint, payload, headers and
    /// `base_version`. Member order and white space do not count.
    init(
        operation: Operation,
        entityType: String,
        localID: UUID?,
        serverID: ServerID?,
        endpoint: Endpoint?,
        payload: JSONValue?,
        headers: JSONValue?,
        baseVersion: Int64?
    ) {
        var canonical: [UInt8] = []
        canonical.reserveCapacity(256 + (payload?.rawCount ?? 0))
        var identifiers: [UUID] = []
        canonical += operation.rawValue.utf8
        canonical.append(0)
        canonical += entityType.utf8
        canonical.append(0)
        // the client id wins where both are given: a worker adds the server id once it knows it
        if let uuid = localID ?? serverID?.uuid {
            canonical.append(1)
            identifiers.append(uuid)
        } else if let serverID {
            canonical.append(serverID.isInteger ? 2 : 3)
            canonical += serverID.text.utf8
        }
        canonical.append(0)
        endpoint?.appendCanonical(to: &canonical, identifiers: &identifiers)
        canonical.append(0)
        payload?.appendCanonical(to: &canonical, identifiers: &identifiers)
        canonical.append(0)
        headers?.appendCanonical(to: &canonical, identifiers: &identifiers)
        canonical.append(0)
        if let baseVersion { canonical += String(baseVersion).utf8 }
        var digest: [UInt8] = [Fingerprint.version]
        digest += SHA256.hash(data: canonical)
        self.init(digest: digest, identifiers: identifiers)
    }

    /// Pairs of UUIDs in which two tries of the same text differ; nil when the texts themselves differ.
    public func differences(from other: Fingerprint) -> [(stored: UUID, given: UUID)]? {
        guard digest == other.digest, identifiers.count == other.identifiers.count else { return nil }
        return zip(identifiers, other.identifiers).filter { $0 != $1 }.map { (stored: $0, given: $1) }
    }
}

extension Fingerprint {
    private static let digestBytes = 33

    /// Reads the stored form: the digest, then 16 bytes for each identifier.
    public init(stored: [UInt8]) {
        let rest = stored.dropFirst(Fingerprint.digestBytes)
        let identifiers = stride(from: rest.startIndex, to: rest.endIndex - 15, by: 16).map { start in
            rest[start..<start + 16].withUnsafeBytes { UUID(uuid: $0.loadUnaligned(as: uuid_t.self)) }
        }
        self.init(digest: Array(stored.prefix(Fingerprint.digestBytes)), identifiers: identifiers)
    }

    /// The stored form.
    public var stored: [UInt8] {
        var bytes = digest
        bytes.reserveCapacity(digest.count + identifiers.count * 16)
        for identifier in identifiers { withUnsafeBytes(of: identifier.uuid) { bytes += $0 } }
        return bytes
    }
}
