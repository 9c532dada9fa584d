/// Compares a build's migrations with those a database has seen. Pure.
struct MigrationPlan {
    struct Applied: Equatable {
        let name: String
        let checksum: String
    }

    let status: MigratorStatus

    /// `known` are the build's migrations with their checksums. Throws why the two are incompatible.
    init(known: [Applied], applied: [Applied]) throws(MigratorError) {
        let known = known.sorted { $0.name < $1.name }
        for (first, second) in zip(known, known.dropFirst()) where first.name == second.name {
            throw .duplicate(first.name)
        }
        let applied = applied.sorted { $0.name < $1.name }
        let checksums = Dictionary(known.map { ($0.name, $0.checksum) }) { first, _ in first }
        let lastKnown = known.last?.name ?? ""
        for entry in applied {
            if let checksum = checksums[entry.name] {
                if checksum != entry.checksum { throw .changed(entry.name) }
            } else if entry.name < lastKnown {
                throw .missing(entry.name)
            }
        }
        let done = Set(applied.map(\.name))
        let pending = known.map(\.name).filter { !done.contains($0) }
        if let first = pending.first, let last = applied.last?.name, first < last {
            throw .gap(pending: first, applied: last)
        }
        status = MigratorStatus(
            applied: applied.map(\.name).filter { checksums[$0] != nil },
            pending: pending,
            unknownNewer: applied.map(\.name).filter { checksums[$0] == nil }
        )
    }
}
