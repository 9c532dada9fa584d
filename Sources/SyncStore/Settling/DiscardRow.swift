import Postgres
import SyncModel

/// A mutation to be discarded.
final class DiscardRow: Sendable {
    private let discard: MutationDiscard
    /// In stored form.
    private let error: [UInt8]?

    init(_ discard: MutationDiscard, _ seal: LaneSeal) throws(SealError) {
        self.discard = discard
        error = try seal.seal(json: discard.error, .error, of: discard.node.id)
    }

    static let columns = Columns<DiscardRow>(
        .uuid("id", \.discard.node.id),
        .choice("resolution", \.discard.resolution),
        .serverID(\.discard.serverID),
        .int8("version", \.discard.version),
        .json("error", \.error)
    )
}
