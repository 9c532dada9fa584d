import Crypto
import Foundation
import JSONText

/// A hash that is equal for documents with the same content.
///
/// A SHA-256 of the canonical form, so white space, escapes, the order of members and the notation of numbers do not
/// matter.
public struct ContentHash: Sendable, Hashable {
    public static let count = 32
    /// The hash of a deleted entity.
    public static let deletion = ContentHash(bytes: [UInt8](repeating: 0, count: count))

    public let bytes: [UInt8]

    /// From the stored form.
    public init(bytes: [UInt8]) {
        self.bytes = bytes
    }

    /// The hash of a document; nil if it cannot be read.
    public init?(of document: [UInt8]) {
        guard let root = try? JSONTree(parsing: document, limits: .widest).root else { return nil }
        var canonical: [UInt8] = []
        var identifiers: [UUID] = []
        root.appendCanonical(to: &canonical, identifiers: &identifiers)
        var hash = SHA256()
        ContentNumbers.normalized(canonical).withUnsafeBytes { hash.update(bufferPointer: $0) }
        for id in identifiers { withUnsafeBytes(of: id.uuid) { hash.update(bufferPointer: $0) } }
        bytes = Array(hash.finalize())
    }

    /// The hash of a stored entity; nil where its document cannot be opened.
    public init?(of state: EntityState) {
        guard !state.isDeleted else {
            self = .deletion
            return
        }
        guard let document = state.document, let hash = ContentHash(of: document) else { return nil }
        self = hash
    }
}
