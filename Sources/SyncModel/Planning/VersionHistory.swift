/// The run of an entity's latest versions by one writer.
///
/// The basis of the `base_version` check, for every type.
struct VersionHistory: Sendable, Hashable {
    let version: Int64
    /// The version before the last writer's uninterrupted run of writes.
    let base: Int64
    let lastWriter: Writer

    /// The relation of a write's `base_version` to the entity's version.
    enum Verdict: Sendable, Hashable {
        /// No other writer has written since this one read the entity. A writer's own writes since then, made offline
        /// on the same version, do not count against it.
        case fits
        /// Another writer has written since.
        case passed
        /// The writer saw a version that is unknown here, as after a restore.
        ///
        /// The gateway cannot determine what the write would overwrite.
        case ahead
    }

    /// A writer that names no version overwrites any.
    func verdict(on baseVersion: Int64?, from writer: Writer) -> Verdict {
        guard let baseVersion, baseVersion != version else { return .fits }
        if baseVersion > version { return .ahead }
        return writer == lastWriter && baseVersion >= base ? .fits : .passed
    }

    /// The verdict as a sentence, for a conflict's `detail`.
    func conflictDescription(on baseVersion: Int64) -> String {
        baseVersion > version
            ? "base_version is \(baseVersion), but the entity is at version \(version) only"
            : "base_version is \(baseVersion), but another writer changed the entity, which is at version \(version)"
    }
}
