import Foundation
import SluiceClient

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// The gateway's data, read without the library, as another program of the user would read them.
struct GatewayView {
    let url: URL
    let token: String

    struct Failure: Error {
        let description: String
    }

    /// A mutation as stored by the gateway.
    struct Mutation {
        let id: UUID
        let status: String
        let device: String
        let sequence: Int64
        let operation: String
        /// Type and server id; nil until an id is assigned.
        let entity: String?
        let version: Int64?
        let mark: String?
        /// The mark of the state that replaced the write, by `server_wins`.
        let gaveWayTo: String?

        /// The demo upstream's ETags count a document's states.
        private let state: Int64

        /// The position among the writes of the entity. If the outcome arrived late, the version is that of the feed at
        /// that time, and the ETag is the write's own.
        var place: (Int64, Int64, Int64) { (version ?? 0, state, sequence) }

        init?(_ json: JSON) {
            state = json["etag"]?.string.flatMap { Int64($0.filter(\.isNumber)) } ?? .max
            guard let id = json["id"]?.string.flatMap(UUID.init(uuidString:)), let status = json["status"]?.string,
                let device = json["device_id"]?.string, let sequence = json["sequence_number"]?.int64,
                let operation = json["operation"]?.string, let type = json["entity_type"]?.string
            else { return nil }
            self.id = id
            self.status = status
            self.device = device
            self.sequence = sequence
            self.operation = operation
            entity = json["server_id"].flatMap { $0.isNull ? nil : "\(type) \($0.string ?? $0.text)" }
            version = json["version"]?.int64
            mark = json["payload"]?["_"]?.string
            gaveWayTo =
                json["resolution"]?.string == "server_wins" ? json["error"]?["current"]?["document"]?["_"]?.string : nil
        }
    }

    /// An entity as in the feed.
    struct Entity {
        let name: String
        let version: Int64?
        let isDeleted: Bool
        let mark: String?

        init?(_ json: JSON) {
            guard let type = json["entity_type"]?.string, let id = json["id"] else { return nil }
            name = "\(type) \(id.string ?? id.text)"
            version = json["version"]?.int64
            isDeleted = json["deleted"]?.bool ?? false
            mark = json["document"]?["_"]?.string
        }
    }

    /// All mutations of the user, in lane order.
    func mutations() async throws -> [Mutation] {
        var mutations: [Mutation] = []
        var cursor: String?
        repeat {
            let page = try await ask("/v1/mutations?limit=100" + (cursor.map { "&cursor=\($0)" } ?? ""))
            mutations += (page["mutations"]?.array ?? []).compactMap(Mutation.init)
            cursor = page["next"]?.string
        } while cursor != nil
        return mutations
    }

    func entities() async throws -> [Entity] {
        var entities: [String: Entity] = [:]
        var since: String?
        while true {
            let page = try await ask("/v1/changes?limit=500" + (since.map { "&since=\($0)" } ?? ""))
            for entity in (page["changes"]?.array ?? []).compactMap(Entity.init) { entities[entity.name] = entity }
            since = page["next"]?.string
            if page["up_to_date"]?.bool ?? true { return Array(entities.values) }
        }
    }

    /// Discards a write that no phone has stored.
    func discard(_ id: UUID) async throws {
        _ = try? await ask("/v1/mutations/\(id.uuidString.lowercased())/discard", body: #"{"dependents":"discard"}"#)
    }

    private func ask(_ path: String, body: String? = nil) async throws -> JSON {
        guard let address = URL(string: url.absoluteString + path) else { throw Failure(description: path) }
        var request = URLRequest(url: address)
        request.setValue("Bearer \(token)", forHTTPHeaderField: "Authorization")
        request.setValue("application/json", forHTTPHeaderField: "Content-Type")
        if let body {
            request.httpMethod = "POST"
            request.httpBody = Data(body.utf8)
        }
        // a busy machine can make the gateway refuse requests for a moment
        var attempt = 0
        while true {
            attempt += 1
            let (data, response) = try await URLSession.shared.data(for: request)
            let text = String(decoding: data, as: UTF8.self)
            let status = (response as? HTTPURLResponse)?.statusCode
            if status == 200 { return try JSON(parsing: text) }
            guard status == 503, attempt < 60 else { throw Failure(description: "\(path): \(text)") }
            try await Task.sleep(for: .seconds(1))
        }
    }
}
