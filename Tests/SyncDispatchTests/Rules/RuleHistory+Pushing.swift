import Foundation
import JSONText
import StoreSupport
import SyncHTTP
import SyncModel
import TestSupport

@testable import SyncStore

extension RuleHistory {
    /// A push over an unreliable network: new mutations, some of them out of order or late, and modified repeats.
    mutating func push(_ tenant: Int, _ person: Int) async throws {
        let device = Int.random(in: 0...1, using: &generator)
        for _ in 0..<Int.random(in: 0...4, using: &generator) { capture(tenant, person, device) }
        var batch = fresh(tenant, person, device) + repetitions(tenant, person, device)
        guard !batch.isEmpty else { return }
        if generator.oneIn(3) { batch.shuffle(using: &generator) }
        if generator.oneIn(15), let twice = batch.first { batch.append(twice) }
        batch = withoutTies(batch, tenant, person, device)
        let isStrict = generator.oneIn(6)
        let deviceID = tenants[tenant].people[person].devices[device].id
        let user = tenants[tenant].people[person].id
        let watermark = tenants[tenant].model.users[user]?.watermarks[deviceID] ?? 0
        let after = generator.oneIn(8) ? max(0, watermark + Int64.random(in: -2...2, using: &generator)) : nil
        tell(batch, tenant, person, device, isStrict, after)
        let times = generator.oneIn(5) ? 2 : 1
        for _ in 0..<times {
            try await send(batch, tenant, user, deviceID, isStrict, after: after)
        }
        for outgoing in batch where !isStrict {
            tenants[tenant].people[person].sent.append((outgoing.entry, outgoing.number, device))
        }
    }

    /// The captured mutations, or a part of them: the others are sent late.
    private mutating func fresh(_ tenant: Int, _ person: Int, _ device: Int) -> [RuleModel.Outgoing] {
        let outbox = tenants[tenant].people[person].devices[device].outbox
        var taken: [RuleModel.Outgoing] = []
        var left: [(entry: RuleEntry, number: Int64)] = []
        for item in outbox {
            if generator.oneIn(10) {
                left.append(item)
            } else {
                taken.append(.init(entry: item.entry, number: item.number))
            }
        }
        tenants[tenant].people[person].devices[device].outbox = left
        return taken
    }

    private mutating func repetitions(_ tenant: Int, _ person: Int, _ device: Int) -> [RuleModel.Outgoing] {
        let human = tenants[tenant].people[person]
        guard !human.sent.isEmpty else { return [] }
        let model = tenants[tenant].model.users[human.id]
        return (0..<Int.random(in: 0...3, using: &generator)).map { _ in
            let earlier =
                generator.oneIn(2) ? generator.pick(human.sent) : generator.pick(human.sent.suffix(6).map { $0 })
            var entry = earlier.entry
            var number = earlier.number
            if generator.oneIn(4) {
                number = tenants[tenant].people[person].devices[device].lastNumber + 1
                tenants[tenant].people[person].devices[device].lastNumber = number
            }
            let known = model?.mutation(key: entry.key)
            switch Int.random(in: 0..<10, using: &generator) {
            case 0:
                // another mutation under the same key
                nextContent += 1
                entry.content = nextContent
                entry.payload = [("n", .text("\(100 + nextContent)"))]
                if entry.operation == .delete { entry.operation = .replace }
                if generator.oneIn(3) { entry.orderKey = entry.orderKey == nil ? "a" : nil }
                entry.isInvalid = false
            case 1:
                entry.isInvalid.toggle()
            case 2...5 where known != nil && !entry.isInvalid:
                entry = entry.rewritten { id in
                    let target = id == entry.local ? entry.type : known?.targets[id]
                    return target.flatMap { model?.mappings[RuleModel.ClientKey(id: id, type: $0)]?.serverID }
                }
            default: break
            }
            return .init(entry: entry, number: number)
        }
    }

    /// Numbers are unique in a push, except for copies of an entry.
    private mutating func withoutTies(
        _ batch: [RuleModel.Outgoing],
        _ tenant: Int,
        _ person: Int,
        _ device: Int
    ) -> [RuleModel.Outgoing] {
        var keys: [Int64: UUID] = [:]
        return batch.map { outgoing in
            var outgoing = outgoing
            if let other = keys[outgoing.number], other != outgoing.entry.key {
                outgoing.number = tenants[tenant].people[person].devices[device].lastNumber + 1
                tenants[tenant].people[person].devices[device].lastNumber = outgoing.number
            }
            keys[outgoing.number] = outgoing.entry.key
            tenants[tenant].people[person].devices[device].lastNumber = max(
                tenants[tenant].people[person].devices[device].lastNumber,
                outgoing.number
            )
            return outgoing
        }
    }

    // MARK: - One request

