import Foundation
import Postgres
import StoreSupport
import SyncHTTP
import SyncModel
import Synchronization
import TestSupport
import Testing

@testable import AdministrationFeature
@testable import SyncStore

@Suite struct WakeUpTests {
    private final class Observer: ChangeObserver {
        private let state = Mutex((lane: 0, feed: [Int64]()))

        var lane: Int { state.withLock { $0.lane } }
        var feed: [Int64] { state.withLock { $0.feed } }
        func laneChanged() { state.withLock { $0.lane += 1 } }
        func feedMoved(to position: Int64) { state.withLock { $0.feed.append(position) } }
    }

    // MARK: - Hints between replicas

    @Test func `encoded hints decode to themselves`() {
        let sender = WakeName(feedOf: UUID())
        let names = (0..<HintMessage.maximumNames).map { _ in
            WakeName(LaneKey(organization: UUID(), user: UUID()))
        }
        #expect(Set(names).count == names.count)
        for message in [.presence, .due, .everything, .changed([]), .changed(names)] as [HintMessage] {
            let text = message.text(from: sender)
            #expect(text.utf8.count < 8_000, "a hint is within PostgreSQL's limit")
            let read = HintMessage.read(text)
            #expect(read?.sender == sender)
            #expect(read?.message == message)
        }
    }

    @Test(arguments: ["", "x", "00000000", "0000000!c", "00000000x", "00000000c1234", "00000000c1234567!", "é"])
    func `rejects malformed hints`(text: String) {
        #expect(HintMessage.read(text) == nil)
    }

    // MARK: - Watches

    @Test func `a lane's observers are notified only when the lane moves`() {
        var lanes = LaneWatches()
        let (first, second) = (Observer(), Observer())
        let lane = LaneKey(organization: UUID(), user: UUID())
        lanes.add(first, to: lane)
        lanes.add(second, to: lane)
        #expect(lanes.count == 1)
        #expect(lanes.record(7, of: lane).count == 2, "the gateway does not know the observers' positions")
        #expect(lanes.record(7, of: lane).count == 0)
        #expect(lanes.record(8, of: lane).count == 2)
        lanes.remove(first, from: lane)
        #expect(lanes.watches(of: lane).count == 1)
        #expect(lanes.watches(of: WakeName(lane)).count == 1)
        lanes.remove(second, from: lane)
        #expect(lanes.count == 0 && lanes.keys.isEmpty)
        #expect(lanes.record(9, of: lane).count == 0)
    }

    @Test func `a feed has one poll at a time, and changes during a poll cause another poll`() {
        var feeds = FeedWatches()
        let organization = UUID()
        #expect(feeds.changed(organization) == false, "no observer")
        let observer = Observer()
        let interest = FeedInterest(organization: organization, user: UUID())
        feeds.add(observer, interest, after: 5)
        #expect(feeds.organization(WakeName(feedOf: organization)) == organization)
        #expect(feeds.record(5, of: organization) == false, "the feed has not moved")
        #expect(feeds.changed(organization) == true)
        #expect(feeds.changed(organization) == false, "a poll is running already")
        #expect(feeds.next(organization)?.after == 5)
        #expect(feeds.changed(organization) == false)
        #expect(feeds.next(organization)?.watches == 1, "a second poll")
        #expect(feeds.next(organization) == nil)
        #expect(feeds.record(9, of: organization) == true)
        feeds.remove(observer, interest)
        #expect(feeds.next(organization) == nil)
        #expect(feeds.organizations.isEmpty)
    }

    // MARK: - Against a database

