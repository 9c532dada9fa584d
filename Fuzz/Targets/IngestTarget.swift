import Foundation
import JSONText
import SyncModel

/// Batches of ingested events: a refusal contains a pointer, and an accepted event is applied once, however often it is
/// repeated.
enum IngestTarget {
    private static let now = Timestamp(microseconds: 1_795_000_000_000_000)

    static func run(_ bytes: [UInt8]) {
        do throws(Problem) {
            try check(IngestRequest(body: bytes, limits: IntakeLimits()))
        } catch {
            expect([400, 413].contains(error.code.status), "\(error)")
            places(error)
        }
    }

    private static func check(_ request: IngestRequest) throws(Problem) {
        let id = UUID(uuid: (0, 0, 0, 0, 0, 0, 0x70, 0, 0x80, 0, 0, 0, 0, 0, 0, 1))
        let organization = Organization(id: id, name: "Fuzz", status: .active, settings: OrganizationSettings())
        let planner = IngestPlanner(IngestPlanner.Context(organization: organization, types: [:], now: now))
        var state = IngestState()
        let plan = planner.plan(request, seen: [:], &state)
        expect(plan.verdicts.count == request.entries.count, "one result per event")
        var seen: [ByteExactString: IngestResult] = [:]
        for (entry, verdict) in zip(request.entries, plan.verdicts) {
            expect(entry.eventID == verdict.eventID, "another event's result")
            if case .failure(let problem) = entry.event {
                expect(verdict.result == .refused && problem.code == .validationFailed, "\(problem)")
            }
            if let problem = verdict.problem {
                expect(!problem.errors.isEmpty, "refused without a reason")
                places(problem)
            }
            expect((verdict.result == .refused) == (verdict.problem != nil), "\(verdict)")
            if verdict.result.isRemembered, let id = verdict.eventID {
                expect(seen.updateValue(verdict.result, forKey: ByteExactString(id)) == nil, "applied twice: \(id)")
            }
        }
        let writes = state.entities.writes
        let again = planner.plan(request, seen: seen, &state)
        for (first, second) in zip(plan.verdicts, again.verdicts) {
            expect(first.result == .refused || second.result == .duplicate, "\(first), then \(second)")
        }
        for write in writes {
            expect(state.entities[write.key]?.isDeleted == (state.entities[write.key]?.document == nil), "\(write.key)")
            expect(ContentHash(of: write.state) != nil, "content that cannot be compared: \(write.key)")
        }
    }

    private static func places(_ problem: Problem) {
        for detail in problem.errors {
            expect(JSONPointer.isValid(detail.pointer) || detail.pointer.hasSuffix("…"), "no pointer: \(detail)")
        }
    }
}