    private mutating func send(
        _ batch: [RuleModel.Outgoing],
        _ tenant: Int,
        _ user: UUID,
        _ device: UUID,
        _ isStrict: Bool,
        after: Int64?
    ) async throws {
        let list = batch.map { $0.entry.json(number: $0.number) }.joined(separator: ",")
        let sequence = after.map { #","after_sequence":\#($0)"# } ?? ""
        let body = #"{"device_id":"\#(device.lowercased)"\#(sequence),"mutations":[\#(list)]}"#
        let watermark = tenants[tenant].model.users[user]?.watermarks[device] ?? 0
        let answer: JSONValue
        do {
            answer = try JSONTree(
                parsing: await gateway().store.pushes.submit(
                    PushRequest(body: Array(body.utf8), limits: IntakeLimits()),
                    organization: tenants[tenant].organization,
                    user: user,
                    isStrict: isStrict
                ).json()
            ).root
        } catch let problem as Problem {
            return try refused(problem, batch, tenant, user, device, isStrict, after: after)
        }
        tenants[tenant].model.now = world.now
        try expect(after ?? 0 <= watermark, "a gap was accepted: \(answer.text)")
        guard
            let verdicts = tenants[tenant].model.push(batch, device: device, user: user, isStrict: isStrict)
        else { throw breach("a strict push was accepted that should be refused: \(answer.text)") }
        try expect(answer.results.count == batch.count, "\(answer.results.count) results: \(answer.text)")
        let places = zip(verdicts, answer.results)
        for (verdict, result) in places {
            guard case .accepted(let mutation) = verdict, mutation.status == .succeeded else { continue }
            try learn(mutation, result, tenant)
        }
        for (verdict, result) in places { try compare(verdict, result) }
        let judged = tenants[tenant].model.users[user]?.watermarks[device] ?? 0
        try expect(answer["accepted_sequence"]?.int64 == judged, "watermark is \(judged): \(answer.text)")
        try compareMappings(answer, batch, tenant, user)
    }

    private mutating func refused(
        _ problem: Problem,
        _ batch: [RuleModel.Outgoing],
        _ tenant: Int,
        _ user: UUID,
        _ device: UUID,
        _ isStrict: Bool,
        after: Int64?
    ) throws {
        let watermark = tenants[tenant].model.users[user]?.watermarks[device] ?? 0
        if let after, after > watermark {
            return try expect(
                problem.code == .sequenceGap && problem.expected == watermark,
                "a gap after \(watermark) was answered \(problem.code.rawValue)"
            )
        }
        try expect(isStrict && problem.code == .validationFailed, "the push was refused: \(problem)")
        var trial = tenants[tenant].model.copy()
        let verdicts = trial.push(batch, device: device, user: user, isStrict: false) ?? []
        let refused = Set(verdicts.indices.filter { verdicts[$0].isRejected })
        let reported = Set(
            problem.errors.compactMap { $0.pointer.split(separator: "/").dropFirst().first.flatMap { Int($0) } }
        )
        try expect(
            refused == reported,
            "strict: \(refused.sorted()) should be refused, not \(reported.sorted()): \(problem)"
        )
    }

    /// Stores the id that the gateway created.
    mutating func learn(_ mutation: RuleModel.Accepted, _ result: JSONValue, _ tenant: Int) throws {
        let name = RuleModel.name(of: mutation)
        guard mutation.serverID == name else { return }
        let id = result["server_id"]
        try expect(id?.uuid != nil, "a create has no id: \(result.text)")
        guard let text = id?.text else { return }
        try expect(tenants.allSatisfy { $0.model.notes[text] == nil }, "an id was assigned twice: \(text)")
        tenants[tenant].model.rename(name, to: text)
    }

    private mutating func compareMappings(
        _ answer: JSONValue,
        _ batch: [RuleModel.Outgoing],
        _ tenant: Int,
        _ user: UUID
    ) throws {
        guard let state = tenants[tenant].model.users[user] else { return }
        var touched: Set<String> = []
        for entry in batch.map(\.entry) where !entry.isInvalid {
            var keys = (entry.references + entry.dependencies).flatMap { id in
                RuleType.allCases.map { RuleModel.ClientKey(id: id, type: $0) }
            }
            if let local = entry.local { keys.append(RuleModel.ClientKey(id: local, type: entry.type)) }
            for key in keys {
                guard let server = state.mappings[key]?.serverID else { continue }
                touched.insert("\(key.type.rawValue) \(key.id.lowercased) \(server)")
            }
        }
        let reported = Set(
            answer.list("id_mappings").map { mapping in
                "\(mapping["entity_type"]?.string ?? "") \(mapping["client_id"]?.string ?? "")"
                    + " \(mapping["server_id"]?.text ?? "")"
            }
        )
        try expect(reported == touched, "mappings are \(reported.sorted()), not \(touched.sorted())")
    }

    private mutating func tell(
        _ batch: [RuleModel.Outgoing],
        _ tenant: Int,
        _ person: Int,
        _ device: Int,
        _ isStrict: Bool,
        _ after: Int64?
    ) {
        let head =
            "tenant \(tenant) user \(person) device \(device) pushes\(isStrict ? " strict" : "")"
            + (after.map { " after \($0)" } ?? "")
        story.append((tenant, head + batch.map { "\n    " + $0.entry.json(number: $0.number) }.joined()))
    }
}
