import Postgres
import SyncModel

/// A mutation that runs again. Classes: they are read column by column, and never copied.
final class RestartRow: Sendable {
    private let restart: MutationRestart
    let blockers, references: FlattenedLists.Bounds
    /// In stored form.
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
        .uuid("id", \.restart.record.id),
        .choice("status", \.restart.status),
        .int4("revision", \.restart.revision),
        .bool("is_outcome_unknown", \.restart.isOutcomeUnknown),
        .text("endpoint", \.restart.endpoint?.text),
        .json("payload", \.payload),
        .choice("resolution", \.restart.resolution),
        .text("sent_method", \.restart.sent?.method),
        .text("sent_endpoint", \.restart.sent?.endpoint),
        .json("sent_payload", \.sentPayload),
        .int4("blockers_from", \.blockers.from),
        .int4("blockers_to", \.blockers.to),
        .int4("references_from", \.references.from),
        .int4("references_to", \.references.to),
        .bool("has_references") { $0.restart.references != nil },
        .serverID(\.restart.serverID)
    )
}
