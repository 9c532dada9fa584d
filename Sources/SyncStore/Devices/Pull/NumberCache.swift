import Foundation
import JSONText
import Postgres
import SyncModel
import Synchronization

/// Numbers that devices have of entities, kept in memory for devices that pull page after page: a look-up in the database
/// costs microseconds for each id, a page of the feed names thousands, and a number that a device has never changes.
///
/// Nothing rests on what is kept: an id that is not here is looked up. Numbers go with the tombstones of their entities,
/// which raises the feed's horizon; so what was kept under another horizon or epoch is dropped, and anything after some
/// minutes.
final class NumberCache: Sendable {
    /// Ids that are kept of all devices, some fifty bytes each; beyond it the devices that pulled longest ago go.
    static let limit = 500_000
    /// Ids that are kept of one device.
    static let deviceLimit = 200_000
    /// How long ids of a device are kept, in seconds.
    static let lifetime: Double = 300

    /// What a page of the feed says of the time that it is of.
    struct Stamp: Sendable, Hashable {
        let epoch: Int64
        let horizon: Int64
    }

    private struct Kept {
        let stamp: Stamp
        let since: Timestamp
        let numbers: DeviceNumbers
        var lastUse: UInt64
    }

    private struct State {
        var devices: [DeviceKey: Kept] = [:]
        var uses: UInt64 = 0
        var trims: UInt64 = 0
    }

    private let now: TimeSource
    private let state = Mutex(State())

    init(now: @escaping TimeSource) {
        self.now = now
    }

    /// What is known of a device; nothing, of one that has not pulled for a while.
    func numbers(of device: DeviceKey, at stamp: Stamp) -> DeviceNumbers {
        let moment = now()
        return state.withLock { state in
            state.uses += 1
            let isFresh =
                state.devices[device].map { kept in
                    kept.stamp == stamp && kept.since <= moment && moment < kept.since.adding(seconds: Self.lifetime)
                } ?? false
            if !isFresh {
                state.devices[device] = Kept(stamp: stamp, since: moment, numbers: DeviceNumbers(), lastUse: 0)
            }
            state.devices[device]?.lastUse = state.uses
            return state.devices[device]?.numbers ?? DeviceNumbers()
        }
    }

    /// Lets devices go until few enough ids are kept. To be called after ids were added.
    func trim() {
        state.withLock { state in
            // adding them up is not for every pull
            state.trims += 1
            guard state.trims % 64 == 1 else { return }
            var count = state.devices.values.reduce(0) { $0 + $1.numbers.count + DeviceNumbers.overhead }
            guard count > Self.limit else { return }
            for (device, kept) in state.devices.sorted(by: { $0.value.lastUse < $1.value.lastUse }) {
                state.devices[device] = nil
                count -= kept.numbers.count + DeviceNumbers.overhead
                if count <= Self.limit / 2 { return }
            }
        }
    }
}

/// What is known of one device's numbers.
final class DeviceNumbers: Sendable {
    /// What a device costs beside its ids, in ids.
    static let overhead = 20

    /// Numbers of entities of one type. Most ids are UUIDs, and are told apart without their text.
    struct OfType {
        private var byUUID: [UUID: Int64] = [:]
        private var byText: [String: Int64] = [:]

        var count: Int { byUUID.count + byText.count }

        subscript(value: JSONValue) -> Int64? {
            if let uuid = value.uuid { return byUUID[uuid] }
            return ServerID(json: value).flatMap { byText[$0.text] }
        }

        subscript(id: String) -> Int64? {
            if let uuid = UUID(parsing: id) { return byUUID[uuid] }
            return byText[id]
        }

        mutating func note(_ number: Int64, of id: String) {
            if let uuid = UUID(parsing: id) { byUUID[uuid] = number } else { byText[id] = number }
        }
    }

    private struct State {
        var types: [String: OfType] = [:]
        var count = 0
        /// Whether all were read that there were.
        var isLoaded = false
    }

    private let state = Mutex(State())

    var count: Int { state.withLock { $0.count } }

    /// Lends what is known for the time of a call.
    func look<Value, Failure: Error>(_ body: ([String: OfType]) throws(Failure) -> sending Value) throws(Failure)
        -> sending Value
    {
        try state.withLock { state throws(Failure) in try body(state.types) }
    }

    /// Notes numbers, as long as there is room.
    func note(_ numbers: some Sequence<(type: String, id: String, number: Int64)>, isAll: Bool = false) {
        state.withLock { state in
            for (type, id, number) in numbers where state.count < NumberCache.deviceLimit {
                let before = state.types[type]?.count ?? 0
                state.types[type, default: OfType()].note(number, of: id)
                state.count += (state.types[type]?.count ?? 0) - before
            }
            if isAll { state.isLoaded = true }
        }
    }

    /// Whether all of the device's numbers are worth to be read at once: it pulls page after page, and much is not known.
    func isWorthLoading(missing: Int) -> Bool {
        state.withLock { !$0.isLoaded && $0.count > 0 && missing >= 256 }
    }
}
