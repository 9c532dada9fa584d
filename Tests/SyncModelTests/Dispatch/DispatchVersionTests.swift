import Foundation
import JSONText
import SyncModel
import Testing

/// A forwarded mutation whose base version is outdated is in conflict before a request is sent.
@Suite struct DispatchVersionTests {
    private static let colleague = Writer(user: UUID(), device: UUID())
    private static let document = #"{"id":7,"n":"theirs"}"#

    private func entity(
        by writer: Writer = colleague,
        version: Int64 = 5,
        runBase: Int64 = 3,
        etag: String? = "e5",
        isDeleted: Bool = false
    ) -> EntityState {
        EntityState.known(
            etag: isDeleted ? nil : etag,
            owner: Sample.lane.user,
            lastWriter: writer,
            version: version,
            runBase: runBase,
            isDeleted: isDeleted,
            document: isDeleted ? nil : Array(Self.document.utf8)
        )
    }

    private func sample(
        _ operation: SyncModel.Operation = .update,
        _ strategy: ConflictResolution = .manual,
        base: Int64?,
        _ entity: EntityState?
    ) -> Sample {
        var sample = Sample.of(operation, strategy)
        sample.attempts = 2
        sample.baseVersion = base
        sample.entity = entity
        return sample
    }

    private func conflict(_ sample: Sample) -> (outcome: Outcome, version: Int64?)? {
        if case .conflict(let outcome, let version) = sample.decision() { (outcome, version) } else { nil }
    }

    private static let changes: [SyncModel.Operation] = [.update, .replace, .delete]

    @Test func `a base version that another writer passed, or that is ahead, is a conflict`() {
        let own = entity(by: Sample.writer)
        let cases: [(Int64?, EntityState?, Bool)] = [
            (5, entity(), false), (4, entity(), true), (3, entity(), true), (0, entity(), true), (6, entity(), true),
            (.max, entity(), true), (nil, entity(), false), (1, nil, false),
            // the writer's own run
            (5, own, false), (4, own, false), (3, own, false), (2, own, true), (6, own, true),
            (4, entity(by: Writer(user: Sample.lane.user, device: UUID())), true),
        ]
        for operation in Self.changes {
            for (base, entity, isConflict) in cases {
                let sample = sample(operation, base: base, entity)
                #expect((conflict(sample) != nil) == isConflict, "\(operation) \(String(describing: base))")
                #expect((sample.request?.ifMatch != nil) == (!isConflict && base != nil && entity != nil))
            }
        }
        #expect(conflict(sample(.create, base: 1, entity())) == nil)
    }

    @Test func `a manual conflict shows the current entity`() throws {
        for operation in Self.changes {
            let (outcome, version) = try #require(conflict(sample(operation, base: 4, entity())))
            #expect(outcome.status == .conflict && outcome.code == "conflict" && version == nil)
            // costs no attempt, and contains no invented answer
            #expect(outcome.attemptCount == 2 && outcome.revision == 1 && outcome.responseStatus == nil)
            #expect(
                outcome.lastError == "base_version is 4, but another writer changed the entity, which is at version 5"
            )
            let error = String(decoding: try #require(outcome.error), as: UTF8.self)
            let current = #"{"entity_type":"contact","id":7,"version":5,"etag":"e5","deleted":false,"document":"#
            #expect(error.contains(#""current":\#(current)\#(Self.document)}"#), "\(error)")
        }
        let ahead = try #require(conflict(sample(base: 9, entity())))
        #expect(ahead.outcome.lastError == "base_version is 9, but the entity's version is only 5")
    }

    @Test func `server_wins discards, and client_wins is sent without a condition`() throws {
        for operation in Self.changes {
            let (server, version) = try #require(conflict(sample(operation, .serverWins, base: 4, entity())))
            #expect(server.status == .discarded && server.resolution == .serverWins && version == 5)
            #expect(server.satisfiesDependants && server.serverID?.text == "7" && server.current == Self.document)
            let first = sample(operation, .clientWins, base: 4, entity())
            let (client, _) = try #require(conflict(first))
            #expect(client.status == .pending && client.resolution == .clientWins && client.revision == 2)
            #expect(client.attemptCount == 0 && client.current == Self.document)
            let request = try #require(first.after(client).request)
            let method = operation == .update ? "PATCH" : operation == .replace ? "PUT" : "DELETE"
            // the feed's document may be older than the upstream's, so no part of it is sent
            #expect(request.method == method && request.path == "/contacts/7")
            #expect(request.body == (operation == .delete ? nil : Array(#"{"name":"Kari"}"#.utf8)))
            #expect(request.isUnconditional && request.ifMatch == nil)
        }
    }

    @Test func `a deleted entity can be deleted again but not changed`() {
        let gone = entity(isDeleted: true)
        #expect(conflict(sample(.delete, base: 4, gone)) == nil)
        #expect(conflict(sample(.update, base: 4, gone))?.outcome.lastError == "another writer deleted the entity")
    }

    /// Only the upstream has the outcome, so the request is sent under its key, with a condition that never holds.
    @Test func `a mutation that may have taken effect is not compared with later versions`() throws {
        var sent = sample(base: 4, entity())
        sent.isOutcomeUnknown = true
        let request = try #require(sent.request)
        #expect(request.ifMatch == #""base-version-was-passed""# && !request.isUnconditional)
        // without validators the upstream would ignore a condition
        sent.entity = entity(etag: nil)
        #expect(conflict(sent)?.outcome.isOutcomeUnknown == true)
        sent.entity = entity()
        sent.baseVersion = 9
        #expect(conflict(sent)?.outcome.isOutcomeUnknown == true)
    }

    @Test func `a client_wins resolution is not checked again`() {
        var sample = sample(base: 4, entity())
        sample.resolution = .clientWins
        #expect(sample.request != nil && sample.request?.ifMatch == nil)
    }

    @Test func `reports a conflict while the circuit is open`() {
        let later = Sample.now.adding(seconds: 9)
        if case .conflict = sample(base: 4, entity()).decision(heldUntil: later) {} else { Issue.record("held") }
    }
}
