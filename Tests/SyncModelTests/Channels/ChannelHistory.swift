import Foundation
import TestSupport

@testable import SyncModel

/// One random history: a world that changes, and devices that pull.
struct ChannelHistory {
    private struct Device {
        let user: Int
        let requested: Set<ChannelID>?
        var others = false
        var cursor: FeedCursor?
        /// The version of each entity on the device.
        var contents: [Int: Int] = [:]
    }

    private var random: SeededRandom
    private var world = ChannelWorld()
    private var backup = ChannelWorld()
    private var devices: [Device] = []
    private var isRestored = false
    /// The gateway's first error.
    private(set) var failure: String?

    init(_ random: SeededRandom) {
        self.random = random
        for user in 0..<ChannelWorld.users {
            devices.append(Device(user: user, requested: nil))
            devices.append(Device(user: user, requested: nil))
            devices.append(Device(user: user, requested: Set(ChannelWorld.shared.prefix(2))))
            devices.append(Device(user: user, requested: Set(ChannelWorld.shared.suffix(2)), others: true))
        }
    }

    mutating func step() {
        switch random.next() % 100 {
        case 0..<38: change()
        case 38..<84: pull(Int.random(in: devices.indices, using: &random), isLost: random.chance(15))
        case 84..<97: catchUp(Int.random(in: devices.indices, using: &random))
        case 97: world.prune(upTo: Int64.random(in: 0...world.end, using: &random))
        case 98: if random.oneIn(4) { backup = world }
        default: if random.oneIn(6) { restore() }
        }
    }

    /// A transaction: one change, or several at once.
    private mutating func change() {
        var random = random
        world.transact { world in Self.change(&world, &random) }
        self.random = random
    }

    private static func change(_ world: inout ChannelWorld, _ random: inout SeededRandom) {
        for _ in 0...(random.oneIn(4) ? 2 : 0) {
            let id = Int.random(in: 0..<10, using: &random)
            let user = Int.random(in: 0..<ChannelWorld.users, using: &random)
            let channel = ChannelWorld.shared.randomElement(using: &random) ?? .everyone
            switch random.next() % 40 {
            case 0..<14: world.write(id, in: channels(&random))
            case 14..<17: world.write(id, in: nil, owner: random.oneIn(2) ? world.owners[user] : nil)
            case 17..<20: world.delete(id)
            case 20..<29: world.grant(channel, to: world.owners[user], source: Int(random.next() % 2))
            case 29..<38: world.revoke(channel, from: world.owners[user], source: Int(random.next() % 2))
            case 38:
                // an entity that is written and grants at the same position
                world.write(id, in: channels(&random))
                world.grant(channel, to: world.owners[user], source: 10 + id, raises: false)
            default:
                if random.oneIn(10) { world.merge(user, into: Int.random(in: 0..<ChannelWorld.users, using: &random)) }
            }
        }
    }

    private static func channels(_ random: inout SeededRandom) -> Set<ChannelID> {
        var channels: Set<ChannelID> = []
        for _ in 0..<Int(random.next() % 4) {
            let all = random.oneIn(5) ? ChannelWorld.own : ChannelWorld.shared
            if let channel = all.randomElement(using: &random) { channels.insert(channel) }
        }
        return channels
    }

    private mutating func restore() {
        world = backup.restored(after: world)
    }

    private mutating func catchUp(_ index: Int) {
        for _ in 0..<10_000 where failure == nil {
            if pull(index, isLost: false) { return }
        }
        failure = failure ?? "a device never reached the end of the feed"
    }

    /// - Returns: whether the device is at the end of the feed.
    @discardableResult
    private mutating func pull(_ index: Int, isLost: Bool) -> Bool {
        var device = devices[index]
        let user = world.owners[device.user]
        defer { devices[index] = device }
        let limit = Int.random(in: 1...4, using: &random)
        let room = Int.random(in: 1...3, using: &random)
        let page = world.page(
            for: user,
            after: device.cursor,
            only: device.requested,
            others: device.others,
            limit: limit,
            room: room
        )
        guard let page else {
            (device.cursor, device.contents) = (nil, [:])
            return false
        }
        for (entity, version) in page.changes {
            guard let version else {
                if !world.couldSee[user].contains(entity) {
                    failure = "user \(user) got `removed` of entity \(entity), which they never could see"
                }
                if !isLost { device.contents[entity] = nil }
                continue
            }
            let state = world.entities[entity]
            if state.map({ world.sees(user, $0, only: device.requested, others: device.others) }) != true {
                failure = "user \(user) got entity \(entity), which they do not see"
            }
            if !isLost { device.contents[entity] = version < 0 ? nil : version }
        }
        if random.oneIn(8), FeedCursor(page.next.text) != page.next { failure = "cursor \(page.next.text)" }
        if isLost { return false }
        device.cursor = page.next
        if page.isUpToDate {
            let visible = world.visible(to: user, only: device.requested, others: device.others)
            if device.contents != visible {
                failure =
                    "user \(user) has \(device.contents) and sees \(visible), requested \(device.requested as Any)"
            }
        }
        return page.isUpToDate
    }
}
