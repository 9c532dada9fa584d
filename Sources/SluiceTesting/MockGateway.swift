public import Foundation
public import SluiceClient

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// An in-memory gateway for an app's tests. It accepts writes, returns changes, and fails requests as the test
/// specifies.
///
///     let gateway = MockGateway()
///     let sluice = try SluiceClient(
///         database: database,
///         gateway: gateway.url,
///         entities: [Contact.sync],
///         configuration: gateway.configuration
///     ) { MockGateway.token(of: "kari") }
///     gateway.fail(.lostAnswer, on: .push, times: 1)
///     await sluice.syncOnce()
///
/// All clients belong to one organization, and all users see all entities. For ids, versions, conflicts, dependencies,
/// decisions and backups, the mock gateway follows the rules of the gateway's built-in store. It has no types with
/// local ids, no upstreams and no events.
public final class MockGateway: Sendable {
    /// A test's decision about a write, in place of the gateway's rules.
    public enum Verdict: Sendable {
        /// The gateway does not accept the write.
        case reject(code: String, detail: String = "")
        /// The write fails, as if an upstream had refused the write with this status.
        case fail(status: Int, body: JSON = .null)
    }

    /// An entity of the gateway.
    public struct Entity: Sendable, Identifiable {
        /// The permanent id, with its JSON type.
        public let id: JSON
        /// The number of the entity's writes so far.
        public let version: Int64
        /// Whether the entity was deleted.
        public let isDeleted: Bool
        /// The entity's members, as an object. For a deleted entity, these are the members before the deletion.
        public let document: JSON
    }

    /// A copy of all data of a gateway at one point in time.
    public struct Backup: Sendable {
        fileprivate let state: MockState
    }

    private let state = Locked(MockState())
    private let script = Locked(MockScript())

    /// Creates a gateway without data.
    public init() {}

    // MARK: - Clients

    /// The address for a `SluiceClient`. No server listens at this address.
    public var url: URL { URL(string: "http://mock.invalid") ?? URL(filePath: "/") }

    /// A configuration with which a client sends its requests to this gateway.
    public var configuration: SluiceClient.Configuration {
        var configuration = SluiceClient.Configuration()
        configuration.usesEvents = false
        configuration.transport = MockTransport(gateway: self)
        return configuration
    }

    /// Returns a token of a user, which this gateway accepts.
    public static func token(of user: String) -> String {
        let claims: JSON = ["sub": .string(user), "iss": "mock", "org": "mock"]
        let text = Data(claims.utf8).base64EncodedString().replacing("+", with: "-").replacing("/", with: "_")
        return "e30.\(text.replacing("=", with: "")).mock"
    }

    // MARK: - Data

    /// Returns the entities of a type, including deleted entities, in the order of their last writes.
    public func entities(of type: String) -> [Entity] {
        state.withLock { state in
            state.entities.filter { $0.key.type == type }.sorted { $0.value.position < $1.value.position }.map {
                Entity(
                    id: $0.key.id,
                    version: $0.value.version,
                    isDeleted: $0.value.isDeleted,
                    document: $0.value.document
                )
            }
        }
    }

    /// Creates or replaces an entity as another user.
    ///
    /// - Parameter id: nil for a new entity.
    /// - Returns: the entity's permanent id.
    @discardableResult
    public func put(_ type: String, id: JSON? = nil, _ document: JSON) -> JSON {
        state.withLock { state in
            let name = MockState.Name(type: type, id: id ?? .string(UUID.random().wire))
            state.write(name, document, isDeleted: false, by: .colleague)
            return name.id
        }
    }

    /// Deletes an entity as another user.
    public func delete(_ type: String, id: JSON) {
        state.withLock { state in
            let name = MockState.Name(type: type, id: id)
            if let entity = state.entities[name], !entity.isDeleted {
                state.write(name, entity.document, isDeleted: true, by: .colleague)
            }
        }
    }

    /// Copies all data.
    public func backup() -> Backup { Backup(state: state.withLock { $0 }) }

    /// Restores a backup, as an operator does. Later writes are lost, and clients pull everything again.
    public func restore(_ backup: Backup) {
        state.withLock { state in
            let epoch = state.epoch
            state = backup.state
            state.epoch = epoch + 1
        }
    }

    /// Makes all clients pull everything again, because their cursors expire.
    public func expireCursors() { state.withLock { $0.epoch += 1 } }

    /// The relations of each entity type: the members that hold ids, and the types of the ids.
    ///
    /// For example: `["visit": ["contact_id": "contact"]]`.
    ///
    /// If a write refers to a deleted entity by a relation, the write is a conflict. ``onDelete`` contains the rules
    /// for deletions.
    public var relations: [String: [String: String]] {
        get { state.withLock { $0.relations } }
        set { state.withLock { $0.relations = newValue } }
    }

