import Foundation

/// Values by the id that they belong to. Most ids have one, which takes no list.
struct ValuesByID<Value> {
    private var firsts: [UUID: Value]
    private var others: [UUID: [Value]] = [:]

    init(capacity: Int) {
        firsts = Dictionary(minimumCapacity: capacity)
    }

    mutating func add(_ value: Value, of id: UUID) {
        guard let first = firsts.updateValue(value, forKey: id) else { return }
        firsts[id] = first
        others[id, default: []].append(value)
    }

    /// In the order in which they were added.
    func all(of id: UUID) -> [Value] {
        guard let first = firsts[id] else { return [] }
        return others.isEmpty ? [first] : [first] + (others[id] ?? [])
    }

    func forEach(of id: UUID, _ body: (Value) -> Void) {
        guard let first = firsts[id] else { return }
        body(first)
        if !others.isEmpty { others[id]?.forEach(body) }
    }
}
