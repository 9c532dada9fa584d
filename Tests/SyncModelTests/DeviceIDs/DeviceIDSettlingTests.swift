import Foundation
import JSONText
import Testing

@testable import SyncModel

/// A device's own ids in a person's settling calls (specification 002, docs/spec).
@Suite struct DeviceIDSettlingTests {
    private static let device = UUID(uuid: (3, 3, 3, 3, 3, 3, 0x43, 3, 0x83, 3, 3, 3, 3, 3, 3, 3))
    private static let create = UUID(uuid: (6, 6, 6, 6, 6, 6, 0x46, 6, 0x86, 6, 6, 6, 6, 6, 6, 6))

    private static func client(_ type: String, _ number: Int64) -> UUID {
        name(type, number).id
    }

    private static func name(_ type: String, _ number: Int64) -> ClientName {
        LocalID(entityType: type, number: number).name(on: device)
    }

    private func subject(
        _ status: MutationStatus,
        _ operation: SyncModel.Operation = .update,
        isForwarded: Bool = true,
        serverID: ServerID? = ServerID(text: "7", isInteger: true),
        payload: String = #"{"folderId":23}"#,
        error: String? = nil
    ) -> SettleSubject {
        let record = MutationRecord.sample(status, device: Self.device, operation: operation) {
            $0.entity = EntityName(type: "task", client: Self.name("task", 47), serverID: serverID)
            $0.response.error = error.map { Array($0.utf8) }
        }
        let type = EntityType(
            name: "task",
            idSpace: .device,
            relations: [
                Relation(member: "folderId", entityType: "folder", idSpace: .device),
                Relation(member: "related", entityType: "task", idSpace: .device),
            ],
            visibility: .organization,
            defaultPriority: 0,
            isForwarded: isForwarded,
            isInUse: true
        )
        return SettleSubject(
            record: record,
            endpoint: try? Endpoint("/tasks"),
            payload: Array(payload.utf8),
            isOutcomeUnknown: false,
            type: type
        )
    }

    private func retry(_ body: String) throws -> RetryRequest {
        try RetryRequest(body: Array(body.utf8), limits: IntakeLimits())
    }

    private func knowledge(_ known: (String, Int64, ServerID?)..., abandoned: Bool = false) -> RestartPlanner.Knowledge
    {
        var mappings: [UUID: [IDMapping]] = [:]
        for (type, number, serverID) in known {
            let mapping = IDMapping(
                entityType: type,
                client: Self.name(type, number),
                serverID: serverID,
                status: serverID == nil ? .pending : .resolved,
                mutationID: Self.create,
                isAbandoned: abandoned
            )
            mappings[mapping.clientID] = [mapping]
        }
        return RestartPlanner.Knowledge(mappings: mappings)
    }

    private func refusal(_ body: () throws -> Void) -> Problem? {
        do {
            try body()
            return nil
        } catch {
            return error as? Problem
        }
    }

    private let nine = ServerID(text: "9", isInteger: true)

    @Test func `looks up the numbers in the payload, and the number of the mutation's entity`() throws {
        let edit = try retry(#"{"payload":{"folderId":24,"related":[1,47,"x",null],"n":5}}"#).edit
        let content = SettledContent(subject(.failed), edit)
        #expect(
            content.localIDs
                == [
                    LocalID(entityType: "folder", number: 24), LocalID(entityType: "task", number: 1),
                    LocalID(entityType: "task", number: 47),
                ]
        )
        #expect(Set(content.identifiers) == Set(content.localIDs.map { $0.clientID(on: Self.device) }))
        #expect(SettledContent(subject(.failed), ContentEdit()).localIDs.map(\.number) == [23, 47])
    }

