import Foundation
import Testing

@testable import SyncModel

/// The work of a batch: patches of one entity are applied in memory, and work beyond the budget is postponed.
@Suite struct IngestWorkTests {
    private typealias Samples = IngestSamples

    private let planner = Samples.planner()

    private func large(_ size: Int) -> EntityState {
        Samples.stored(#"{"name":"Kari","text":"\#(String(repeating: "x", count: size))"}"#)
    }

    @Test func `many patches of a large document are applied one at a time`() {
        var state = Samples.state(large(100_000))
        let events = (0..<200).map {
            Samples.event("\($0)", .patch, version: Int64(10 + $0), #"{"n":\#($0 / 2),"sub":{"m\#($0 % 5)":1}}"#)
        }
        let plan = planner.plan(Samples.batch(events), seen: [:], &state)
        #expect(plan.verdicts.allSatisfy { $0.result == .applied })
        // every second patch after the fifth has the stored content, and creates no version
        #expect(plan.verdicts.last?.version == state.entities[Samples.contact]?.version)
        let text = state.entities[Samples.contact]?.text ?? ""
        #expect(text.hasSuffix(#","n":99,"sub":{"m0":1,"m1":1,"m2":1,"m3":1,"m4":1}}"#), "\(text.suffix(100))")
        #expect(state.work < 250_000)
        #expect(state.entities.writes.count == 1)
    }

    @Test func `one batch of patches has the same result as separate batches`() {
        let patches = [#"{"a":1}"#, #"{"a":1.0}"#, #"{"b":{"c":2}}"#, #"{"b":{"c":null}}"#, #"{"a":null,"b":[]}"#]
        let events = patches.enumerated().map { Samples.event("\($0)", .patch, version: Int64(10 + $0), $1) }
        var (together, apart) = (Samples.state(large(10_000)), Samples.state(large(10_000)))
        let one = planner.plan(Samples.batch(events), seen: [:], &together).verdicts
        let other = events.flatMap { planner.judge($0, in: &apart) }
        #expect(one == other)
        let states = [together, apart].map { $0.entities[Samples.contact] }
        #expect(states[0]?.text == states[1]?.text)
        #expect(states[0]?.version == states[1]?.version)
    }

    @Test func `an upsert between patches is the base of the next`() {
        var state = Samples.state(large(10_000))
        let verdicts = planner.plan(
            Samples.batch([
                Samples.event("a", .patch, version: 10, #"{"a":1}"#),
                Samples.event("b", .patch, version: 11, #"{"a":2}"#),
                Samples.event("c", version: 12, #"{"whole":true}"#),
                Samples.event("d", .patch, version: 13, #"{"d":4}"#), Samples.event("e", .delete, version: 14),
                Samples.event("f", .patch, version: 15, #"{"f":6}"#),
            ]),
            seen: [:],
            &state
        ).verdicts
        #expect(verdicts.map(\.result) == [.applied, .applied, .applied, .applied, .applied, .refused])
        #expect(verdicts.map(\.version) == [4, 5, 6, 7, 8, nil])
    }

    @Test func `refuses a patch beyond the largest document, and applies the others`() {
        var state = Samples.state(large(1_048_400))
        let text = String(repeating: "y", count: 300)
        let events = [#"{"a":1}"#, #"{"b":2}"#, #"{"c":"\#(text)"}"#, #"{"d":4}"#].enumerated().map {
            Samples.event("\($0)", .patch, version: Int64(10 + $0), $1)
        }
        let verdicts = planner.plan(Samples.batch(events), seen: [:], &state).verdicts
        #expect(verdicts.map(\.result) == [.applied, .applied, .refused, .applied])
        #expect(verdicts[2].problem?.errors.map(\.pointer) == ["/events/2/document"])
        #expect(state.entities[Samples.contact]?.text?.hasSuffix(#","a":1,"b":2,"d":4}"#) == true)
    }

    @Test func `a batch ends at its budget, and the next part resumes there`() {
        var state = IngestState()
        let events = (0..<10).map { Samples.event("\($0)", .patch, of: ServerID(Int64($0)), version: 10, #"{"a":1}"#) }
        for event in events { state.entities.load(event.key, large(10_000)) }
        let first = planner.plan(Samples.batch(events), seen: [:], budget: 35_000, &state)
        #expect(first.verdicts.count == 3)
        let rest = Samples.batch(events).part(3..<10)
        let second = planner.plan(rest, seen: [:], budget: 1_000, &state)
        #expect(second.verdicts.count == 1, "one event is evaluated at any cost")
        #expect(state.entities.writes.count == 4)
    }

    @Test func `a batch ends before an event whose document was not read`() {
        var state = Samples.state(large(1_000))
        state.unread = [Samples.contact]
        let other = Samples.event("a", of: ServerID(8), version: 1)
        let plan = planner.plan(
            Samples.batch([other, Samples.event("b", .patch, version: 9)]),
            seen: [:],
            &state
        )
        #expect(plan.verdicts.map(\.eventID) == ["a"])
    }

    @Test func `events applied before cost nothing`() {
        var state = Samples.state(large(1_000))
        state.unread = [Samples.contact]
        let plan = planner.plan(
            Samples.batch([Samples.event("b", .patch, version: 9)]),
            seen: ["b": .applied],
            budget: 0,
            &state
        )
        #expect(plan.verdicts.map(\.result) == [.duplicate])
    }

    @Test func `pointers of a partial batch refer to the whole batch`() {
        var state = IngestState()
        let batch = Samples.batch([
            Samples.event("a", version: 1), Samples.event("b", .patch, of: ServerID(9), version: 1),
        ])
        let verdicts = planner.plan(batch.part(1..<2), seen: [:], &state).verdicts
        #expect(verdicts[0].problem?.errors.map(\.pointer) == ["/events/1/operation"])
    }

    /// Otherwise each of many new entities could store a copy of one large document.
    @Test func `a document copied to new entities counts for each`() {
        var state = Samples.state(large(10_000))
        let events = (0..<5).map { number in
            var event = Samples.event("\(number)", .patch, of: ServerID(Int64(100 + number)), version: 1, #"{"a":1}"#)
            event.origin = ServerID(7)
            return event
        }
        #expect(planner.plan(Samples.batch(events), seen: [:], budget: 25_000, &state).verdicts.count == 2)
    }
}
