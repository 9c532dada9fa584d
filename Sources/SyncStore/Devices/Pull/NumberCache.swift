import Postgres
import SyncModel
import Synchronization

/// Caches the numbers of devices that pull page after page.
///
/// A database look-up costs microseconds for each id, a page of the feed names thousands, and a device's number never
/// changes.
///
/// Correctness does not depend on the cache: an id that is missing is looked up. Numbers are deleted with the
/// tombstones of their entities, which raises the feed's horizon; so entries of another horizon or epoch are dropped,
/// and all entries after some minutes.
final class NumberCache: Sendable {
    /// Ids cached for all devices, some fifty bytes each.
    ///
    /// Beyond it the devices that pulled longest ago are dropped.
    static let limit = 500_000
    /// Ids cached for one device.
    static let deviceLimit = 200_000
    /// How long the ids of a device are cached, in seconds.
    static let lifetime: Double = 300

    /// The feed state that a page was read in.
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

    /// The known numbers of a device; empty for one that has not pulled for a while.
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

    /// Drops devices until few enough ids are cached. To be called after ids were added.
    func trim() {
        state.withLock { state in
            // summing up on every pull would cost too much
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
