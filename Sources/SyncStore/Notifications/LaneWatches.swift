import SyncModel

/// The watches on each lane in this process.
struct LaneWatches {
    private struct Lane {
        let key: LaneKey
        var watches: [any ChangeObserver] = []
        /// The lane's change position at the last poll; nil before the first.
        var known: Int64?
    }

    private var lanes: [WakeName: [Lane]] = [:]

    private(set) var count = 0

    var keys: [LaneKey] { lanes.values.flatMap { $0.map(\.key) } }

    mutating func add(_ watch: any ChangeObserver, to key: LaneKey) {
        let name = WakeName(key)
        if let place = lanes[name]?.firstIndex(where: { $0.key == key }) {
            lanes[name]?[place].watches.append(watch)
        } else {
            lanes[name, default: []].append(Lane(key: key, watches: [watch]))
            count += 1
        }
    }

    mutating func remove(_ watch: any ChangeObserver, from key: LaneKey) {
        let name = WakeName(key)
        guard let place = lanes[name]?.firstIndex(where: { $0.key == key }) else { return }
        lanes[name]?[place].watches.removeAll { $0 === watch }
        guard lanes[name]?[place].watches.isEmpty == true else { return }
        lanes[name]?.remove(at: place)
        count -= 1
        if lanes[name]?.isEmpty == true { lanes[name] = nil }
    }

    func watches(of key: LaneKey) -> [any ChangeObserver] {
        lanes[WakeName(key)]?.first { $0.key == key }?.watches ?? []
    }

    /// The watches of every lane that the name may mean: two may share one.
    func watches(of name: WakeName) -> [any ChangeObserver] {
        lanes[name]?.flatMap(\.watches) ?? []
    }

    /// Records a lane's change position, and answers the watches that are behind it.
    mutating func record(_ position: Int64, of key: LaneKey) -> [any ChangeObserver] {
        let name = WakeName(key)
        guard let place = lanes[name]?.firstIndex(where: { $0.key == key }), let lane = lanes[name]?[place],
            lane.known != position
        else { return [] }
        lanes[name]?[place].known = position
        return lane.watches
    }
}
