import SyncModel
import SyncStore
import Testing

@testable import SyncHTTP

@Suite struct SubscriberStateTests {
    private let start = ContinuousClock.now
    private let cursor = EventCursor(epoch: 1, feed: 0, place: LanePlace(change: 0))

    private func state(end: Duration = .seconds(100)) -> SubscriberState {
        SubscriberState(cursor: cursor, now: start, end: start + end)
    }

    private func tick(_ state: inout SubscriberState, after: Duration) -> SubscriberState.TickAction {
        state.tick(now: start + after, keepAlive: .seconds(15), writeTimeout: .seconds(60))
    }

    @Test func `a subscriber is queued only once`() {
        var state = state()
        #expect(!state.record { $0.laneChanged() }, "the subscriber is already queued")
        let work = state.begin()
        #expect(work?.isFirst == true && work?.changes.lane == true)
        #expect(!state.record { $0.feedMoved(to: 3) }, "a worker is processing the subscriber")
        #expect(state.finish(left: nil, isLater: false) == true, "news arrived during the work")
        #expect(state.begin()?.changes.feed == 3)
        #expect(state.finish(left: nil, isLater: false) == false)
        #expect(state.record { $0.laneChanged() })
    }

    @Test func `a silent stream gets a keep-alive`() {
        var state = state()
        _ = state.begin()
        _ = state.finish(left: nil, isLater: false)
        #expect(tick(&state, after: .seconds(14)) == .nothing)
        #expect(tick(&state, after: .seconds(15)) == .work)
        let work = state.begin()
        #expect(work?.keepsAlive == true && work?.changes.isEmpty == true)
        state.wrote(nil, now: start + .seconds(15))
        #expect(state.finish(left: nil, isLater: false) == false)
        #expect(tick(&state, after: .seconds(29)) == .nothing)
        #expect(tick(&state, after: .seconds(30)) == .work)
    }

    @Test func `work that the database could not do is repeated at the next tick`() throws {
        var state = state()
        let begun = state.begin()
        let work = try #require(begun)
        #expect(state.finish(left: work, isLater: true) == false)
        #expect(tick(&state, after: .seconds(1)) == .work)
        #expect(state.begin()?.isFirst == true)
    }

    @Test func `a subscriber that does not read gets no work and is disconnected`() throws {
        var state = state()
        let begun = state.begin()
        let work = try #require(begun)
        #expect(state.writabilityChanged(false, now: start + .seconds(1)) == false)
        #expect(state.finish(left: work, isLater: false) == false)
        #expect(!state.record { $0.feedMoved(to: 9) })
        #expect(tick(&state, after: .seconds(60)) == .nothing)
        #expect(tick(&state, after: .seconds(61)) == .close(.slow))
        #expect(state.writabilityChanged(true, now: start + .seconds(62)) == true, "the remaining news is sent")
        #expect(state.begin()?.changes.feed == 9)
        #expect(tick(&state, after: .seconds(90)) == .nothing)
    }

    @Test func `a subscriber ends once and on time`() {
        var state = state(end: .seconds(10))
        #expect(tick(&state, after: .seconds(9)) == .nothing)
        #expect(tick(&state, after: .seconds(10)) == .close(.expired))
        #expect(state.close() == true)
        #expect(state.close() == false)
        #expect(state.begin() == nil)
        #expect(!state.record { $0.laneChanged() })
        #expect(tick(&state, after: .seconds(11)) == .nothing)
    }
}
