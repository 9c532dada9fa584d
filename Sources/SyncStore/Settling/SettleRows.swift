import FoundationEssentials
package import Postgres
package import SyncModel

// The rows that settling writes for one lane. All statements for these rows begin with the same parameters:
// organization, user, change position and time.

extension MappingChange {
    package static let columns = Columns<MappingChange>(
        .value("client_id", \.clientID),
        .value("entity_type", \.entityType),
        .value("mutation_id", \.mutationID),
        .choice("status", \.status),
        .serverID(\.serverID),
        .value("last_error", \.lastError)
    )

    /// The columns for ``SettleStatements/freeLocalIDs``.
    static let freeing = Columns<MappingChange>(
        .value("client_id", \.clientID),
        .value("mutation_id", \.mutationID)
    )
}

/// A mutation whose dependencies changed.
final class ReleaseRow: Sendable {
    private let release: MutationRelease
    let blockers: FlattenedLists.Bounds
    /// The problem that makes the mutation fail; nil if it does not fail.
    private let problem: Problem?
    /// The error in stored form.
    private let error: [UInt8]?
    private let lastError: String?

    init(_ release: MutationRelease, blockers: FlattenedLists.Bounds, _ seal: LaneSeal) throws(SealError) {
        self.release = release
        self.blockers = blockers
        problem = release.status == .failed && release.node.status != .failed ? release.problem : nil
        error = try seal.seal(json: problem?.json, .error, of: release.node.id)
        lastError = try seal.seal(text: problem?.detail, .lastError, of: release.node.id)
    }

    static let columns = Columns<ReleaseRow>(
        .value("id", \.release.node.id),
        .choice("status", \.release.status),
        .json("error", \.error),
        .value("last_error", \.lastError),
        .value("last_error_code") { row in row.problem.map { Int16($0.code.status) } },
        .value("error_code", \.problem?.code.rawValue),
        .value("blockers_from", \.blockers.from),
        .value("blockers_to", \.blockers.to)
    )
}

/// A mutation that runs again. The type is a class, because a class is not copied when its columns are read one by one.
final class RestartRow: Sendable {
    private let restart: MutationRestart
    let blockers, references: FlattenedLists.Bounds
    /// The payloads in stored form.
    private let payload, sentPayload: [UInt8]?

    init(
        _ restart: MutationRestart,
        blockers: FlattenedLists.Bounds,
        references: FlattenedLists.Bounds,
        _ seal: LaneSeal
    ) throws(SealError) {
        self.restart = restart
        self.blockers = blockers
        self.references = references
        payload = try seal.seal(json: restart.payload, .payload, of: restart.record.id)
        sentPayload = try seal.seal(json: restart.sent?.payload, .sentPayload, of: restart.record.id)
    }

    static let columns = Columns<RestartRow>(
        .value("id", \.restart.record.id),
        .choice("status", \.restart.status),
        .value("revision", \.restart.revision),
        .value("is_outcome_unknown", \.restart.isOutcomeUnknown),
        .value("endpoint", \.restart.endpoint?.text),
        .json("payload", \.payload),
        .choice("resolution", \.restart.resolution),
        .value("sent_method", \.restart.sent?.method),
        .value("sent_endpoint", \.restart.sent?.endpoint),
        .json("sent_payload", \.sentPayload),
        .value("blockers_from", \.blockers.from),
        .value("blockers_to", \.blockers.to),
        .value("references_from", \.references.from),
        .value("references_to", \.references.to),
        .value("has_references") { $0.restart.references != nil },
        .serverID(\.restart.serverID)
    )
}

/// A mutation to be discarded.
final class DiscardRow: Sendable {
    private let discard: MutationDiscard
    /// The error in stored form.
    private let error: [UInt8]?

    init(_ discard: MutationDiscard, _ seal: LaneSeal) throws(SealError) {
        self.discard = discard
        error = try seal.seal(json: discard.error, .error, of: discard.node.id)
    }

    static let columns = Columns<DiscardRow>(
        .value("id", \.discard.node.id),
        .choice("resolution", \.discard.resolution),
        .serverID(\.discard.serverID),
        .value("version", \.discard.version),
        .json("error", \.error)
    )
}

/// A local id that a restarted mutation names.
struct PinRow {
    let device: UUID
    let id: LocalID

    static let columns = Columns<PinRow>(
        .value("device_id", \.device),
        .localID(\.id),
        .value("client_id") { $0.id.clientID(on: $0.device) }
    )
}