    /// The deletion rules that differ from the default, `restrict`.
    ///
    /// For example: `["visit": ["contact_id": .cascade]]`.
    public var onDelete: [String: [String: DeletionRule]] {
        get { state.withLock { $0.onDelete } }
        set { state.withLock { $0.onDelete = newValue } }
    }

    /// The effect of a deletion on the entities that refer to the deleted entity: `on_delete` of an entity type.
    public enum DeletionRule: String, Sendable {
        /// The deletion is a conflict while another entity refers to the entity to delete.
        case restrict
        /// The gateway also deletes the entities that refer to the deleted entity.
        case cascade
        /// The gateway removes the reference from the entities that refer to the deleted entity.
        case setNull = "set_null"
        /// The deletion has no effect on other entities, and entities can refer to deleted entities.
        case ignore
    }

    /// Whether accepted writes wait instead of taking effect.
    public var holdsWrites: Bool {
        get { state.withLock { $0.holdsWrites } }
        set {
            state.withLock { state in
                state.holdsWrites = newValue
                for user in Set(state.mutations.map(\.writer.user)) { state.run(user) }
            }
        }
    }

    // MARK: - Failures

    /// All requests so far, including failed requests.
    public var requests: [Request] { script.withLock { $0.requests } }

    /// Fails requests from now on.
    ///
    /// - Parameters:
    ///   - kind: the kind of the requests that fail; nil for all requests.
    ///   - times: the number of requests that fail.
    public func fail(_ reaction: Reaction, on kind: Request.Kind? = nil, times: Int = .max) {
        script.withLock { $0.rules.append(MockScript.Rule(reaction: reaction, kind: kind, times: times)) }
    }

    /// Sets a closure that is called for each request. If the closure returns a reaction, this reaction replaces the
    /// gateway's own response.
    public func onRequest(_ reaction: (@Sendable (Request) -> Reaction?)?) {
        script.withLock { $0.onRequest = reaction }
    }

    /// Sets a closure that is called for each write that arrives, with the mutation as the client sent it.
    public func onWrite(_ verdict: (@Sendable (JSON) -> Verdict?)?) {
        script.withLock { $0.onWrite = verdict }
    }

    /// Ends all failures and reactions that the test has set.
    public func recover() {
        script.withLock { script in script = MockScript(requests: script.requests) }
    }

    // MARK: - Requests

    /// - Returns: the status, the headers and the text of the response.
    /// - Throws: `URLError`, `CancellationError`.
    func respond(to request: Request, within seconds: TimeInterval) async throws -> Response {
        let (rule, onRequest) = script.withLock { script in
            script.requests.append(request)
            return (script.take(request), script.onRequest)
        }
        switch rule ?? onRequest?(request) {
        case nil: return answer(request)
        case .status(let status, let retryAfter):
            return Response(status: status, headers: retryAfter.map { ["Retry-After": String($0)] } ?? [:])
        case .problem(let status, let code): return Response(status: status, .problem(status, code))
        case .text(let text): return Response(status: 200, text: text)
        case .json(let json): return Response(status: 200, json)
        case .cutConnection: throw URLError(.networkConnectionLost)
        case .lostAnswer:
            _ = answer(request)
            throw URLError(.networkConnectionLost)
        case .delay(let delay):
            let response = answer(request)
            guard delay < .seconds(seconds) else {
                try await Task.sleep(for: .seconds(seconds))
                throw URLError(.timedOut)
            }
            try await Task.sleep(for: delay)
            return response
        }
    }

    private func answer(_ request: Request) -> Response {
        guard let user = request.user else { return Response(status: 401, .problem(401, "unauthorized")) }
        let onWrite = script.withLock { $0.onWrite }
        return state.withLock { $0.answer(request, of: user, onWrite: onWrite ?? { _ in nil }) }
    }
}

/// Connects a client to a test's gateway.
private struct MockTransport: Transport {
    let gateway: MockGateway

    func answer(to request: URLRequest, within seconds: TimeInterval) async throws -> (
        body: Data, response: URLResponse
    ) {
        guard let url = request.url, let mock = MockGateway.Request(request) else { throw URLError(.badURL) }
        let answer = try await gateway.respond(to: mock, within: seconds)
        let response = HTTPURLResponse(
            url: url,
            statusCode: answer.status,
            httpVersion: "HTTP/1.1",
            headerFields: answer.headers
        )
        guard let response else { throw URLError(.badServerResponse) }
        return (Data(answer.text.utf8), response)
    }
}