    @Test func `a retry resolves its numbers`() throws {
        let known = knowledge(("folder", 23, nine), ("task", 47, ServerID(text: "7", isInteger: true)))
        let plain = try RestartPlanner.retry(subject(.failed), retry("{}"), known).restart
        #expect(plain.status == .pending && plain.references == nil)
        #expect(plain.localIDs.map(\.number) == [23, 47])
        let edited = try RestartPlanner.retry(subject(.failed), retry(#"{"payload":{"folderId":23,"a":1}}"#), known)
            .restart
        #expect(Set(edited.references?.map(\.clientID) ?? []) == [Self.client("folder", 23), Self.client("task", 47)])
        #expect(edited.payload == Array(#"{"folderId":23,"a":1}"#.utf8))
    }

    @Test func `an edit waits for a create that is still open`() throws {
        let restart = try RestartPlanner.retry(
            subject(.failed),
            retry(#"{"payload":{"folderId":24}}"#),
            knowledge(("folder", 24, nil), ("task", 47, nine))
        ).restart
        #expect(restart.status == .blocked && restart.dependsOn == [Self.create])
        #expect(restart.references?.map(\.clientID).contains(Self.client("folder", 24)) == true)
    }

    @Test func `refuses an unknown number with its pointer`() throws {
        for (isEdited, pointer) in [(true, "/payload/related/1"), (false, "")] {
            let payload = #"{"folderId":23,"related":[1,2]}"#
            let known = knowledge(("folder", 23, nine), ("task", 1, nine), ("task", 47, nine))
            let problem = refusal {
                let request = isEdited ? try retry(#"{"payload":\#(payload)}"#) : try retry("{}")
                _ = try RestartPlanner.retry(subject(.failed, payload: payload), request, known)
            }
            #expect(problem?.code == .validationFailed)
            #expect(problem?.errors.first?.pointer == pointer)
            #expect(problem?.errors.first?.rule == Rule.entityReference)
            let detail = "unknown local id 2 in 'task': this device neither created it nor received it in a pull"
            #expect(problem?.detail == detail)
        }
    }

    @Test func `an entity without a resolvable id cannot be changed`() throws {
        let lost = subject(.failed, serverID: nil, payload: "{}")
        let problem = refusal { _ = try RestartPlanner.retry(lost, retry("{}"), knowledge()) }
        #expect(problem?.code == .validationFailed && problem?.detail.contains("local id 47 in 'task'") == true)
        // an entity with a known server id needs no look-up
        #expect(
            refusal { _ = try RestartPlanner.retry(subject(.failed, payload: "{}"), retry("{}"), knowledge()) } == nil
        )
        // a create needs no look-up either
        let create = subject(.failed, .create, serverID: nil, payload: #"{"related":47}"#)
        let restart = try RestartPlanner.retry(create, retry("{}"), knowledge(("task", 47, nil))).restart
        #expect(restart.dependsOn.isEmpty && restart.localIDs.isEmpty)
        let abandoned = refusal {
            _ = try RestartPlanner.retry(subject(.failed), retry("{}"), knowledge(("folder", 23, nil), abandoned: true))
        }
        #expect(
            abandoned?.detail
                == "local id 23 in 'folder' does not exist: the mutation that created it was discarded"
        )
    }

    /// A merged document contains server ids, so an unresolved number would look like a server id.
    @Test func `client_wins sends server IDs`() throws {
        let conflict = subject(
            .conflict,
            error: #"{"current":{"id":7,"document":{"folderId":1,"related":[23],"a":2}}}"#
        )
        func sent(_ payload: String, _ knowledge: RestartPlanner.Knowledge) throws -> String {
            let body = Array(#"{"strategy":"client_wins","payload":\#(payload)}"#.utf8)
            let edit = try ResolveRequest(body: body, limits: IntakeLimits()).edit
            let restart = try RestartPlanner.clientWins(conflict, edit, knowledge).restart
            #expect(restart.payload == Array(payload.utf8))
            return String(decoding: try #require(restart.sent?.payload), as: UTF8.self)
        }
        let own = ("task", Int64(47), Optional(ServerID(text: "7", isInteger: true)))
        #expect(
            try sent(#"{"folderId":23}"#, knowledge(("folder", 23, nine), own))
                == #"{"folderId":9,"related":[23],"a":2}"#
        )
        let standIn = Self.client("folder", 24).lowercased
        #expect(
            try sent(#"{"folderId":24,"related":[47]}"#, knowledge(("folder", 24, nil), own))
                == #"{"folderId":"\#(standIn)","related":[7],"a":2}"#
        )
    }

    @Test func `adoption resolves the number's mapping, and a discard marks it as failed`() throws {
        let lane = LaneState(openCount: 2)
        let conflict = subject(
            .conflict,
            .create,
            serverID: nil,
            error: #"{"current":{"id":9,"document":{"id":9}}}"#
        )
        let planner = try ServerWinsPlanner(conflict)
        #expect(planner.adoption(of: nil, isNewer: false, user: UUID())?.clientID == nil)
        var adopted = SettlePlan(lane)
        planner.plan(nil, user: UUID(), waiters: [], unmet: [], into: &adopted)
        let change = try #require(adopted.mappings.first)
        #expect(change.isLocal && change.clientID == Self.client("task", 47) && change.serverID == nine)

        let failed = subject(.failed, .create, serverID: nil)
        let kept = DependencyNode(
            id: UUID(),
            position: 2,
            acceptedAt: Timestamp(microseconds: 0),
            status: .blocked,
            operation: .create,
            entity: EntityName(type: "task", client: Self.name("task", 48)),
            dependsOn: [failed.record.id]
        )
        let discard = try DiscardPlanner([failed], graph: DependencyGraph([kept]), choice: .keep, limit: 9)
        #expect(discard.lostReferences == [ClientReference(clientID: Self.client("task", 47), entityType: "task")])
        var plan = SettlePlan(lane)
        discard.plan(DiscardPlanner.Knowledge(lost: [kept.id: Self.client("task", 47)]), into: &plan)
        #expect(plan.mappings.first?.isLocal == true && plan.mappings.first?.status == .failed)
        let problem = plan.releases.first?.problem
        #expect(problem?.code == .dependencyRejected)
        #expect(problem?.detail == "the mutation needs local id 47 in 'task', whose create was discarded")
    }
}
