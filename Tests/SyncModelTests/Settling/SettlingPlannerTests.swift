import Foundation
import JSONText
import Testing

@testable import SyncModel

@Suite struct SettlingPlannerTests {
    private static let statuses = MutationStatus.allCases.filter { $0 != .rejected }

    private func subject(
        _ status: MutationStatus,
        _ operation: SyncModel.Operation = .update,
        isOutcomeUnknown: Bool = false,
        isForwarded: Bool = true,
        serverID: ServerID? = ServerID(text: "7", isInteger: true),
        error: String? = nil,
        response: String? = nil,
        answer: Int16? = nil
    ) -> SettleSubject {
        var type = EntityType(firstUseOf: "task", hasUpstream: isForwarded)
        type.isInUse = true
        let record = MutationRecord.sample(status, operation: operation) {
            $0.entity = EntityName(type: "task", client: nil, serverID: serverID)
            $0.state.revision = 3
            $0.response.responseStatus = answer
            $0.response.responseBody = response.map { Array($0.utf8) }
            $0.response.error = error.map { Array($0.utf8) }
        }
        return SettleSubject(
            record: record,
            endpoint: try? Endpoint("/tasks"),
            payload: Array(#"{"a":1}"#.utf8),
            isOutcomeUnknown: isOutcomeUnknown,
            type: type
        )
    }

    private func request(_ body: String) throws -> RetryRequest {
        try RetryRequest(body: Array(body.utf8), limits: IntakeLimits())
    }

    private func code(_ body: () throws -> Void) -> ProblemCode? {
        do {
            try body()
            return nil
        } catch let problem as Problem {
            return problem.code
        } catch {
            return .internalError
        }
    }

    @Test func `settles only stuck mutations`() throws {
        for status in Self.statuses {
            let subject = subject(status, error: #"{"current":{"id":7}}"#)
            let retry = code { _ = try RestartPlanner.retry(subject, RetryRequest(), .init()) }
            #expect((retry == nil) == [.failed, .conflict].contains(status), "\(status)")
            let client = code {
                _ = try RestartPlanner.clientWins(subject, ContentEdit(), .init())
            }
            #expect((client == nil) == (status == .conflict), "\(status)")
            let server = code { _ = try ServerWinsPlanner(subject) }
            #expect((server == nil) == (status == .conflict), "\(status)")
            let discard = code {
                _ = try DiscardPlanner([subject], graph: DependencyGraph([]), choice: nil, limit: 9)
            }
            #expect((discard == nil) == [.pending, .blocked, .failed, .conflict].contains(status), "\(status)")
            for refusal in [retry, client, server, discard] {
                #expect(refusal == nil || refusal == .statusTransitionMustBeValid)
            }
        }
    }

    /// Product rule 11.
    @Test func `a retry ends a back-off only if the mutation waits, and is not edited`() throws {
        let now = Timestamp(microseconds: 1_795_000_000_000_000)
        func waiting(_ status: MutationStatus, _ due: Timestamp?) -> SettleSubject {
            SettleSubject(
                record: MutationRecord.sample(status, operation: .update) { $0.state.nextRetryAt = due },
                endpoint: nil,
                payload: nil,
                isOutcomeUnknown: true,
                type: EntityType(firstUseOf: "task", hasUpstream: true)
            )
        }
        let later = now.adding(seconds: 9)
        for (status, due, ends) in [
            (.pending, later, true), (.pending, now, false), (.pending, nil, false), (.failed, later, false),
            (.inFlight, later, false), (.blocked, later, false),
        ] as [(MutationStatus, Timestamp?, Bool)] {
            #expect(try RestartPlanner.endsBackOff(waiting(status, due), RetryRequest(), now: now) == ends)
        }
        for body in [#"{"payload":{}}"#, #"{"endpoint":"/x","force":true}"#] {
            let edit = try request(body)
            let refusal = code { _ = try RestartPlanner.endsBackOff(waiting(.pending, later), edit, now: now) }
            #expect(refusal == .statusTransitionMustBeValid)
            #expect(try !RestartPlanner.endsBackOff(waiting(.failed, later), edit, now: now), "as any other retry")
        }
    }

    /// Product rule 6.
    @Test(arguments: [
        (false, "{}", 4, false), (false, #"{"payload":{}}"#, 4, false), (true, "{}", 3, true),
        (true, #"{"payload":{},"force":true}"#, 4, false), (true, #"{"endpoint":"/x","force":true}"#, 4, false),
        (true, #"{"force":true}"#, 3, true),
    ])
    func `raises a revision exactly when the rule requires it`(
        _ isUnknown: Bool,
        _ body: String,
        _ revision: Int32,
        _ stays: Bool
    )
        throws
    {
        let subject = subject(.failed, isOutcomeUnknown: isUnknown)
        let restart = try RestartPlanner.retry(subject, try request(body), .init()).restart
        #expect(restart.revision == revision)
        #expect(restart.isOutcomeUnknown == stays)
        #expect(restart.status == .pending)
    }

    @Test func `an edit after an unknown outcome requires force`() throws {
        for subject in [subject(.failed, isOutcomeUnknown: true), subject(.failed, .create, answer: 201)] {
            for body in [#"{"payload":{}}"#, #"{"endpoint":"/x"}"#, #"{"payload":{},"force":false}"#] {
                let request = try request(body)
                let refusal = code { _ = try RestartPlanner.retry(subject, request, .init()) }
                #expect(refusal == .statusTransitionMustBeValid)
            }
        }
    }

    /// The entity of the create exists under an unknown id, so a new key would create the entity twice.
    @Test(arguments: [
        (Int16(200), "{}", Int32(3), true), (201, "{}", 3, true), (299, "{}", 3, true),
        (201, #"{"force":true}"#, 3, true), (201, #"{"payload":{},"force":true}"#, 4, false),
        (301, "{}", 4, false), (422, "{}", 4, false),
    ])
    func `an applied create keeps its key`(_ answer: Int16, _ body: String, _ revision: Int32, _ stays: Bool) throws {
        let subject = subject(.failed, .create, answer: answer)
        let restart = try RestartPlanner.retry(subject, try request(body), .init()).restart
        #expect(restart.revision == revision && restart.isOutcomeUnknown == stays)
    }

    @Test func `built-in documents are objects`() throws {
        for (operation, isForwarded, isTaken) in [
            (SyncModel.Operation.update, false, false), (.replace, false, false), (.delete, false, false),
            (.update, true, true), (.delete, true, false),
        ] {
            let subject = subject(.failed, operation, isForwarded: isForwarded)
            let request = try request(#"{"payload":[1]}"#)
            let refusal = code { _ = try RestartPlanner.retry(subject, request, .init()) }
            #expect(refusal == (isTaken ? nil : .validationFailed), "\(operation)")
        }
    }

    /// Product rule 12.
    @Test func `client_wins follows the operation`() throws {
        let patch = try JSONTree(parsing: Array(#"{"a":null,"b":2}"#.utf8)).root
        let list = try JSONTree(parsing: Array("[1]".utf8)).root
        let document = Array(#"{"a":1,"c":3}"#.utf8)
        let id = ServerID(text: "x y", isInteger: false)
        func plan(
            _ operation: SyncModel.Operation,
            _ idSpace: IDSpace = .mapped,
            _ payload: JSONValue? = nil,
            current: [UInt8]? = nil,
            id: ServerID? = nil,
            at endpoint: String = "/tasks"
        ) -> SentRequest? {
            ClientWins.plan(
                operation: operation,
                idSpace: idSpace,
                endpoint: endpoint,
                payload: payload,
                current: current,
                serverID: id
            )
        }
        #expect(plan(.replace, current: document) == SentRequest(method: "PUT"))
        #expect(plan(.delete) == SentRequest(method: "DELETE"))
        #expect(plan(.update, .mapped, patch) == SentRequest(method: "PATCH"))
        #expect(plan(.update, .mapped, list, current: document) == SentRequest(method: "PATCH"))
        #expect(
            plan(.update, .mapped, patch, current: document)
                == SentRequest(method: "PUT", payload: Array(#"{"c":3,"b":2}"#.utf8))
        )
        #expect(plan(.create) == nil)
        #expect(plan(.create, .shared, id: id) == nil)
        #expect(plan(.create, id: id) == SentRequest(method: "PUT", endpoint: "/tasks/x%20y"))
        #expect(plan(.create, id: id, at: "/tasks/?a=b/") == SentRequest(method: "PUT", endpoint: "/tasks/x%20y?a=b/"))
    }

    @Test func `adopts a create only by an id that the server returned`() throws {
        // the body of an answer may have the id of an error
        for (error, response, id) in [
            (nil, nil, nil), (nil, #"{"id":9}"#, nil), (#"{"current":{"id":"c"}}"#, nil, "c"),
            (#"{"current":{"id":"c"}}"#, #"{"id":9}"#, "c"), (#"{"existing_id":9}"#, #"{"id":"conflict"}"#, "9"),
            (#"{"existing_id":{}}"#, nil, nil),
        ] as [(String?, String?, String?)] {
            let subject = subject(.conflict, .create, serverID: nil, error: error, response: response)
            #expect((try? ServerWinsPlanner(subject))?.serverID?.text == id)
        }
    }

    // MARK: - Dependencies

    private func node(_ id: UUID, on others: [UUID], at position: Int64, _ status: MutationStatus = .blocked)
        -> DependencyNode
    {
        DependencyNode(
            id: id,
            position: position,
            acceptedAt: Timestamp(microseconds: position),
            status: status,
            operation: .update,
            entity: EntityName(type: "task", client: nil),
            dependsOn: others
        )
    }

    @Test func `dependents come after all their dependencies`() {
        let ids = (0..<6).map { _ in UUID() }
        let graph = DependencyGraph([
            node(ids[1], on: [ids[0]], at: 1), node(ids[2], on: [ids[0], ids[3]], at: 2),
            node(ids[3], on: [ids[1]], at: 3), node(ids[4], on: [ids[2]], at: 4), node(ids[5], on: [], at: 5),
        ])
        let all = graph.all(of: [ids[0]]).map(\.id)
        #expect(Set(all) == Set(ids[1...4]))
        #expect(all == [ids[1], ids[3], ids[2], ids[4]])
        #expect(graph.direct(of: [ids[0]]).map(\.id) == [ids[1], ids[2]])
        #expect(graph.all(of: [ids[5]]).isEmpty)
    }

    /// If the last mutation of a chain is required, the whole chain stays. Each mutation is visited once.
    @Test func `a dependency of a remaining mutation is needed`() {
        let ids = (0..<50_000).map { _ in UUID() }
        let chain = (1..<ids.count).map { node(ids[$0], on: [ids[$0 - 1]], at: Int64($0)) }
        let graph = DependencyGraph(chain)
        #expect(graph.unneeded(among: Set(ids)) == Set(ids))
        #expect(graph.unneeded(among: Set(ids.dropLast())).isEmpty)
        #expect(graph.unneeded(among: Set(ids.suffix(10))) == Set(ids.suffix(10)))
        let side = DependencyGraph(chain + [node(UUID(), on: [ids[20]], at: 0)])
        #expect(side.unneeded(among: Set(ids)) == Set(ids.dropFirst(21)))
    }

    @Test func `traversing a long chain and a cycle ends`() {
        let ids = (0..<100_000).map { _ in UUID() }
        let chain = (1..<ids.count).map { node(ids[$0], on: [ids[$0 - 1]], at: Int64($0)) }
        #expect(DependencyGraph(chain).all(of: [ids[0]]).map(\.id) == Array(ids[1...]))
        let circle = DependencyGraph([node(ids[0], on: [ids[1]], at: 1), node(ids[1], on: [ids[0]], at: 2)])
        #expect(circle.all(of: [ids[0]]).map(\.id) == [ids[1]])
    }

    @Test func `a partial discard leaves no mutation that waits for a discarded one`() throws {
        let subject = subject(.failed)
        let ids = [subject.record.id] + (0..<7).map { _ in UUID() }
        let graph = DependencyGraph((1..<8).map { node(ids[$0], on: [ids[$0 - 1]], at: Int64($0 + 1)) })
        let lane = LaneState(openCount: 8, haltedBy: subject.record.id)
        let planner = try DiscardPlanner([subject], graph: graph, choice: .discard, limit: 3)
        var plan = SettlePlan(lane)
        planner.plan(DiscardPlanner.Knowledge(), into: &plan)
        #expect(plan.discards.map(\.node.id) == Array(ids[5...]))
        #expect(!plan.isComplete)
        #expect(plan.lane.openCount == 5)
        #expect(plan.lane.haltedBy == subject.record.id)
        #expect(plan.lane.changePosition == lane.changePosition + 1)
    }

    @Test func `a bulk request specifies its mutations`() throws {
        let id = UUID().lowercased
        func request(_ body: String, _ move: BulkRequest.Move = .discard) throws -> BulkRequest {
            try BulkRequest(body: Array(body.utf8), limit: 65_536, for: move)
        }
        #expect(try request(#"{"filter":{}}"#).statuses == [.failed, .conflict])
        #expect(try request(#"{"ids":["\#(id)"]}"#).statuses == [.pending, .blocked, .failed, .conflict])
        #expect(try request(#"{"ids":["\#(id)"]}"#, .retry).statuses == [.failed, .conflict])
        #expect(try request(#"{"filter":{"status":["blocked"]},"dependents":"keep"}"#).dependants == .keep)
        for body in [
            "{}", "", "[]", #"{"filter":[]}"#, #"{"ids":{}}"#, #"{"filter":{"status":[]}}"#, #"{"all":true}"#,
            #"{"filter":{"status":"succeeded"}}"#, #"{"filter":{"status":[1]}}"#, #"{"filter":{"user_id":"x"}}"#,
        ] {
            #expect(code { _ = try request(body) } != nil, "\(body)")
        }
        #expect(code { _ = try request(#"{"filter":{"status":"pending"}}"#, .retry) } == .invalidRequest)
        #expect(code { _ = try request(#"{"filter":{},"dependents":"keep"}"#, .retry) } == .invalidRequest)
    }

    // MARK: - Meaning of client ids

    private static let named = UUID()

    private func mapping(_ type: String, _ serverID: String?, by create: UUID = UUID()) -> IDMapping {
        IDMapping(
            entityType: type,
            client: .id(Self.named),
            serverID: serverID.map { ServerID(text: $0, isInteger: false) },
            status: serverID == nil ? .pending : .resolved,
            mutationID: create
        )
    }

    private func naming(_ type: String?, isReference: Bool = true, status: MutationStatus = .failed) -> SettleSubject {
        let plain = subject(status, error: #"{"current":{"id":7,"document":{"b":1}}}"#)
        return SettleSubject(
            record: plain.record,
            endpoint: try? Endpoint("/tasks/\(Self.named)"),
            payload: Array(#"{"a":"\#(Self.named)"}"#.utf8),
            isOutcomeUnknown: false,
            type: plain.type,
            references: References(isReference ? [Self.named] : [], types: type.map { [Self.named: $0] } ?? [:])
        )
    }

    /// Two types share a client id. A retry waits for the entity of the intended type, and client_wins names it.
    @Test func `a retry keeps the resolution of the push`() throws {
        let create = UUID()
        let both = RestartPlanner.Knowledge(mappings: [
            Self.named: [mapping("a_first", "wrong"), mapping("contact", nil, by: create)]
        ])
        let retry = try RestartPlanner.retry(naming("contact"), RetryRequest(), both).restart
        #expect(retry.dependsOn == [create] && retry.references == nil)
        let other = try RestartPlanner.retry(naming("a_first"), RetryRequest(), both).restart
        #expect(other.dependsOn.isEmpty && other.references == nil)
        let known = RestartPlanner.Knowledge(mappings: [
            Self.named: [mapping("a_first", "wrong"), mapping("contact", "right")]
        ])
        let sent = try RestartPlanner.clientWins(
            naming("contact", status: .conflict),
            ContentEdit(),
            known
        ).restart.sent
        #expect(sent?.method == "PUT" && sent?.payload == Array(#"{"b":1,"a":"right"}"#.utf8))
        // an edit of one part keeps the meaning of the other
        let edited = try RestartPlanner.retry(naming("contact"), request(#"{"payload":{"a":"\#(Self.named)"}}"#), both)
        #expect(edited.restart.references == [ClientReference(clientID: Self.named, entityType: "contact")])
    }

    @Test func `a reference without a recorded type is ambiguous between two types`() throws {
        let known = RestartPlanner.Knowledge(mappings: [
            Self.named: [mapping("a_first", "x"), mapping("contact", "y")]
        ])
        #expect(code { _ = try RestartPlanner.retry(naming(nil), RetryRequest(), known) } == .referenceAmbiguous)
        let one = RestartPlanner.Knowledge(mappings: [Self.named: [mapping("contact", "y")]])
        let restart = try RestartPlanner.retry(naming(nil), RetryRequest(), one).restart
        #expect(restart.references == [ClientReference(clientID: Self.named, entityType: "contact")])
        // the create of the intended type was discarded, and that of another type was not
        let gone = RestartPlanner.Knowledge(mappings: [Self.named: [mapping("a_first", "x")]])
        #expect(code { _ = try RestartPlanner.retry(naming("contact"), RetryRequest(), gone) } == .validationFailed)
    }

    @Test func `a UUID that was data at the push is data in a retry`() throws {
        let known = RestartPlanner.Knowledge(mappings: [Self.named: [mapping("contact", nil)]])
        let restart = try RestartPlanner.retry(naming(nil, isReference: false), RetryRequest(), known).restart
        #expect(restart.status == .pending && restart.references == nil)
        let edited = try RestartPlanner.retry(
            naming(nil, isReference: false),
            request(#"{"payload":{"a":"\#(Self.named)","b":1}}"#),
            known
        ).restart
        #expect(edited.status == .blocked && edited.references?.map(\.entityType) == ["contact"])
    }

    /// A document merged before its ids are known would be sent with client ids in it.
    @Test func `client_wins merges no document that waits for IDs`() throws {
        let known = RestartPlanner.Knowledge(mappings: [Self.named: [mapping("contact", nil)]])
        let restart = try RestartPlanner.clientWins(
            naming("contact", status: .conflict),
            ContentEdit(),
            known
        ).restart
        #expect(restart.status == .blocked && restart.sent == SentRequest(method: "PATCH"))
    }
}
