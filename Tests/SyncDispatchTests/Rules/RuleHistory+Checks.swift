import Foundation
import JSONText
import StoreSupport
import SyncHTTP
import SyncModel

@testable import SyncStore

extension RuleHistory {
    /// Compares one result with the rules.
    mutating func compare(_ verdict: RuleModel.Verdict, _ result: JSONValue) throws {
        switch verdict {
        case .rejected(let code, let isRepeated):
            let isSo = result.status == "rejected" && result.code == code && result.isReplayed == isRepeated
            try expect(isSo, "should be rejected with \(code)\(isRepeated ? " again" : ""): \(result.text)")
        case .accepted(let mutation):
            try expect(result.isReplayed == false, "is new, and was answered as known: \(result.text)")
            try compare(mutation, result)
        case .replayed(let mutation):
            try expect(result.isReplayed == true, "is known, and was not recognized: \(result.text)")
            try compare(mutation, result)
        }
    }

    /// Compares a returned mutation with its expected state.
    mutating func compare(_ mutation: RuleModel.Accepted, _ shown: JSONValue) throws {
        func wrong(_ what: String) -> String { "\(mutation.entry.id.lowercased): \(what), not as in \(shown.text)" }
        try expect(shown["id"]?.uuid == mutation.entry.id, wrong("another mutation"))
        try expect(shown.status == mutation.status.rawValue, wrong("is \(mutation.status.rawValue)"))
        try expect(shown["revision"]?.int64 == Int64(mutation.revision), wrong("revision \(mutation.revision)"))
        try expect(shown["attempt_count"]?.int64 == Int64(mutation.attempts), wrong("\(mutation.attempts) attempts"))
        let id = shown["server_id"].flatMap { $0.isNull ? nil : $0.text }
        try expect(id == mutation.serverID, wrong("server_id \(mutation.serverID ?? "null")"))
        if mutation.entry.type == .note {
            try expect(shown["version"]?.int64 == mutation.version, wrong("version \(mutation.version ?? 0)"))
        }
        let resolution = shown["resolution"]?.string
        try expect(
            resolution == mutation.resolution?.rawValue,
            wrong("resolution \(mutation.resolution?.rawValue ?? "null")")
        )
        // a mutation that a person discarded shows the current entity, if the gateway has it, with the code `discarded`
        let isGivenUp = mutation.status == .discarded && mutation.resolution == nil && mutation.code == nil
        let isSo = shown.code == mutation.code || (isGivenUp && shown.code == "discarded")
        try expect(isSo, wrong("error \(mutation.code ?? "null")"))
        let due = shown["next_retry_at"]?.string
        try expect(due == mutation.nextTry?.rfc3339, wrong("next try \(mutation.nextTry?.rfc3339 ?? "null")"))
        try compareBlockers(mutation, shown, wrong)
    }

    /// Compares the blockers. A returned blocker may have been satisfied since it was last read, and may be indirect.
    /// Every unsatisfied blocker must be returned.
    private mutating func compareBlockers(
        _ mutation: RuleModel.Accepted,
        _ shown: JSONValue,
        _ wrong: (String) -> String
    ) throws {
        let reported = Set(shown.blockedBy)
        guard mutation.status == .blocked else { return try expect(reported.isEmpty, wrong("blocked by nothing")) }
        let states = tenants.lazy.flatMap(\.model.users.values)
        guard let state = states.first(where: { $0.lane.contains { $0 === mutation } }) else { return }
        let unmet = state.unmet(mutation.dependsOn)
        let isSo = !reported.isEmpty && unmet.isSubset(of: reported) && reported.isSubset(of: state.chain(of: mutation))
        try expect(isSo, wrong("blocked by \(unmet)"))
    }

    /// Reads everything of a user and compares it with the rules.
    mutating func check(_ tenant: Int, _ person: Int) async throws {
        let user = tenants[tenant].people[person].id
        let lane = tenants[tenant].model.users[user]?.lane ?? []
        let page = try await world.replicas.base.store.mutations.list(
            MutationFilter(limit: 1_000),
            organization: tenants[tenant].organization,
            user: user
        )
        let shown = try JSONTree(parsing: page.json()).root.list("mutations")
        try expect(shown.count == lane.count, "\(lane.count) mutations, not \(shown.count)")
        for (mutation, item) in zip(lane, shown) { try compare(mutation, item) }
    }

    /// The feed contains every note once, in the order of the last writes.
    mutating func checkFeed(_ tenant: Int) async throws {
        for person in tenants[tenant].people {
            let phone = Phone(world.replicas.base, tenants[tenant].organization, user: person.id)
            let changes = try await phone.pull(types: [RuleType.note.rawValue])
            let reported = changes.map { change in
                let members = change["document"]?.namedTexts.map { "\($0.name)=\($0.text)" }.sorted() ?? []
                return "\(change["id"]?.text ?? "") \(change.version ?? 0) \(members)"
            }
            let expected = tenants[tenant].model.feed.compactMap { id in
                tenants[tenant].model.notes[id].map { note in
                    "\(id) \(note.version) \((note.document ?? [:]).map { "\($0.key)=\($0.value)" }.sorted())"
                }
            }
            // the order of the notes that one deletion changes depends on their ids, which the model gets later
            let isOrdered = [.ignore, .restrict].contains(tenants[tenant].model.deletionRule)
            try expect(
                isOrdered ? reported == expected : reported.sorted() == expected.sorted(),
                "the feed is\n\(reported.joined(separator: "\n"))\nnot\n\(expected.joined(separator: "\n"))"
            )
        }
    }
}
