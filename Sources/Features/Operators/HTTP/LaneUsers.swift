import Foundation
import JSONText
import SyncHTTP
import SyncModel
import SyncStore

/// The users of a page over all organizations: their names at issuers, if there are any.
struct LaneUsers: Sendable {
    private let lanes: [LaneKey]
    private let subjects: [LaneKey: [Subject]]

    init(of lanes: some Sequence<LaneKey>, in store: Store) async throws {
        self.lanes = Set(lanes).sorted()
        var subjects: [LaneKey: [Subject]] = [:]
        for (organization, found) in Dictionary(grouping: self.lanes, by: \.organization) {
            let known = try await store.administration.subjects(of: Set(found.map(\.user)), in: organization)
            for (user, names) in known { subjects[LaneKey(organization: organization, user: user)] = names }
        }
        self.subjects = subjects
    }

    /// Writes the member `users`.
    func writeMember(to writer: inout JSONWriter) {
        writer.member("users", lanes) { writer, lane in
            writer.object { writer in
                writer.member("organization_id", lane.organization)
                writer.member("id", lane.user)
                writer.member("subjects", subjects[lane] ?? [])
            }
        }
    }
}
