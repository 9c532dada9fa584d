import Foundation
import JSONText
import Postgres
import StoreSupport
import SyncHTTP
import SyncModel
import TestSupport
import Testing

@testable import AdministrationFeature
@testable import SyncStore

/// Each user's quota of new mutations, counted in the transaction of the push.
@Suite struct MutationQuotaTests {
    private static func refusal(_ body: () async throws -> Void) async -> Problem? {
        do {
            try await body()
            return nil
        } catch {
            return error as? Problem
        }
    }

    private static func rows(_ gateway: Gateway, _ table: String) async throws -> Int64 {
        let connection = try await gateway.database.connect()
        defer { connection.close() }
        return try await connection.run(Query(Statement("", "SELECT count(*) FROM \(table)"))).read(
            0,
            0,
            as: Int64.self
        )
    }

    @Test func `a push beyond the quota is refused whole and accepted after the announced time`() async throws {
        let gateway = try await Gateway()
        let phone = Phone(gateway, try await gateway.organization(#"{"mutations_per_day_per_user":4}"#))
        let first = [phone.create(), phone.create(), phone.create()]
        #expect(try await phone.push(first).results.map(\.status) == ["succeeded", "succeeded", "succeeded"])
        let second = [phone.create(), phone.create()]
        let problem = try #require(await Self.refusal { try await phone.push(second) })
        #expect(problem.code == .rateLimited)
        // a quarter of a day
        #expect(problem.retryAfter == 21_600)
        #expect(problem.quotaStatus == QuotaStatus(quota: Quota(.mutations, limit: 4), left: 1, seconds: 64_800))
        #expect(problem.detail.contains("2 new mutations") && problem.detail.contains("1 are left"))
        #expect(try await Self.rows(gateway, "mutations") == 3)

        // known mutations are still answered, and so are new mutations within the quota
        #expect(try await phone.push(first).results.allSatisfy { $0.isReplayed == true })
        gateway.clock.advance(seconds: 21_599)
        #expect(await Self.refusal { try await phone.push(second) }?.retryAfter == 1)
        gateway.clock.advance(seconds: 1)
        #expect(try await phone.push(second).results.map(\.status) == ["succeeded", "succeeded"])
        #expect(await Self.refusal { try await phone.push([phone.create()]) }?.code == .rateLimited)
    }

    @Test func `recorded refusals count against the quota, and their repeats do not`() async throws {
        let gateway = try await Gateway()
        let phone = Phone(gateway, try await gateway.organization(#"{"mutations_per_day_per_user":3}"#))
        let bad = [phone.entry("update", local: UUID()), phone.entry("update", local: UUID())]
        for isRepeated in [false, true, true] {
            let answer = try await phone.push(bad)
            #expect(answer.results.map(\.status) == ["rejected", "rejected"], "repeated: \(isRepeated)")
        }
        try await phone.push([phone.create()])
        #expect(await Self.refusal { try await phone.push([phone.create()]) }?.code == .rateLimited)
        // this refusal stores nothing and does not count, because the number was used before
        let stale = phone.entry("create", local: UUID(), number: 1)
        #expect(try await phone.push([stale]).results.first?.code == "sequence_already_used")
    }

    /// A device's keys above its watermark are looked up only if necessary.
    @Test func `a repeat under a higher number does not count against the quota`() async throws {
        let gateway = try await Gateway()
        let phone = Phone(gateway, try await gateway.organization(#"{"mutations_per_day_per_user":2}"#))
        let entries = [phone.create(), phone.create()]
        try await phone.push(entries)
        let again = entries.map { entry in
            var again = entry
            again.number = phone.nextNumber()
            return again
        }
        #expect(try await phone.push(again).results.map(\.isReplayed) == [true, true])
        #expect(await Self.refusal { try await phone.push([phone.create()]) }?.code == .rateLimited)
    }

    @Test func `every user has a separate quota, and other organizations have no quota`() async throws {
        let gateway = try await Gateway()
        let limited = try await gateway.organization(#"{"mutations_per_day_per_user":1}"#)
        let (ada, bob) = (Phone(gateway, limited), Phone(gateway, limited))
        let eve = Phone(gateway, try await gateway.organization(), user: ada.user)
        try await ada.push([ada.create()])
        #expect(await Self.refusal { try await ada.push([ada.create()]) }?.code == .rateLimited)
        // another device of the same user
        let tablet = Phone(gateway, limited, user: ada.user)
        #expect(await Self.refusal { try await tablet.push([tablet.create()]) }?.code == .rateLimited)
        try await bob.push([bob.create()])
        for _ in 0..<3 { try await eve.push([eve.create()]) }
        #expect(try await Self.rows(gateway, "mutation_quotas") == 2)
    }

    @Test func `an unused quota accepts a push larger than a day's limit`() async throws {
        let gateway = try await Gateway()
        let phone = Phone(gateway, try await gateway.organization(#"{"mutations_per_day_per_user":2}"#))
        try await phone.push([phone.create()])
        let large = (0..<5).map { _ in phone.create() }
        let problem = try #require(await Self.refusal { try await phone.push(large) })
        #expect(problem.retryAfter == 43_200)
        #expect(problem.detail.contains("more mutations than the daily quota"))
        gateway.clock.advance(seconds: 43_200)
        #expect(try await phone.push(large).results.count == 5)
        // the push exceeded the daily limit by three, so the next mutation is accepted only after two days
        #expect(await Self.refusal { try await phone.push([phone.create()]) }?.retryAfter == 172_800)
    }

    @Test func `a preview returns the result of a push and counts nothing`() async throws {
        let gateway = try await Gateway()
        let phone = Phone(gateway, try await gateway.organization(#"{"mutations_per_day_per_user":2}"#))
        func preview(_ entries: [Entry]) async throws {
            let list = entries.map(\.json).joined(separator: ",")
            let body = #"{"device_id":"\#(phone.device.lowercased)","mutations":[\#(list)]}"#
            let push = try PushRequest(body: Array(body.utf8), limits: IntakeLimits())
            _ = try await gateway.store.previews
                .preview(push, organization: phone.organization, user: phone.user, isStrict: false)
        }
        let two = [phone.create(), phone.create()]
        for _ in 0..<5 { try await preview(two) }
        #expect(try await Self.rows(gateway, "mutation_quotas") == 0)
        try await phone.push(two)
        #expect(await Self.refusal { try await preview([phone.create()]) }?.code == .rateLimited)
        try await preview(two)
    }

    /// Many pushes of many users wait for one committer and become groups; two replicas are used at random.
    @Test func `quotas are exact across replicas and groups and do not affect other users`() async throws {
        let gateway = try await Gateway(committers: 1)
        let replica = try await Gateway(replicaOf: gateway, committers: 1)
        let limited = try await gateway.organization(#"{"mutations_per_day_per_user":10}"#)
        let free = try await gateway.organization()
        let user = UUID()
        var phones: [(phone: Phone, isLimited: Bool)] = []
        for number in 0..<24 { phones.append((Phone(gateway, limited, user: number < 12 ? user : UUID()), true)) }
        for _ in 0..<12 { phones.append((Phone(gateway, free), false)) }
        let taken = try await withThrowingTaskGroup(of: (Int, Int).self) { group in
            for (index, (phone, _)) in phones.enumerated() {
                group.addTask {
                    var taken = 0
                    for round in 0..<8 {
                        let other = (index + round).isMultiple(of: 2) ? gateway : replica
                        do {
                            let answer = try await phone.push([phone.create(), phone.create()], through: other)
                            taken += answer.results.count
                        } catch let problem as Problem where problem.code == .rateLimited {
                            continue
                        }
                    }
                    return (index, taken)
                }
            }
            return try await group.reduce(into: [Int: Int]()) { $0[$1.0] = $1.1 }
        }
        #expect((0..<12).reduce(0) { $0 + (taken[$1] ?? 0) } == 10, "ten mutations of one user on twelve devices")
        for index in 12..<24 { #expect(taken[index] == 10) }
        for index in 24..<36 { #expect(taken[index] == 16) }
        #expect(try await Self.rows(gateway, "mutations") == 10 + 120 + 192)
    }

    @Test func `a group that is halved after an error of the database counts once`() async throws {
        let gateway = try await Gateway(committers: 1)
        let connection = try await gateway.database.connect()
        try await connection.execute(
            script: "ALTER TABLE entities ADD CONSTRAINT no_poison CHECK (document::text !~ 'poison')"
        )
        let limited = try await gateway.organization(#"{"mutations_per_day_per_user":6}"#)
        let phones = (0..<8).map { _ in Phone(gateway, limited) }
        for _ in 0..<2 {
            try await withThrowingTaskGroup(of: Void.self) { group in
                for (index, phone) in phones.enumerated() {
                    group.addTask {
                        let payload = index == 3 ? #"{"title":"poison"}"# : #"{"title":"x"}"#
                        let problem = await Self.refusal { try await phone.push([phone.create(payload: payload)]) }
                        #expect(problem?.code == (index == 3 ? .internalError : nil))
                    }
                }
                try await group.waitForAll()
            }
        }
        let used = try await connection.run(
            Query(Statement("used", "SELECT missing, count(*) FROM mutation_quotas GROUP BY 1"))
        )
        #expect(used.count == 1)
        #expect(try used.read(0, 0, as: Int64.self) == 2 * 86_400_000)
        #expect(try used.read(0, 1, as: Int64.self) == 7)
        connection.close()
    }

    @Test func `an organization without a quota writes no bucket`() async throws {
        let gateway = try await Gateway()
        let connection = try await gateway.database.connect()
        try await connection.execute(script: "DROP TABLE mutation_quotas, request_quotas")
        connection.close()
        let phone = Phone(gateway, try await gateway.organization())
        #expect(try await phone.push([phone.create()]).results.map(\.status) == ["succeeded"])
        #expect(try await gateway.store.quotas.admit(phone.organization) == nil)
    }

    @Test func `a removed or raised limit takes effect immediately`() async throws {
        let gateway = try await Gateway()
        let organization = try await gateway.organization(#"{"mutations_per_day_per_user":1}"#)
        let phone = Phone(gateway, organization)
        try await phone.push([phone.create()])
        for (value, isServed) in [("2", true), ("2", false), ("null", true)] {
            let body = #"{"settings":{"mutations_per_day_per_user":\#(value)}}"#
            _ = try await gateway.store.administration.put(organization.id, OrganizationUpdate(body: Array(body.utf8)))
            let now = try #require(try await gateway.store.catalog.organization(organization.id))
            let same = Phone(gateway, now, user: phone.user)
            let problem = await Self.refusal { try await same.push([same.create()]) }
            #expect((problem == nil) == isServed, "\(value)")
        }
    }
}
