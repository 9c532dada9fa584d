import SyncModel
import Synchronization

/// Remembers recent devices' watermarks, so that new keys need no look-up.
///
/// Only a hint: if the locked row has another watermark, the group is read again with every key looked up, and the
/// unique index rejects a key that is known after all.
final class WatermarkHints: Sendable {
    /// Devices in memory at most (about 6 MB); beyond it the memory starts over.
    static let capacity = 50_000

    private let watermarks = Mutex([DeviceKey: Int64]())

    subscript(device: DeviceKey) -> Int64? {
        watermarks.withLock { $0[device] }
    }

    func record(_ watermark: Int64, of device: DeviceKey) {
        watermarks.withLock { watermarks in
            if watermarks.count >= Self.capacity { watermarks.removeAll(keepingCapacity: true) }
            watermarks[device] = watermark
        }
    }
}
