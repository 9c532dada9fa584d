import Postgres
import SyncModel

/// A mutation whose dependencies changed.
final class ReleaseRow: Sendable {
    private let release: MutationRelease
    let blockers: FlattenedLists.Bounds
    /// The problem, where the mutation fails by it.
    private let problem: Problem?
    /// In stored form.
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
        .uuid("id", \.release.node.id),
        .choice("status", \.release.status),
        .json("error", \.error),
        .text("last_error", \.lastError),
        .int2("last_error_code") { row in row.problem.map { Int16($0.code.status) } },
        .text("error_code", \.problem?.code.rawValue),
        .int4("blockers_from", \.blockers.from),
        .int4("blockers_to", \.blockers.to)
    )
}
