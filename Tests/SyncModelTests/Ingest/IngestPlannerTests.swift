import Foundation
import SyncModel
import Testing
import UsersFeature

@Suite struct IngestPlannerTests {
    private typealias Samples = IngestSamples

    private let planner = Samples.planner()

    // MARK: - Applying

    @Test func `creates, changes and deletes a new entity`() {
        var state = IngestState()
        let verdicts = planner.judge(
            Samples.event("a", version: 1),
            Samples.event("b", .patch, version: 2, #"{"city":"Bergen"}"#),
            Samples.event("c", .delete, version: 3),
            in: &state
        )
        #expect(verdicts.map(\.result) == [.applied, .applied, .applied])
        #expect(verdicts.map(\.version) == [1, 2, 3])
        #expect(state.entities[Samples.contact]?.isDeleted == true)
        #expect(state.marks[Samples.contact] == SourceMark(version: 3))
    }

    @Test(arguments: [(1_000, true), (1_001, false)])
    func `rejects documents with more than a thousand related device ids`(_ count: Int, _ isApplied: Bool) {
        let relation = Relation(member: "fs", entityType: "folder", idSpace: .device)
        let type = EntityType(
            name: "contact",
            idSpace: .mapped,
            relations: [relation],
            visibility: .organization,
            defaultPriority: 0,
            isForwarded: true,
            isInUse: true
        )
        let context = IngestPlanner.Context(
            organization: Samples.tenant(),
            types: ["contact": type],
            now: Samples.now,
            owner: { .user($0) }
        )
        var state = IngestState()
        let document = #"{"fs":["# + (0..<count).map { "\($0)" }.joined(separator: ",") + "]}"
        let verdicts = IngestPlanner(context).judge(Samples.event("a", version: 1, document), in: &state)
        #expect(verdicts.map(\.result) == [isApplied ? .applied : .refused])
    }

    @Test func `for an edit based on an earlier version, the event is another writer's change`() {
        var state = Samples.state(Samples.stored())
        let verdicts = planner.judge(Samples.event("a", .patch, version: 9, #"{"city":"Bergen"}"#), in: &state)
        let entity = state.entities[Samples.contact]
        #expect(verdicts.map(\.version) == [4])
        #expect(entity?.text == #"{"name":"Kari","city":"Bergen"}"#)
        #expect(entity?.lastWriter == .elsewhere && entity?.runBase == 3)
        #expect(entity?.owner == Samples.ada.user && entity?.etag == nil)
    }

    @Test func `an event with the stored content changes nothing`() {
        var state = Samples.state(Samples.stored(#"{"a":1,"b":"x"}"#))
        let verdicts = planner.judge(Samples.event("a", version: 4, #"{ "b" : "\u0078", "a": 1 }"#), in: &state)
        #expect(verdicts.map(\.result) == [.applied] && verdicts.map(\.version) == [3])
        #expect(state.entities.writes.isEmpty)
        #expect(state.changedMarks == [Samples.contact])
    }

    @Test func `a deletion of an unknown entity leaves a tombstone that older events cannot undo`() {
        var state = IngestState()
        let verdicts = planner.judge(
            Samples.event("b", .delete, version: 2),
            Samples.event("a", version: 1),
            in: &state
        )
        #expect(verdicts.map(\.result) == [.applied, .stale])
        #expect(state.entities[Samples.contact]?.isDeleted == true)
    }

    @Test func `a patch requires an existing document`() {
        var state = IngestState()
        let patch = Samples.event("a", .patch, version: 2)
        #expect(planner.judge(patch, in: &state)[0].problem?.errors.map(\.pointer) == ["/events/0/operation"])
        var gone = Samples.state(Samples.stored(nil))
        #expect(planner.judge(patch, in: &gone)[0].result == .refused)
        #expect(planner.judge(Samples.event("a", version: 3), in: &gone)[0].result == .applied)
        var closed = Samples.stored()
        closed.isUnreadable = true
        var state2 = Samples.state(closed)
        #expect(planner.judge(patch, in: &state2)[0].result == .refused)
    }

    // MARK: - Once, and in order

    @Test func `an event is applied once`() {
        var state = IngestState()
        let event = Samples.event("a", version: 1)
        let plan = planner.plan(
            Samples.batch([event, event, Samples.event("old", version: 2)]),
            seen: ["old": .echo],
            &state
        )
        #expect(plan.verdicts.map(\.result) == [.applied, .duplicate, .duplicate])
        #expect(plan.verdicts.map(\.original) == [nil, .applied, .echo])
        #expect(plan.remembered.map(\.event.event.id) == ["a"])
    }

    @Test func `a refused event may be sent again`() {
        var state = IngestState()
        let plan = planner.plan(Samples.batch([Samples.event("a", .patch, version: 1)]), seen: [:], &state)
        #expect(plan.verdicts.map(\.result) == [.refused] && plan.remembered.isEmpty)
    }

    @Test func `versions decide, then times; an equal time is not older`() {
        let (early, late) = (Samples.now.adding(seconds: -60), Samples.now.adding(seconds: -30))
        let known = SourceMark(version: 5, occurredAt: late)
        #expect(SourceMark(version: 5, occurredAt: Samples.now).isKnown(by: known))
        #expect(!SourceMark(version: 6, occurredAt: early).isKnown(by: known))
        #expect(SourceMark(occurredAt: early).isKnown(by: known))
        #expect(!SourceMark(occurredAt: late).isKnown(by: known))
        #expect(!SourceMark(version: 1).isKnown(by: SourceMark(occurredAt: late)))
        #expect(!SourceMark(version: 1).isKnown(by: nil))
        #expect(SourceMark(version: 6).merged(with: known) == SourceMark(version: 6, occurredAt: late))
    }

    @Test func `times are compared to the last digit`() {
        func mark(_ text: String) throws -> SourceMark {
            SourceMark(
                occurredAt: Timestamp(rfc3339: text),
                fraction: SourceMark.fraction(ofRFC3339: text)
            )
        }
        let texts = [
            "2026-11-20T07:00:00.123456Z", "2026-11-20T07:00:00.1234560001Z", "2026-11-20T07:00:00.123456788Z",
            "2026-11-20T08:00:00.123456789+01:00", "2026-11-20T07:00:00.123456789000000000000001Z",
            "2026-11-20T07:00:00.123457Z",
        ]
        do {
            let marks = try texts.map(mark)
            for (index, early) in marks.enumerated() {
                #expect(!early.isKnown(by: early))
                for late in marks[(index + 1)...] {
                    #expect(early.isKnown(by: late) && !late.isKnown(by: early))
                    #expect(early.merged(with: late) == late && late.merged(with: early) == late)
                }
            }
        } catch {
            Issue.record(error)
        }
    }

    @Test func `versions restart after a row is inserted again`() {
        var state = Samples.state(Samples.stored(nil), mark: SourceMark(version: 7, occurredAt: Samples.now))
        var event = Samples.event("a", version: 1, at: Samples.now)
        #expect(planner.judge(event, in: &state).map(\.result) == [.stale])
        event.lineage = .restartsIfDeleted
        #expect(planner.judge(event, in: &state).map(\.result) == [.applied])
        #expect(state.marks[Samples.contact]?.version == 1)
        // for an existing entity, versions decide
        event = Samples.event("b", version: 1, at: Samples.now)
        event.lineage = .restartsIfDeleted
        #expect(planner.judge(event, in: &state).map(\.result) == [.stale])
        event = Samples.event("c", version: 0, at: Samples.now, #"{"name":"other"}"#)
        event.lineage = .restarts
        #expect(planner.judge(event, in: &state).map(\.result) == [.applied])
        #expect(state.marks[Samples.contact]?.version == 0)
    }

    // MARK: - Owners

    @Test func `a private entity belongs to the event's owner`() {
        let private_ = Samples.planner(visibility: .user)
        let (kari, ola) = (UUID(), UUID())
        var state = IngestState()
        #expect(
            private_.judge(Samples.event("a", version: 1), in: &state)[0].problem?.errors[0].pointer
                == "/events/0/owner"
        )
        #expect(private_.judge(Samples.event("b", version: 1, owner: kari), in: &state)[0].result == .applied)
        #expect(state.entities[Samples.contact]?.owner == kari)
        #expect(private_.judge(Samples.event("c", version: 2, owner: ola), in: &state)[0].result == .refused)
        #expect(private_.judge(Samples.event("d", .delete, version: 3), in: &state)[0].result == .applied)
    }

    @Test func `events of a joined owner go to the remaining user, and wait while the join runs`() {
        let (before, after) = (UUID(), UUID())
        var state = IngestState()
        let event = Samples.event("a", version: 1, owner: before)
        let joined = Samples.planner(visibility: .user) { _ in .user(after) }
        #expect(joined.judge(event, in: &state)[0].result == .applied)
        #expect(state.entities[Samples.contact]?.owner == after)
        var other = IngestState()
        #expect(Samples.planner(visibility: .user) { _ in .joining }.judge(event, in: &other)[0].result == .parked)
    }

    @Test func `refuses writes for an erased user, and applies deletions`() {
        let owner = UUID()
        for visibility in [Visibility.user, .organization] {
            var state = IngestState()
            let planner = Samples.planner(visibility: visibility) { _ in .erased }
            let refused = planner.judge(Samples.event("a", version: 1, owner: owner), in: &state)[0]
            #expect(refused.result == .refused && refused.problem?.code == .userErased)
            #expect(refused.problem?.errors.map(\.pointer) == ["/events/0/owner"])
            #expect(state.entities[Samples.contact] == nil)
            let gone = planner.judge(Samples.event("b", .delete, version: 2, owner: owner), in: &state)[0]
            #expect(gone.result == .applied && state.entities[Samples.contact]?.owner == Writer.elsewhere.user)
        }
    }

    // MARK: - Types

    @Test func `an unknown type is created at its first use, or refused`() {
        var state = IngestState()
        func plan(_ policy: EntityTypePolicy) -> IngestPlan {
            let context = IngestPlanner.Context(
                organization: Samples.tenant { $0.entityTypes = policy },
                types: [:],
                now: Samples.now
            )
            return IngestPlanner(context).plan(Samples.batch([Samples.event("a", version: 1)]), seen: [:], &state)
        }
        #expect(plan(.registered).verdicts[0].problem?.errors[0].rule == Rule.entityType)
        let open = plan(.open)
        #expect(open.verdicts[0].result == .applied && open.typesToRegister.map(\.name) == ["contact"])
    }
}
