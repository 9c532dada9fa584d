/// Whose writes an entity's latest versions are: what a `base_version` is judged by, for every type.
struct VersionRun: Sendable, Hashable {
    /// The entity's version.
    let version: Int64
    /// The version before the last writer's uninterrupted run of writes.
    let base: Int64
    /// Who wrote last.
    let lastWriter: Writer

    /// What a `base_version` says about a write.
    enum Verdict: Sendable, Hashable {
        /// Nobody else has written since the writer looked. A writer's own writes since then, made offline on the same
        /// version, do not count against it.
        case fits
        /// Another writer has.
        case passed
        /// The writer saw what is not known here, as after a restore: nobody can tell what it would write over.
        case ahead
    }

    /// Judges what a writer saw; one who names no version writes over anything.
    func verdict(on baseVersion: Int64?, from writer: Writer) -> Verdict {
        guard let baseVersion, baseVersion != version else { return .fits }
        if baseVersion > version { return .ahead }
        return writer == lastWriter && baseVersion >= base ? .fits : .passed
    }

    /// The verdict in words, for a conflict's `detail`.
    func words(on baseVersion: Int64) -> String {
        baseVersion > version
            ? "base_version is \(baseVersion), but the entity is at version \(version) only"
            : "base_version is \(baseVersion), but another writer wrote since, and it is at version \(version)"
    }
}
