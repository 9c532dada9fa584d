public import Foundation

/// The current state of one entity.
public struct EntityState: Sendable {
    /// Whether JSON shows the id as a number.
    public var isIntegerID: Bool
    /// Raised by one with each write; the create makes 1.
    public var version: Int64
    /// Whether the entity is a tombstone.
    public var isDeleted: Bool
    /// JSON text as written.
    ///
    /// Nil for a tombstone, and for a document that cannot be opened.
    public var document: [UInt8]?
    /// Whether the document is stored and cannot be opened.
    ///
    /// The entity can then be replaced or deleted, but not patched.
    public var isUnreadable = false
    /// The bytes of a stored document that was not read because of the read limit.
    ///
    /// 0 where the document was read, or does not exist.
    public var unreadBytes = 0
    /// The bytes of the document, read or not.
    var documentBytes: Int { document?.count ?? unreadBytes }
    /// The creator.
    public var owner: UUID
    /// The creator's client id.
    public var clientID: UUID?
    /// The writer of the current run of versions.
    public var lastWriter: Writer
    /// The version before the last writer's uninterrupted run of writes.
    public var runBase: Int64
    /// Whether the database has a row for the entity.
    public var isStored = false
    /// The upstream's ETag of this state.
    ///
    /// Nil for built-in types, and where the upstream sent no ETag.
    public var etag: String?

    public init(
        isIntegerID: Bool,
        version: Int64,
        isDeleted: Bool,
        document: [UInt8]?,
        owner: UUID,
        clientID: UUID?,
        lastWriter: Writer,
        runBase: Int64
    ) {
        self.isIntegerID = isIntegerID
        self.version = version
        self.isDeleted = isDeleted
        self.document = document
        self.owner = owner
        self.clientID = clientID
        self.lastWriter = lastWriter
        self.runBase = runBase
    }

    /// The basis of the `base_version` check.
    var run: VersionHistory { VersionHistory(version: version, base: runBase, lastWriter: lastWriter) }

    /// Whether a writer that saw `baseVersion` may write.
    func accepts(baseVersion: Int64?, from writer: Writer) -> Bool {
        run.verdict(on: baseVersion, from: writer) == .fits
    }

    /// Whether a user may know of the entity.
    ///
    /// A private one exists for its creator alone.
    func isVisible(to user: UUID, _ visibility: Visibility) -> Bool {
        visibility == .organization || owner == user
    }

    /// Whether a user may see the entity; a private one exists for its creator alone.
    public func mayBeSeen(by user: UUID, _ visibility: Visibility) -> Bool { isVisible(to: user, visibility) }

    /// The state after one more write.
    func written(_ document: [UInt8]?, isDeleted: Bool, by writer: Writer) -> EntityState {
        var next = self
        next.document = document
        next.isUnreadable = false
        next.unreadBytes = 0
        next.isDeleted = isDeleted
        next.version = version + 1
        next.etag = nil
        if writer != lastWriter { next.runBase = version }
        next.lastWriter = writer
        return next
    }
}
