/// The kind of change that an event from elsewhere reports.
public enum IngestOperation: String, Sendable, Hashable, CaseIterable {
    /// The document is the whole entity, which may be new.
    case upsert
    /// The document has the changes of a known entity (RFC 7396).
    case patch
    /// The entity was deleted.
    case delete
}
