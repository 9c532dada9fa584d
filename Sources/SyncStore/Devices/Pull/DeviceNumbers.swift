import Foundation
import JSONText
import Postgres
import SyncModel
import Synchronization

/// The known numbers of one device.
final class DeviceNumbers: Sendable {
    /// The memory of a device without its ids, counted in ids.
    static let overhead = 20

    /// Numbers of entities of one type.
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
        /// Whether all of the device's numbers were read.
        var isLoaded = false
    }

    private let state = Mutex(State())

    var count: Int { state.withLock { $0.count } }

    /// Gives access to the numbers during a call.
    func find<Value, Failure: Error>(_ body: ([ByteExactString: OfType]) throws(Failure) -> sending Value)
        throws(Failure)
        -> sending Value
    {
        try state.withLock { state throws(Failure) in try body(state.types) }
    }

    /// Adds numbers, as long as there is room.
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

    /// Whether reading all of the device's numbers at once pays.
    ///
    /// It does if the device pulls page after page, and many are unknown.
    func isWorthLoading(missing: Int) -> Bool {
        state.withLock { !$0.isLoaded && $0.count > 0 && missing >= 256 }
    }
}
