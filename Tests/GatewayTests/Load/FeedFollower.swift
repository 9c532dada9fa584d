import Foundation
import GatewaySupport
import JSONText

/// A device that pulls an organization's changes page by page from its cursor, despite all faults of the gateways.
actor FeedFollower {
    /// The last change of an entity in the feed.
    struct Entity: Equatable, Sendable {
        let type: String
        let version: Int64
        let document: String?
    }

    /// The entities in the feed, by server id.
    private(set) var entities: [String: Entity] = [:]
    private(set) var violations: [String] = []
    private let organization: UUID
    private let replicas: [String]
    private let limit: Int

    /// - Parameter limit: changes a page.
    init(organization: UUID, replicas: [String], limit: Int) {
        self.organization = organization
        self.replicas = replicas
        self.limit = limit
    }

    /// Follows until the load has finished and the feed has no further changes.
    func run(until load: Milestones) async throws {
        let token = try await GatewayProcess.token(organization: organization, user: UUID())
        var cursor: String?
        var replica = 0
        while true {
            // this is checked first, because pages read after the load finished contain all accepted mutations
            let isOver = load.isOver
            let since = cursor.map { "&since=\($0)" } ?? ""
            let reply = try? await GatewayProcess.get(
                replicas[replica] + "/v1/changes?limit=\(limit)\(since)",
                token: token,
                within: .seconds(30)
            )
            guard let reply, reply.status == 200 else {
                if let reply, ![429, 503].contains(reply.status) { throw Program.Failure(reply.text) }
                replica = (replica + 1) % replicas.count
                try await Task.sleep(for: .milliseconds(20))
                continue
            }
            for change in reply.changes { note(change) }
            cursor = reply.next
            guard reply.isUpToDate == true else { continue }
            if isOver { return }
            try await Task.sleep(for: .milliseconds(10))
        }
    }

    private func note(_ change: JSONValue) {
        guard let id = change["id"]?.string, let type = change["entity_type"]?.string,
            let version = change["version"]?.int64, let isDeleted = change["deleted"]?.bool
        else { return violations.append(change.text) }
        let document = isDeleted ? nil : change["document"]?.text
        let entity = Entity(type: type, version: version, document: document)
        if let earlier = entities.updateValue(entity, forKey: id), earlier.version >= version {
            violations.append("\(id) goes from version \(earlier.version) to \(version)")
        }
    }
}
