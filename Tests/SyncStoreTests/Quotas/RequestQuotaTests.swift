import Foundation
import JSONText
import Postgres
import StoreSupport
import SyncModel
import Synchronization
import TestSupport
import Testing

@testable import AdministrationFeature
@testable import SyncStore

/// Each organization's quota of requests, over all replicas.
@Suite struct RequestQuotaTests {
    /// Whether a request is admitted.
    private static func ask(_ gateway: Gateway, _ organization: Organization) async throws -> Bool {
        do throws(Problem) {
            return try await gateway.store.quotas.admit(organization) != nil
        } catch {
            guard error.code == .rateLimited else { throw error }
            #expect(error.retryAfter == 1)
            #expect(error.quotaStatus?.left == 0)
            return false
        }
    }

    @Test func `a burst is one second's quota, after which the rate applies`() async throws {
        let gateway = try await Gateway()
        let organization = try await gateway.organization(#"{"requests_per_second":20}"#)
        var admitted = 0
        for _ in 0..<100 where try await Self.ask(gateway, organization) { admitted += 1 }
        #expect(admitted == 20)
        gateway.clock.advance(seconds: 0.5)
        for _ in 0..<100 where try await Self.ask(gateway, organization) { admitted += 1 }
        #expect(admitted == 30)
        gateway.clock.advance(seconds: 3_600)
        for _ in 0..<100 where try await Self.ask(gateway, organization) { admitted += 1 }
        #expect(admitted == 50)
    }

    /// Two replicas receive requests at random for twenty seconds of their clocks. In every interval T, they admit
    /// together at most rate · T, one burst, and the portions that both may have reserved.
    @Test(arguments: [1, 10, 200] as [Int64]) func `the limit holds in every interval over two replicas`(rate: Int64)
        async throws
    {
        let first = try await Gateway()
        let second = try await Gateway(replicaOf: first)
        let organization = try await first.organization(#"{"requests_per_second":\#(rate)}"#)
        var random = SeededRandom(UInt64(rate))
        var admissions: [Double] = []
        var time = 0.0
        while time < 20 {
            // mostly more requests than are allowed, with occasional pauses
            let step = Int.random(in: 0..<Int(rate) * 6, using: &random) == 0 ? 1.5 : 1 / Double(rate) / 3
            time += step
            for gateway in [first, second] { gateway.clock.advance(seconds: step) }
            for gateway in [first, second] where Bool.random(using: &random) {
                if try await Self.ask(gateway, organization) { admissions.append(time) }
            }
        }
        let held = 2 * Double(max(1, rate / 4))
        for (start, from) in admissions.enumerated() {
            for (end, to) in admissions.enumerated().dropFirst(start) {
                let bound = Double(rate) * (to - from) + Double(rate) + held
                if Double(end - start + 1) > bound + 1e-6 {
                    Issue.record("\(end - start + 1) in \(to - from) s")
                    return
                }
            }
        }
        #expect(Double(admissions.count) > Double(rate) * 20 * 0.35, "most of the quota can be used")
    }

    @Test func `admits concurrent requests up to the burst`() async throws {
        let gateway = try await Gateway()
        let organizations = [
            try await gateway.organization(#"{"requests_per_second":400}"#),
            try await gateway.organization(#"{"requests_per_second":1000}"#),
        ]
        let admitted = try await withThrowingTaskGroup(of: Bool.self) { group in
            for number in 0..<1_000 {
                group.addTask { try await Self.ask(gateway, organizations[number % 2]) }
            }
            return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
        }
        #expect(admitted == 400 + 500)
    }

    /// Usually a request needs no round trip, because some hundreds of requests share one.
    @Test(.onOneServer("creates a trigger on a table"))
    func `admits requests from memory and reserves them in portions`() async throws {
        let gateway = try await Gateway()
        let organization = try await gateway.organization(#"{"requests_per_second":400}"#)
        let connection = try await gateway.database.connect()
        defer { connection.close() }
        try await connection.execute(
            script: """
                CREATE TABLE draws (n int);
                CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                    INSERT INTO draws VALUES (1); RETURN NULL; END $$;
                CREATE TRIGGER note AFTER UPDATE ON request_quotas FOR EACH ROW EXECUTE FUNCTION note();
                """
        )
        var admitted = 0
        for _ in 0..<1_500 {
            gateway.clock.advance(seconds: 1.0 / 300)
            if try await Self.ask(gateway, organization) { admitted += 1 }
        }
        #expect(admitted == 1_500)
        let draws: Int64 = try await connection.run(Query(Statement("draws", "SELECT count(*) FROM draws"))).read(0, 0)
        #expect(draws > 0 && draws <= 1_500 / 25, "\(draws) draws")
    }

    @Test func `a failing database admits no request`() async throws {
        let gateway = try await Gateway()
        let organization = try await gateway.organization(#"{"requests_per_second":8}"#)
        let connection = try await gateway.database.connect()
        try await connection.execute(script: "ALTER TABLE request_quotas RENAME TO gone")
        await #expect(throws: Problem.self) { try await gateway.store.quotas.admit(organization) }
        try await connection.execute(script: "ALTER TABLE gone RENAME TO request_quotas")
        #expect(try await Self.ask(gateway, organization))
        connection.close()
    }

    @Test func `a purge deletes the organization's bucket`() async throws {
        let gateway = try await Gateway()
        let organization = try await gateway.organization(#"{"requests_per_second":8}"#)
        #expect(try await Self.ask(gateway, organization))
        #expect(try await gateway.store.administration.purge(organization.id))
        gateway.clock.advance(seconds: 10)
        do throws(Problem) {
            _ = try await gateway.store.quotas.admit(organization)
            Issue.record("the request was admitted")
        } catch {
            #expect(error.code == .organizationUnknown)
        }
        let connection = try await gateway.database.connect()
        defer { connection.close() }
        #expect(
            try await connection.run(Query(Statement("n", "SELECT count(*) FROM request_quotas"))).read(
                0,
                0,
                as: Int64.self
            ) == 0
        )
    }
}
