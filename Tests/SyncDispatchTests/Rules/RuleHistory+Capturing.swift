import Foundation
import SyncModel
import TestSupport

extension RuleHistory {
    /// Captures a mutation on a device, as an app does: usually valid, sometimes not.
    mutating func capture(_ tenant: Int, _ person: Int, _ device: Int) {
        let entry = makeEntry(tenant, person)
        var numbers = tenants[tenant].people[person].devices[device].lastNumber + 1
        // numbers may leave gaps
        if generator.oneIn(12) { numbers += 1 }
        tenants[tenant].people[person].devices[device].lastNumber = numbers
        tenants[tenant].people[person].devices[device].outbox.append((entry, numbers))
        if entry.operation == .create, let local = entry.local {
            tenants[tenant].people[person].clients.append((local, entry.type))
        }
    }

    private mutating func makeEntry(_ tenant: Int, _ person: Int) -> RuleEntry {
        let clients = tenants[tenant].people[person].clients
        let kind = clients.isEmpty ? 0 : Int.random(in: 0..<100, using: &generator)
        nextContent += 1
        var entry = RuleEntry(
            id: generator.uuid(),
            key: generator.uuid(),
            content: nextContent,
            operation: .create,
            type: generator.oneIn(3) ? .contact : .note
        )
        switch kind {
        case 0..<38: entry.local = generator.uuid()
        case 38..<42:
            // a client id that is used already, with its own type or another one
            let client = generator.pick(clients)
            entry.local = client.id
            if generator.oneIn(2) { entry.type = client.type }
        case 42..<44: break
        default: target(&entry, tenant, person, clients)
        }
        entry.payload = entry.operation == .delete ? nil : payload(entry, tenant, person)
        entry.endpoint = entry.type.isForwarded ? endpoint(entry, tenant, person) : nil
        entry.dependencies = dependencies(entry, tenant, person)
        if generator.oneIn(4) { entry.orderKey = generator.pick(["a", "b", "A"]) }
        if generator.oneIn(3) { entry.strategy = generator.pick([.manual, .serverWins, .clientWins]) }
        if entry.type.isForwarded, generator.oneIn(4) { entry.maxAttempts = Int.random(in: 1...3, using: &generator) }
        entry.isInvalid = generator.oneIn(40)
        return entry
    }

    /// Chooses the target of an update, replace or delete.
    private mutating func target(
        _ entry: inout RuleEntry,
        _ tenant: Int,
        _ person: Int,
        _ clients: [(id: UUID, type: RuleType)]
    ) {
        entry.operation = generator.pick([.update, .update, .replace, .delete])
        let notes = tenants[tenant].model.notes.keys.sorted().filter { !$0.contains("made by") }
        if generator.oneIn(4), let note = notes.isEmpty ? nil : generator.pick(notes) {
            // the note may belong to any user of the organization
            entry.type = .note
            entry.server = note
            let version = tenants[tenant].model.notes[note]?.version ?? 1
            if generator.oneIn(2) { entry.baseVersion = max(0, version + Int64.random(in: -2...1, using: &generator)) }
            return
        }
        let client = generator.oneIn(25) ? (id: generator.uuid(), type: entry.type) : generator.pick(clients)
        entry.type = client.type
        entry.local = client.id
        let key = RuleModel.ClientKey(id: client.id, type: client.type)
        let mapping = tenants[tenant].model.users[tenants[tenant].people[person].id]?.mappings[key]
        if let id = mapping?.serverID, generator.oneIn(4) {
            entry.server = id
            if generator.oneIn(2) { entry.local = nil }
        }
        if client.type == .note, generator.oneIn(3) { entry.baseVersion = Int64.random(in: 0...3, using: &generator) }
    }

    private mutating func payload(
        _ entry: RuleEntry,
        _ tenant: Int,
        _ person: Int
    ) -> [(name: String, value: RuleEntry.Value)] {
        // the numbers are also ids of the upstream
        var payload: [(name: String, value: RuleEntry.Value)] = [
            ("n", .text("\(Int.random(in: 0...20, using: &generator))"))
        ]
        if entry.operation == .update, generator.oneIn(6) { payload.append(("old", .text("null"))) }
        if entry.operation != .update, generator.oneIn(6) { payload.append(("old", .text(#""x""#))) }
        let clients = tenants[tenant].people[person].clients
        if generator.oneIn(3), !clients.isEmpty { payload.append(("ref", .id(generator.pick(clients).id))) }
        if generator.oneIn(12) { payload.append(("stranger", .id(generator.uuid()))) }
        if generator.oneIn(12), let local = entry.local { payload.append(("own", .id(local))) }
        return payload
    }

    private mutating func endpoint(_ entry: RuleEntry, _ tenant: Int, _ person: Int) -> [RuleEntry.Value] {
        if entry.operation == .create {
            let clients = tenants[tenant].people[person].clients
            guard generator.oneIn(4), !clients.isEmpty else { return [.text("contacts")] }
            return [.text("contacts"), .id(generator.pick(clients).id), .text("friends")]
        }
        if let local = entry.local { return [.text("contacts"), .id(local)] }
        return [.text("contacts"), .text(entry.server?.trimmingCharacters(in: ["\""]) ?? "0")]
    }

    private mutating func dependencies(_ entry: RuleEntry, _ tenant: Int, _ person: Int) -> [UUID] {
        guard generator.oneIn(6) else { return [] }
        let human = tenants[tenant].people[person]
        switch Int.random(in: 0..<10, using: &generator) {
        case 0: return [generator.uuid()]
        case 1: return [entry.id]
        case 2, 3: return human.clients.isEmpty ? [] : [generator.pick(human.clients).id]
        default:
            let known = human.sent.map(\.entry.id) + human.devices.flatMap { $0.outbox.map(\.entry.id) }
            return known.isEmpty ? [] : [generator.pick(known)]
        }
    }
}
