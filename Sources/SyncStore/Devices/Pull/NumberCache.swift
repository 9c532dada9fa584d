import FoundationEssentials
import JSONText
import Postgres
import SyncModel
import Synchronization

/// Caches the local ids of devices that pull many pages in sequence.
///
/// Without the cache, a page of thousands of ids would cost microseconds of database time for each id. An
/// entity's local id on a device never changes.
///
/// Correctness does not depend on the cache, because an id that is not cached is looked up. Retention deletes local ids
/// together with the tombstones of their entities, which raises the feed's horizon. Therefore entries of another
/// horizon or epoch are dropped. All entries are dropped after some minutes.
final class NumberCache: Sendable {
    /// The maximum number of cached ids of all devices. Each id needs about fifty bytes.
    ///
    /// If this limit is exceeded, the devices that have not pulled for the longest time are dropped.
    static let limit = 500_000
    /// The maximum number of cached ids of one device.
    static let deviceLimit = 200_000
    /// The time for which a device's local ids are cached, in seconds.
    static let lifetime: Double = 300

    /// The epoch and the horizon of the feed when a page was read.
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

    /// Returns the known local ids of a device; empty if the device has not pulled recently.
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

    /// Drops devices until the number of cached ids is within the limit. Call this method after adding ids.
    func trim() {
        state.withLock { state in
            // not on every pull, because counting all ids would cost too much
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

/// The known local ids of one device.
final class DeviceNumbers: Sendable {
    /// The memory that a device needs in addition to its ids, expressed as a number of ids.
    static let overhead = 20

    /// The local ids of the entities of one type.
    ///
    /// Most ids are UUIDs, and are stored without their text.
    struct OfType {
        private var byUUID: [UUID: Int64] = [:]
        private var byText: [ByteExactString: Int64] = [:]

        var count: Int { byUUID.count + byText.count }

        subscript(value: JSONValue) -> Int64? {
            if let uuid = value.uuid { return byUUID[uuid] }
            return ServerID(json: value).flatMap { byText[$0.text] }
        }

        subscript(id: String) -> Int64? {
            if let uuid = UUID(parsing: id) { return byUUID[uuid] }
            return byText[id]
        }

        mutating func record(_ number: Int64, of id: String) {
            if let uuid = UUID(parsing: id) { byUUID[uuid] = number } else { byText[id] = number }
        }
    }

    private struct State {
        var types: [ByteExactString: OfType] = [:]
        var count = 0
        /// Whether all of the device's local ids were read.
        var isLoaded = false
    }

    private let state = Mutex(State())

    var count: Int { state.withLock { $0.count } }

    /// Calls a closure with the known local ids.
    func find<Value, Failure: Error>(_ body: ([ByteExactString: OfType]) throws(Failure) -> sending Value)
        throws(Failure)
        -> sending Value
    {
        try state.withLock { state throws(Failure) in try body(state.types) }
    }

    /// Adds local ids, up to the limit of a device.
    func record(_ numbers: some Sequence<(type: String, id: String, number: Int64)>, isAll: Bool = false) {
        state.withLock { state in
            for (type, id, number) in numbers where state.count < NumberCache.deviceLimit {
                let before = state.types[type]?.count ?? 0
                state.types[type, default: OfType()].record(number, of: id)
                state.count += (state.types[type]?.count ?? 0) - before
            }
            if isAll { state.isLoaded = true }
        }
    }

    /// Whether it is cheaper to read all of the device's local ids in one query.
    ///
    /// One query is cheaper if the device pulls pages in sequence and many local ids are unknown.
    func isWorthLoading(missing: Int) -> Bool {
        state.withLock { !$0.isLoaded && $0.count > 0 && missing >= 256 }
    }
}
