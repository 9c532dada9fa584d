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
