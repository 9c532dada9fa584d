import Foundation
import JSONText
import StoreSupport
import SyncModel
import TestSupport
import Testing

@testable import SyncStore

/// Every refusal depends on a look-up (product rule 5). So the second answer to a push equals the first, for any cache
/// of the replica, any repeating device and any numbers.
@Suite struct RefusalTests {
    /// The kinds of entries that are refused together with repeated entries.
    enum Kind: String, CaseIterable {
        case clientIDTaken, idTaken, unknownDependency, ownDependency, laterDependency, dependencyRejected
        case unknownClientID, otherEntity, badContent, unreadable, unreadableUnderAKnownKey, keyReused, numberUsed

        /// The code of the refusal, for the device that sent the first entry.
        var code: String {
            switch self {
            case .idTaken: "id_already_used"
            case .dependencyRejected: "dependency_rejected"
            case .unreadableUnderAKnownKey, .keyReused: "idempotency_key_reused"
            case .numberUsed: "sequence_already_used"
            default: "validation_failed"
            }
        }

        func entries(_ phone: Phone, _ known: Known) -> [Entry] {
            func create(needs ids: [UUID] = [], id: UUID = UUID()) -> Entry {
                let list = ids.map { #""\#($0.lowercased)""# }.joined(separator: ",")
                return phone.entry("create", local: UUID(), id: id, extra: ["dependency_ids": "[\(list)]"])
            }
            switch self {
            case .clientIDTaken: return [phone.create(local: known.local)]
            case .idTaken: return [create(id: known.edit.id)]
            case .unknownDependency: return [create(needs: [UUID()])]
            case .ownDependency:
                let id = UUID()
                return [create(needs: [id], id: id)]
            case .laterDependency:
                let id = UUID()
                return [create(needs: [id]), create(id: id)]
            case .dependencyRejected:
                let broken = create(needs: [UUID()])
                return [create(needs: [broken.id]), broken].reversed()
            case .unknownClientID: return [phone.entry("update", local: UUID())]
            case .otherEntity: return [phone.entry("update", local: known.local, server: #""\#(UUID().lowercased)""#)]
            case .badContent: return [phone.create(payload: "[1]")]
            case .unreadable: return [phone.entry("create", local: UUID(), extra: ["max_attempts": "0"])]
            case .unreadableUnderAKnownKey:
                return [phone.entry("create", local: UUID(), key: known.spare.key, extra: ["max_attempts": "0"])]
            case .keyReused:
                var entry = known.spare
                entry.payload = #"{"other":true}"#
                entry.number = phone.nextNumber()
                return [entry]
            case .numberUsed: return [phone.entry("create", local: UUID(), number: 1)]
            }
        }
    }

    /// Entries that were pushed before, by a device whose worker has lost the answer.
    struct Known {
        let local = UUID()
        let create: Entry
        let edit: Entry
        /// Another known entry, which is not repeated unchanged.
        let spare: Entry

        init(_ phone: Phone) {
            create = phone.create(local: local)
            edit = phone.entry("update", local: local, payload: #"{"title":"y"}"#)
            spare = phone.create()
        }
    }

    /// The device and the numbers of a repeat.
    enum Disguise: CaseIterable { case none, higherNumbers, otherDevice }

    @Test(arguments: Kind.allCases)
    func `a known key receives its first answer again, together with refused entries`(_ kind: Kind) async throws {
        let replicas = try await GatewayPair()
        for disguise in Disguise.allCases {
            for isWarm in [true, false] {
                for isStrict in [false, true] {
                    let place = "\(kind), \(disguise), \(isWarm ? "warm" : "cold"), \(isStrict ? "strict" : "lenient")"
                    try await repeated(kind, disguise, isWarm: isWarm, isStrict: isStrict, replicas, place)
                }
            }
        }
    }

    private func repeated(
        _ kind: Kind,
        _ disguise: Disguise,
        isWarm: Bool,
        isStrict: Bool,
        _ replicas: GatewayPair,
        _ place: String
    ) async throws {
        let phone = Phone(replicas.base, try await replicas.base.organization())
        let known = Known(phone)
        let original = try await phone.push([known.create, known.edit, known.spare], through: replicas[0])
        let sender = disguise == .otherDevice ? Phone(replicas.base, phone.organization, user: phone.user) : phone
        if disguise == .otherDevice { try await sender.push([sender.create()], through: replicas[0]) }
        var batch = [known.create, known.edit]
        if disguise != .none {
            for index in batch.indices { batch[index].number = sender.nextNumber() }
        }
        batch += kind.entries(sender, known)
        let answers = try await [replicas[isWarm ? 0 : 1], replicas[isWarm ? 0 : 1], replicas.base].asyncMap {
            try await Self.answer(batch, sender, isStrict: isStrict, through: $0)
        }
        #expect(answers[0].text == answers[1].text, "\(place)")
        #expect(answers[0].text == answers[2].text, "\(place)")
        for answer in answers {
            guard let results = answer.results else {
                #expect(isStrict, "\(place): \(answer.text)")
                #expect(!answer.text.contains("/mutations/0") && !answer.text.contains("/mutations/1"), "\(place)")
                continue
            }
            #expect(results.prefix(2).map(\.isReplayed) == [true, true], "\(place)")
            #expect(results.prefix(2).map(\.outcome) == original.results.prefix(2).map(\.outcome), "\(place)")
            #expect(results.dropFirst(2).contains { $0.code == kind.code }, "\(place): \(answer.text)")
        }
        #expect((answers[0].results == nil) == isStrict, "\(place)")
    }

    /// The answer to a push, without the parts that may differ between two attempts.
    private static func answer(
        _ batch: [Entry],
        _ phone: Phone,
        isStrict: Bool,
        through gateway: Gateway
    ) async throws -> (text: String, results: [JSONValue]?) {
        do {
            let answer = try await phone.push(batch, strict: isStrict, through: gateway)
            let sequence = answer["accepted_sequence"]?.text ?? "-"
            let outcomes = answer.results.map { withoutWatermark($0.outcome) }
            return (sequence + "\n" + outcomes.joined(separator: "\n"), answer.results)
        } catch let problem as Problem {
            let details = problem.errors.map(\.detail).joined(separator: " ")
            return (withoutWatermark("\(problem.summary) \(problem.detail) \(details)"), nil)
        }
    }

    /// Removes the watermark, which the message about a refused number contains, because the first attempt uses more
    /// numbers.
    private static func withoutWatermark(_ text: String) -> String {
        text.replacing(/numbers up to \d+ were/, with: "numbers were")
    }

    // MARK: - Entries that today's rules would refuse

    /// The rule that an entry would violate if it were new.
    enum Wrong: String, CaseIterable {
        case payloadTooLarge, payloadTooDeep, priority, maxAttempts, dependencies, strategy, unknownMember

        func change(_ entry: inout Entry, _ limits: inout IntakeLimits) {
            switch self {
            case .payloadTooLarge: limits.payloadBytes = 256
            case .payloadTooDeep: limits.payloadDepth = 2
            case .priority: entry.extra["priority"] = "1001"
            case .maxAttempts: entry.extra["max_attempts"] = "0"
            case .dependencies: entry.extra["dependency_ids"] = #"["x"]"#
            case .strategy: entry.extra["conflict_resolution"] = #""mine""#
            case .unknownMember: entry.extra["more"] = "1"
            }
        }
    }

    /// Limits and forms apply only to new entries. A known entry receives its earlier result, and different content
    /// under its key is refused.
    @Test(arguments: Wrong.allCases, [true, false])
    func `repeats the result of a known entry that is invalid today`(_ wrong: Wrong, _ isWarm: Bool) async throws {
        let replicas = try await GatewayPair()
        let phone = Phone(replicas.base, try await replicas.base.organization())
        let (entity, payload) = (UUID(), #"{"title":"\#(String(repeating: "x", count: 300))","a":[[[1]]]}"#)
        var entry = phone.create(local: entity, payload: payload)
        let first = try await phone.push([entry], through: replicas[0])
        var limits = IntakeLimits()
        wrong.change(&entry, &limits)
        // its dependents are accepted
        let edit = phone.entry("update", local: entity, extra: ["dependency_ids": #"["\#(entry.id.lowercased)"]"#])
        for isStrict in [true, false] {
            let gateway = replicas[isWarm ? 0 : 1]
            let again = try await phone.push([entry, edit], strict: isStrict, limits: limits, through: gateway)
            #expect(again.results[0].isReplayed == true, "\(again.text)")
            #expect(again.results[0].outcome == first.results[0].outcome)
            #expect(again.results[1].status == "succeeded", "\(again.text)")
        }
        entry.payload = payload.replacing("[[[1]]]", with: "[[[2]]]")
        entry.number = phone.nextNumber()
        let other = try await phone.push([entry], limits: limits, through: replicas[isWarm ? 0 : 1])
        #expect(other.results[0].code == "idempotency_key_reused", "\(other.text)")
        var new = phone.create(payload: payload)
        wrong.change(&new, &limits)
        #expect(try await phone.push([new], limits: limits).results[0].code == "validation_failed")
    }

    // MARK: - Recorded refusals

    /// A strict push receives all its refusals, even if a recorded refusal is enough to refuse it.
    @Test(arguments: [true, false])
    func `a strict push returns all its refusals`(_ isWarm: Bool) async throws {
        let replicas = try await GatewayPair()
        let phone = Phone(replicas.base, try await replicas.base.organization())
        let tablet = Phone(replicas.base, phone.organization, user: phone.user)
        let refused = phone.entry("update", local: UUID())
        var reused = tablet.create()
        try await tablet.push([reused], through: replicas[0])
        try await phone.push([refused], through: replicas[0])
        reused.payload = #"{"other":true}"#
        reused.number = phone.nextNumber()
        let batch = [refused, reused]
        let problem = await #expect(throws: Problem.self) {
            try await phone.push(batch, strict: true, through: replicas[isWarm ? 0 : 1])
        }
        let pointers = problem?.errors.map { $0.pointer.prefix("/mutations/0".count) }
        #expect(pointers == ["/mutations/0", "/mutations/1"])
    }

    /// Each device counts its own numbers, so a refusal under one device's number does not affect another device.
    @Test(arguments: [true, false])
    func `a refusal is repeated only to its device`(_ isWarm: Bool) async throws {
        let replicas = try await GatewayPair()
        let phone = Phone(replicas.base, try await replicas.base.organization())
        let tablet = Phone(replicas.base, phone.organization, user: phone.user)
        let local = UUID()
        let edit = phone.entry("update", local: local)
        let first = try await phone.push([edit], through: replicas[0])
        #expect(first.results[0].rules == [Rule.entityReference])
        // the missing entity has been created since
        try await tablet.push([tablet.entry("create", local: local, number: 2)], through: replicas[0])
        let other = Phone(replicas.base, phone.organization, user: phone.user)
        let taken = try await other.push([edit], through: replicas[isWarm ? 0 : 1])
        #expect(taken.results[0].status == "succeeded")
        #expect(taken.results[0].isReplayed == false)
        for sender in [other, phone, tablet] {
            let again = try await sender.push([edit], through: replicas[1])
            #expect(again.results[0].isReplayed == true)
            #expect(again.results[0].outcome == taken.results[0].outcome)
        }
    }

    /// Two devices of a user push the same entry, as happens after both were restored from one backup.
    @Test func `the last refusal of a key is recorded`() async throws {
        let phone = try await Phone.new()
        let tablet = Phone(phone.gateway, phone.organization, user: phone.user)
        var edit = phone.entry("update", local: UUID())
        for sender in [phone, tablet] {
            for isReplayed in [false, true] {
                let answer = try await sender.push([edit]).results[0]
                #expect(answer.rules == [Rule.entityReference] && answer.isReplayed == isReplayed)
            }
        }
        #expect(try await phone.push([edit]).results[0].code == "sequence_already_used")
        // under a new number, the entry is refused with the original reason again
        edit.number = phone.nextNumber()
        for isReplayed in [false, true] {
            let answer = try await phone.push([edit]).results[0]
            #expect(answer.rules == [Rule.entityReference] && answer.isReplayed == isReplayed)
        }
    }

    @Test func `a number stays used on its device after the entry was refused on another device`() async throws {
        let replicas = try await GatewayPair()
        let phone = Phone(replicas.base, try await replicas.base.organization())
        let tablet = Phone(replicas.base, phone.organization, user: phone.user)
        let edit = phone.entry("update", local: UUID())
        try await phone.push([edit], through: replicas[0])
        try await tablet.push([tablet.create(), tablet.create()], through: replicas[0])
        for replica in [replicas[0], replicas[1], replicas.base] {
            #expect(try await tablet.push([edit], through: replica).results[0].code == "sequence_already_used")
            #expect(try await phone.push([edit], through: replica).results[0].isReplayed == true)
        }
    }

    // MARK: - Quotas, other pushes

    /// Repeats do not count, even if no replica has the mutations in its cache.
    @Test func `repeated entries do not count against a quota`() async throws {
        let replicas = try await GatewayPair()
        let organization = try await replicas.base.organization(#"{"mutations_per_day_per_user":4}"#)
        let phone = Phone(replicas.base, organization)
        let batch = [phone.create(), phone.create(), phone.create()]
        try await phone.push(batch, through: replicas[0])
        let tablet = Phone(replicas.base, organization, user: phone.user)
        var copies = batch
        for index in copies.indices { copies[index].number = tablet.nextNumber() }
        await #expect(throws: Problem.self) {
            try await tablet.push(copies + [tablet.create(), tablet.create()], through: replicas[1])
        }
        let answer = try await tablet.push(copies + [tablet.create()], through: replicas[1])
        #expect(answer.results.map(\.isReplayed) == [true, true, true, false])
    }

    /// A look-up for one push of a group does not change the other pushes.
    @Test func `a refusal of one push does not affect the others of its group`() async throws {
        let replicas = try await GatewayPair()
        let organization = try await replicas.base.organization()
        let phones = (0..<6).map { _ in Phone(replicas.base, organization) }
        for phone in phones { try await phone.push([phone.create()], through: replicas[0]) }
        for round in 0..<5 {
            try await withThrowingTaskGroup(of: Void.self) { group in
                for (place, phone) in phones.enumerated() {
                    let isRefused = place % 2 == 0
                    let local = UUID()
                    let entries = [
                        phone.create(local: local), phone.entry("update", local: isRefused ? UUID() : local),
                        phone.create(),
                    ]
                    group.addTask {
                        let answer = try await phone.push(entries, through: replicas[round % 2])
                        let middle = isRefused ? "rejected" : "succeeded"
                        #expect(answer.results.map(\.status) == ["succeeded", middle, "succeeded"])
                    }
                }
                try await group.waitForAll()
            }
        }
        #expect(try await phones[0].pull().count == 6 + 5 * 6 * 2)
    }
}
