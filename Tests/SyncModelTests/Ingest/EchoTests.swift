import Foundation
import SyncModel
import Testing

/// Events caused by the gateway's own requests, and concurrent events of others.
@Suite struct EchoTests {
    private typealias Samples = IngestSamples

    private let planner = Samples.planner()

    @Test func `a request is recognized by its key every time`() {
        let request = Samples.request()
        var state = Samples.state(Samples.stored(), [request])
        let verdicts = planner.judge(
            Samples.event("a", version: 4, #"{"name":"Kari","server":"says more"}"#, key: request.key),
            Samples.event("b", version: 5, key: request.key),
            in: &state
        )
        #expect(verdicts.map(\.result) == [.echo, .echo] && verdicts.map(\.version) == [3, 3])
        #expect(state.entities.writes.isEmpty)
        #expect(state.marks[Samples.contact]?.version == 5)
    }

    @Test func `a key of another entity's request is no echo`() {
        let request = Samples.request(of: "8")
        var state = Samples.state(Samples.stored(), [request])
        let event = Samples.event("a", version: 4, #"{"name":"Kari","visits":1}"#, key: request.key)
        #expect(planner.judge(event, in: &state)[0].result == .applied)
    }

    @Test func `the same content is an echo once`() {
        var state = Samples.state(
            Samples.stored(#"{"name":"second"}"#, version: 4),
            [
                Samples.request(sent: -9, answered: -8, left: #"{"name":"first"}"#),
                Samples.request(left: #"{"name":"second"}"#),
            ]
        )
        let first = #"{ "name": "first" }"#
        let verdicts = planner.judge(
            Samples.event("a", version: 7, first),
            Samples.event("b", version: 8, #"{"name":"second"}"#),
            // another user changes it back
            Samples.event("c", version: 9, first),
            in: &state
        )
        #expect(verdicts.map(\.result) == [.echo, .echo, .applied])
        #expect(state.entities[Samples.contact]?.text == first)
        #expect(state.usedRequests.count == 2)
    }

    @Test func `the version that the API returned is an echo once, with any document`() {
        let request = Samples.request(version: 4)
        var state = Samples.state(Samples.stored(), [request])
        let other = #"{"name":"Kari","extra":true}"#
        #expect(planner.judge(Samples.event("a", version: 4, other), in: &state)[0].result == .echo)
        #expect(state.usedRequests == [request.key])
        #expect(planner.judge(Samples.event("b", version: 5, other), in: &state)[0].result == .applied)
    }

    @Test func `a deletion and a patch are echoes too`() {
        let deletion = SentRecord(
            key: UUID(),
            entityType: "contact",
            entityID: "7",
            sentAt: Samples.now,
            answeredAt: Samples.now,
            content: .deletion
        )
        var gone = Samples.state(Samples.stored(nil), [deletion])
        #expect(planner.judge(Samples.event("a", .delete, version: 4), in: &gone)[0].result == .echo)
        var patched = Samples.state(
            Samples.stored(#"{"name":"Kari","city":"Oslo"}"#),
            [
                Samples.request(left: #"{"city":"Oslo","name":"Kari"}"#)
            ]
        )
        let patch = Samples.event("a", .patch, version: 4, #"{"city":"Oslo"}"#)
        #expect(planner.judge(patch, in: &patched)[0].result == .echo)
    }

    @Test func `content is compared for a day, a key as long as it is stored`() {
        let key = UUID()
        let old = Samples.request(key, sent: -90_000, answered: -90_000, left: #"{"name":"old"}"#)
        var state = Samples.state(Samples.stored(#"{"name":"new"}"#), [old])
        #expect(planner.judge(Samples.event("a", version: 4, #"{"name":"old"}"#), in: &state)[0].result == .applied)
        var other = Samples.state(Samples.stored(#"{"name":"new"}"#), [old])
        let event = Samples.event("a", version: 4, #"{"name":"old"}"#, key: key)
        #expect(planner.judge(event, in: &other)[0].result == .echo)
    }

    @Test func `an echo restores the request's content after a late event about an earlier edit`() {
        let request = Samples.request(left: #"{"name":"Kari","phone":"1"}"#)
        var state = Samples.state(
            Samples.stored(#"{"name":"Kari","phone":"1"}"#),
            mark: SourceMark(version: 3),
            [request]
        )
        let verdicts = planner.judge(
            // made before the device's edit of the member phone, reported after it
            Samples.event("a", version: 4, #"{"name":"Kari Nordmann"}"#),
            Samples.event("b", version: 5, #"{"name":"Kari Nordmann","phone":"1"}"#, key: request.key),
            in: &state
        )
        #expect(verdicts.map(\.result) == [.applied, .applied])
        #expect(state.entities[Samples.contact]?.text == #"{"name":"Kari Nordmann","phone":"1"}"#)
    }

    @Test func `an event about a request that never reached the feed is no echo`() {
        let request = Samples.request(left: nil)
        var state = Samples.state(nil, [request])
        #expect(planner.judge(Samples.event("a", version: 1, key: request.key), in: &state)[0].result == .applied)
    }

    @Test func `reads a version from an integer ETag`() {
        #expect(SentRecord.version(of: #""12""#) == 12)
        #expect(SentRecord.version(of: #"W/"12""#) == 12)
        #expect(SentRecord.version(of: "12") == 12)
        for other in [nil, "", #""""#, #""a1""#, #""-1""#, #""99999999999999999999""#] {
            #expect(SentRecord.version(of: other) == nil, "\(other ?? "nil")")
        }
    }

    // MARK: - Waiting

    @Test func `events after a parked event of the entity are parked too, in their order`() {
        var state = Samples.state(Samples.stored(), [Samples.request(UUID(), answered: nil)])
        let patches = (1...3).map { Samples.event("\($0)", .patch, version: Int64($0), #"{"n":\#($0)}"#) }
        let plan = planner.plan(Samples.batch(patches), seen: [:], &state)
        #expect(plan.verdicts.allSatisfy { $0.result == .parked })
        #expect(plan.remembered.map(\.event.place) == [1, 2, 3])
        // the outcome is stored, but the three are still parked
        var answered = Samples.state(Samples.stored())
        answered.lastPlaces[Samples.contact] = 3
        let next = planner.plan(Samples.batch([Samples.event("4", .patch, version: 4, "{}")]), seen: [:], &answered)
        #expect(next.verdicts[0].result == .parked && next.remembered[0].event.place == 4)
        let released = planner.plan(released: plan.remembered.map(\.event), &answered)
        #expect(released.verdicts.allSatisfy { $0.result == .applied })
        #expect(answered.entities[Samples.contact]?.text == #"{"name":"Kari","n":3}"#)
    }

    @Test func `content is compared by value, and numbers to the last digit`() {
        func hash(_ text: String) -> ContentHash? { ContentHash(of: Array(text.utf8)) }
        let one = hash(#"{"a":[1,"1.0",0.5],"b":-120}"#)
        for other in [
            #"{"b":-120.0,"a":[1.0,"1.0",5e-1]}"#, #"{"a":[1e0,"1.0",0.50],"b":-12E+1}"#,
            #"{"a":[10e-1,"1.0",0.05E1],"b":-1.2e2}"#,
        ] { #expect(hash(other) == one, "\(other)") }
        for other in [
            #"{"a":[1,"1",0.5],"b":-120}"#, #"{"a":[1,"1.0",0.5],"b":120}"#,
            #"{"a":[1,"1.0",0.5000000000001],"b":-120}"#,
        ] { #expect(hash(other) != one, "\(other)") }
        #expect(hash("[0,-0,0.0e5]") == hash("[0,0,0]"))
        #expect(hash("[9007199254740993]") != hash("[9007199254740992]"))
        #expect(hash("[1e400]") == hash("[10e399]") && hash("[1e400]") != hash("[1e401]"))
    }

    @Test func `an event waits for a request in flight, and is evaluated with its outcome`() {
        let key = UUID()
        let event = Samples.event("a", version: 4, #"{"name":"Kari","phone":"1"}"#, key: key)
        var flying = Samples.state(Samples.stored(), [Samples.request(key, answered: nil)])
        let foreign = Samples.event("b", version: 5, #"{"name":"Ola"}"#)
        let plan = planner.plan(Samples.batch([event, foreign]), seen: [:], &flying)
        #expect(plan.verdicts.map(\.result) == [.parked, .parked] && plan.verdicts.map(\.version) == [nil, nil])
        #expect(plan.remembered.map(\.result) == [.parked, .parked])

        let waiting = plan.remembered.map(\.event)
        var answered = Samples.state(
            Samples.stored(#"{"name":"Kari","phone":"1"}"#, version: 4),
            [Samples.request(key, left: #"{"name":"Kari","phone":"1"}"#)]
        )
        #expect(planner.plan(released: waiting, &answered).verdicts.map(\.result) == [.echo, .applied])
        // the request had no effect, so the event is no echo
        var refused = Samples.state(Samples.stored())
        #expect(planner.plan(released: waiting, &refused).verdicts.map(\.result) == [.applied, .applied])
    }

    @Test func `an event older than the stored version does not wait`() {
        var state = Samples.state(Samples.stored(), mark: SourceMark(version: 9), [Samples.request(answered: nil)])
        #expect(planner.judge(Samples.event("a", version: 8), in: &state)[0].result == .stale)
    }

    @Test func `an event about a new entity waits for earlier creates, and not for later ones`() {
        var state = IngestState()
        state.firstCreates["contact"] = Samples.now.adding(seconds: -1)
        var other = state
        #expect(planner.judge(Samples.event("a", version: 1), in: &state)[0].result == .parked)
        #expect(planner.judge(Samples.event("b", .delete, version: 1), in: &other)[0].result == .applied)
        // an event after a parked one is parked, too
        #expect(planner.judge(Samples.event("c", .delete, version: 2), in: &state)[0].result == .parked)
        var later = IngestState()
        later.firstCreates["contact"] = Samples.now.adding(seconds: 1)
        #expect(planner.judge(Samples.event("a", version: 1), in: &later)[0].result == .applied)
    }

    @Test func `an event with the key of a create in flight waits; other events about known entities do not`() {
        let key = UUID()
        var state = Samples.state(Samples.stored(), [Samples.request(key, of: nil, answered: nil, left: nil)])
        var other = state
        #expect(planner.judge(Samples.event("a", version: 1, key: key), in: &state)[0].result == .parked)
        #expect(planner.judge(Samples.event("b", version: 1, #"{"x":1}"#), in: &other)[0].result == .applied)
    }

    @Test func `no event waits for longer than two minutes`() {
        let late = ReceivedEvent(
            Samples.event("a", version: 4, #"{"name":"Ola"}"#),
            at: Samples.now.adding(seconds: -IngestPlanner.timeoutSeconds)
        )
        var state = Samples.state(Samples.stored(), [Samples.request(answered: nil, left: nil)])
        #expect(planner.plan(released: [late], &state).verdicts.map(\.result) == [.applied])
        // an event does not wait for a request that was sent too long ago to be in flight
        var lost = Samples.state(
            Samples.stored(),
            [Samples.request(sent: -SentRecord.flightSeconds, answered: nil, left: nil)]
        )
        #expect(planner.judge(late.event, in: &lost)[0].result == .applied)
    }

    @Test func `limits the parked events`() {
        var state = Samples.state(Samples.stored(), [Samples.request(answered: nil)])
        state.parkedCount = IngestPlanner.parkedLimit - 1
        let plan = planner.plan(
            Samples.batch([Samples.event("a", version: 4), Samples.event("b", version: 5)]),
            seen: [:],
            &state
        )
        #expect(plan.verdicts.map(\.result) == [.parked, .refused])
        #expect(plan.verdicts[1].problem?.code == .overloaded)
    }
}