    @Test func `notifies only readers who may see a change`() async throws {
        let gateway = try await Gateway()
        let organization = try await gateway.organization()
        _ = try await gateway.store.administration.putEntityType(
            "diary",
            in: organization.id,
            EntityTypeUpdate(body: Array(#"{"visibility":"user"}"#.utf8))
        )
        let (ada, bob) = (Phone(gateway, organization), Phone(gateway, organization))
        let stranger = Phone(gateway, try await gateway.organization())
        let observers = (0..<4).map { _ in Observer() }
        let interests = [
            FeedInterest(organization: organization.id, user: ada.user),
            FeedInterest(organization: organization.id, user: bob.user),
            FeedInterest(organization: organization.id, user: bob.user, entityTypes: ["note", "diary"]),
            FeedInterest(organization: stranger.organization.id, user: ada.user),
        ]
        for (observer, interest) in zip(observers, interests) {
            gateway.store.notifier.add(observer, lane: nil, feed: (interest, 0))
        }
        try await ada.push([ada.create("diary")])
        try await Self.until { observers[0].feed.last == 1 }
        try await ada.push([ada.create("task")])
        try await Self.until { observers[0].feed.last == 2 && observers[1].feed.last == 2 }
        try await ada.push([ada.create("note")])
        try await Self.until { observers[2].feed.last == 3 }
        #expect(observers[1].feed.first == 2)
        #expect(observers[2].feed == [3])
        #expect(observers[3].feed.isEmpty)
        for (observer, interest) in zip(observers, interests) {
            gateway.store.notifier.remove(observer, lane: nil, feed: interest)
        }
        try await ada.push([ada.create("task")])
        #expect(observers[1].feed.last == 3, "a removed observer is not notified")
    }

    /// Polling finds changes without a hint.
    @Test func `notices other writers' changes without a hint`() async throws {
        let gateway = try await Gateway()
        let phone = Phone(gateway, try await gateway.organization())
        try await phone.push([phone.create()])
        let lane = LaneKey(organization: phone.organization.id, user: phone.user)
        let interest = FeedInterest(organization: phone.organization.id, user: phone.user)
        let observer = Observer()
        gateway.store.notifier.add(observer, lane: lane, feed: (interest, 1))
        let connection = try await gateway.database.connect()
        // the replica sends nothing, and a lost connection makes all watches poll
        try await connection.execute(
            script: """
                UPDATE lanes SET change_position = change_position + 1;
                UPDATE entities SET feed_position = 2; UPDATE feeds SET last_position = 2;
                SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                WHERE datname = current_database() AND query LIKE 'LISTEN%';
                """
        )
        try await Self.until { observer.lane > 0 && observer.feed.last == 2 }
        gateway.store.notifier.remove(observer, lane: lane, feed: interest)
        connection.close()
    }

    /// These replicas poll only once an hour, so they can only detect the changes by hints.
    @Test func `another replica's changes arrive by hints`() async throws {
        let first = try await Gateway(pollInterval: .seconds(3_600))
        let second = try await Gateway(replicaOf: first, pollInterval: .seconds(3_600))
        for notifier in [first.store.notifier, second.store.notifier] {
            try await Self.until { notifier.isReceivingHints && notifier.peers == 1 }
        }
        let phone = Phone(first, try await first.organization())
        let lane = LaneKey(organization: phone.organization.id, user: phone.user)
        let interest = FeedInterest(organization: phone.organization.id, user: phone.user)
        let observer = Observer()
        second.store.notifier.add(observer, lane: lane, feed: (interest, 0))
        for number in 1...3 {
            let before = observer.lane
            try await phone.push([phone.create()])
            try await Self.until { observer.lane > before && observer.feed.last == Int64(number) }
        }
        // a disconnected replica listens again
        let connection = try await first.database.connect()
        try await connection.execute(
            script: """
                SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                WHERE datname = current_database() AND query LIKE 'LISTEN%'
                """
        )
        connection.close()
        try await phone.push([phone.create()])
        try await Self.until { observer.feed.last == 4 }
        second.store.notifier.remove(observer, lane: lane, feed: interest)
    }

    @Test func `an operator's change notifies viewers at another replica`() async throws {
        let first = try await Gateway(pollInterval: .seconds(3_600))
        let second = try await Gateway(replicaOf: first, pollInterval: .seconds(3_600))
        let notifiers = [first.store.notifier, second.store.notifier]
        for notifier in notifiers { try await Self.until { notifier.isReceivingHints && notifier.peers == 1 } }
        for notifier in notifiers { notifier.operatorChanges.setCollecting(true) }
        let organization = UUID()
        first.store.notifier.changed(organization)
        #expect(first.store.notifier.operatorChanges.take().organizations == [organization])
        try await Self.until { second.store.notifier.operatorChanges.take().hasOthers }
    }

    private static func until(_ isSo: () -> Bool) async throws {
        try await waitUntil("the condition on the line above", every: .milliseconds(2)) { isSo() }
    }
}
