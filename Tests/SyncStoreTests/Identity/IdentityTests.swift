import Foundation
import Postgres
import StoreSupport
import SyncHTTP
import SyncModel
import TestSupport
import Testing

@testable import AdministrationFeature
@testable import SyncStore
@testable import UsersFeature

/// The mapping of the names that issuers use for users and organizations.
@Suite struct IdentityTests {
    private static let issuer: ByteExactString = "https://id.example"
    private let ada = Subject(issuer: issuer, text: "auth0|ada")

    private func problem(_ body: () async throws -> some Sendable) async throws -> ProblemCode? {
        do {
            _ = try await body()
            return nil
        } catch let problem as Problem {
            return problem.code
        }
    }

    private func count(_ gateway: Gateway) async throws -> Int64 {
        try await gateway.store.pool.run([Query(Statement("test_subjects", "SELECT count(*) FROM user_subjects"))])[0]
            .read(0, 0, as: Int64.self)
    }

    private func name(_ id: ByteExactString, _ organization: Organization, _ gateway: Gateway) async throws {
        try await gateway.store.pool.withConnection { connection in
            try await connection.execute(
                script: """
                    INSERT INTO external_ids (organization_id, issuer, external_id, created_at)
                    VALUES ('\(organization.id)', '\(Self.issuer)', '\(id)', now())
                    """
            )
        }
    }

    @Test func `a subject keeps its id in this gateway, in another one and after a restart`() async throws {
        let replicas = try await GatewayPair()
        let organization = try await replicas[0].organization()
        let id = try await replicas[0].store.identities.mapped(ada, in: organization)
        #expect(id.isVersion8)
        #expect(replicas[0].store.identities.cachedUser(ada, in: organization.id) == id)
        #expect(replicas[1].store.identities.cachedUser(ada, in: organization.id) == nil)
        #expect(try await replicas[1].store.identities.mapped(ada, in: organization) == id)
        try await replicas.restart(0)
        #expect(try await replicas[0].store.identities.mapped(ada, in: organization) == id)
        #expect(try await count(replicas.base) == 1)
    }

    /// One gateway purges an organization and creates another organization with the same id. A gateway that served the
    /// purged organization forgets its users.
    @Test func `an organization created again with its id has no users of the purged organization`() async throws {
        let replicas = try await GatewayPair()
        let (one, other) = (replicas[0], replicas[1])
        let organization = try await one.organization()
        let id = try await other.store.identities.mapped(ada, in: organization)
        let user = LaneKey(organization: organization.id, user: id)
        _ = try await other.known(organization.id)
        #expect(try await other.store.identities.isMade(user))
        for replica in [one, other] { replica.clock.advance(seconds: 10) }
        _ = try await one.store.administration.purge(organization.id)
        let again = try OrganizationUpdate(body: Array(#"{"name":"Another"}"#.utf8))
        _ = try await one.store.administration.put(organization.id, again)
        other.clock.advance(seconds: 6)
        let reborn = try await other.known(organization.id)
        #expect(reborn.name == "Another")
        #expect(other.store.identities.cachedUser(ada, in: organization.id) == nil)
        #expect(try await other.store.identities.user(ada, in: reborn) == nil)
        #expect(try await other.store.identities.isMade(user) == false)
        let new = try await other.store.identities.make(ada, in: reborn)
        #expect(new != id)
        #expect(try await one.store.identities.mapped(ada, in: reborn) == new)
    }

    @Test func `subjects are equal only if their bytes and their issuers are equal`() async throws {
        let gateway = try await Gateway()
        let organization = try await gateway.organization()
        let subjects = [
            ada, Subject(issuer: "https://other.example", text: ada.text), Subject(issuer: "", text: ada.text),
            Subject(issuer: Self.issuer, text: "auth0|Ada"), Subject(issuer: Self.issuer, text: " auth0|ada"),
            Subject(issuer: Self.issuer, text: "\u{e9}"), Subject(issuer: Self.issuer, text: "e\u{301}"),
            Subject(issuer: Self.issuer, text: "'; DROP TABLE users; --"),
            Subject(issuer: Self.issuer, text: ByteExactString(String(repeating: "😀", count: 63) + "abc")),
        ]
        var ids: [UUID] = []
        for subject in subjects { ids.append(try await gateway.store.identities.mapped(subject, in: organization)) }
        #expect(Set(ids).count == subjects.count)
        gateway.store.identities.invalidate()
        for (subject, id) in zip(subjects, ids) {
            #expect(try await gateway.store.identities.mapped(subject, in: organization) == id)
        }
    }

    @Test func `the same subject is a different user in another organization`() async throws {
        let gateway = try await Gateway()
        let (north, south) = (try await gateway.organization(), try await gateway.organization())
        let id = try await gateway.store.identities.mapped(ada, in: north)
        #expect(gateway.store.identities.cachedUser(ada, in: south.id) == nil)
        let other = try await gateway.store.identities.mapped(ada, in: south)
        #expect(other != id)
        // an id of one organization does not exist in the other
        #expect(try await gateway.store.identities.isMade(LaneKey(organization: north.id, user: id)))
        #expect(try await !gateway.store.identities.isMade(LaneKey(organization: south.id, user: id)))
    }

    /// The first gateway has not committed the row when the second gateway reads.
    @Test func `two gateways that see a new subject at the same time create one user`() async throws {
        let gateway = try await Gateway()
        let organization = try await gateway.organization()
        let connection = try await gateway.database.connect()
        defer { connection.close() }
        let made = Identities.make(ada, in: organization.id, at: gateway.clock.now)
        let first = try await connection.run([.begin] + made)[3].read(0, 0, as: UUID.self)
        let second = Task { try await gateway.store.identities.mapped(ada, in: organization) }
        try await gateway.waitForLocks(1)
        _ = try await connection.run([.commit])
        #expect(try await second.value == first)
        #expect(try await count(gateway) == 1)
    }

    @Test func `concurrent first requests create one user`() async throws {
        let replicas = try await GatewayPair()
        let organization = try await replicas[0].organization()
        let ids = try await withThrowingTaskGroup(of: UUID.self) { group in
            for index in 0..<60 {
                group.addTask { [ada] in
                    try await replicas[index % 2].store.identities.mapped(ada, in: organization)
                }
            }
            return try await group.reduce(into: Set<UUID>()) { $0.insert($1) }
        }
        #expect(ids.count == 1)
        #expect(try await count(replicas.base) == 1)
    }

    @Test func `a purged organization maps no subjects, and its cached mappings are gone`() async throws {
        let gateway = try await Gateway()
        let organization = try await gateway.organization()
        let other = try await gateway.organization()
        let id = try await gateway.store.identities.mapped(ada, in: organization)
        let kept = try await gateway.store.identities.mapped(ada, in: other)
        try await name("acme", organization, gateway)
        #expect(try await gateway.store.administration.purge(organization.id))
        #expect(gateway.store.identities.cachedUser(ada, in: organization.id) == nil)
        let refused = try await problem { try await gateway.store.identities.mapped(ada, in: organization) }
        #expect(refused == .organizationUnknown)
        #expect(try await gateway.store.identities.organization(ExternalID(issuer: Self.issuer, id: "acme")) == nil)
        #expect(try await gateway.store.identities.mapped(ada, in: other) == kept)
        #expect(kept != id)
        #expect(try await count(gateway) == 1)
    }

    @Test func `subjects are not mapped if an operator provisions the users`() async throws {
        let gateway = try await Gateway()
        let organization = try await gateway.organization(#"{"provisioning":"explicit"}"#)
        for _ in 0..<2 {
            let refused = try await problem { try await gateway.store.identities.mapped(ada, in: organization) }
            #expect(refused == .userUnknown)
        }
        #expect(try await count(gateway) == 0)
        // another gateway admits the subject, which this gateway detects within five seconds
        let made = Identities.make(ada, in: organization.id, at: gateway.clock.now)
        let id = try await gateway.store.pool.run(made)[2].read(0, 0, as: UUID.self)
        let stale = try await problem { try await gateway.store.identities.mapped(ada, in: organization) }
        #expect(stale == .userUnknown)
        gateway.clock.advance(seconds: 5)
        #expect(try await gateway.store.identities.mapped(ada, in: organization) == id)
    }

    @Test func `recognizes only ids that Sluice created`() async throws {
        let gateway = try await Gateway()
        let organization = try await gateway.organization()
        let id = try await gateway.store.identities.mapped(ada, in: organization)
        func isMade(_ user: UUID) async throws -> Bool {
            try await gateway.store.identities.isMade(LaneKey(organization: organization.id, user: user))
        }
        #expect(try await isMade(id))
        #expect(try await !isMade(UUID.version8()))
        // ids of other kinds are recognized without a query
        #expect(gateway.store.identities.isCachedAsMade(LaneKey(organization: organization.id, user: UUID())) == false)
        #expect(gateway.store.identities.isCachedAsMade(LaneKey(organization: organization.id, user: id)) == true)
    }

    @Test func `a name identifies one organization of one issuer, byte by byte`() async throws {
        let gateway = try await Gateway()
        let (north, south) = (try await gateway.organization(), try await gateway.organization())
        try await name("acme", north, gateway)
        try await name("Acme", south, gateway)
        func found(_ issuer: ByteExactString, _ id: ByteExactString) async throws -> UUID? {
            try await gateway.store.identities.organization(ExternalID(issuer: issuer, id: id))
        }
        #expect(try await found(Self.issuer, "acme") == north.id)
        #expect(try await found(Self.issuer, "Acme") == south.id)
        #expect(gateway.store.identities.cachedOrganization(ExternalID(issuer: Self.issuer, id: "acme")) == north.id)
        for (issuer, id): (ByteExactString, ByteExactString) in [
            ("", "acme"), ("https://other.example", "acme"), (Self.issuer, "ACME"),
        ] {
            #expect(try await found(issuer, id) == nil)
        }
        await #expect(throws: PostgresError.self) { try await name("acme", south, gateway) }
    }

    @Test func `a look-up of a name is cached for five seconds, even if it finds nothing`() async throws {
        let gateway = try await Gateway()
        let organization = try await gateway.organization()
        let acme = ExternalID(issuer: Self.issuer, id: "acme")
        #expect(try await gateway.store.identities.organization(acme) == nil)
        try await name("acme", organization, gateway)
        #expect(try await gateway.store.identities.organization(acme) == nil)
        gateway.clock.advance(seconds: 5)
        #expect(gateway.store.identities.cachedOrganization(acme) == nil)
        #expect(try await gateway.store.identities.organization(acme) == organization.id)
    }

    /// Checks small and large tables, without and with statistics, with custom and generic plans.
    @Test(.onOneServer("plans of one server"))
    func `finds subjects and names by index in one partition`() async throws {
        let gateway = try await Gateway()
        let organization = try await gateway.organization()
        let user = try await gateway.store.identities.mapped(ada, in: organization)
        try await name("acme", organization, gateway)
        let connection = try await gateway.database.connect(settings: Store.pooledSettings)
        defer { connection.close() }
        let fill = """
            INSERT INTO user_subjects (organization_id, issuer, subject, user_id, created_at)
            SELECT o.id, 'https://id.example', 'auth0|' || n || o.id, gen_random_uuid(), now()
            FROM generate_series(1, 5000) n, (VALUES ('\(organization.id)'::uuid), (gen_random_uuid())) o (id);
            INSERT INTO lanes (organization_id, user_id)
            SELECT o.id, gen_random_uuid()
            FROM generate_series(1, 5000), (VALUES ('\(organization.id)'::uuid), (gen_random_uuid())) o (id);
            INSERT INTO devices (organization_id, user_id, device_id, accepted_sequence, created_at, last_seen_at)
            SELECT l.organization_id, l.user_id, gen_random_uuid(), 0, now(), now() FROM lanes l, generate_series(1, 3);
            INSERT INTO organizations (id, name, status, created_at, updated_at)
            SELECT gen_random_uuid(), 'Other', 'active', now(), now() FROM generate_series(1, 60);
            INSERT INTO external_ids (organization_id, issuer, external_id, created_at)
            SELECT o.id, 'https://id.example', 'org_' || n || o.id, now()
            FROM organizations o, generate_series(1, 90) n ORDER BY o.id
            """
        let key = "'\(organization.id)', 'https://id.example', 'auth0|ada'"
        let calls = [
            (Identities.statements[0], key), (Identities.statements[2], "\(key), '2026-11-20T07:00:00Z'"),
            (Identities.statements[3], "'\(organization.id)', '\(user)'"),
            (Identities.statements[4], "'https://id.example', 'acme'"), (Identities.statements[5], key),
        ]
        let names = "'\(UUID())', '{https://id.example}', '{org_1}'"
        let administration = [
            (Administration.listUsersStatement, "'\(organization.id)', '\(user)', 4"),
            (Administration.putSubjectStatement, "\(key), '2026-11-20T07:00:00Z'"),
            (Administration.subjectsStatement, "'\(organization.id)', '{\(user),\(UUID())}'"),
            (Administration.takenExternalIDsStatement, names), (Administration.dropExternalIDsStatement, names),
            (Administration.getStatement, "'\(organization.id)'"),
        ]
        for script in [
            fill, "ANALYZE lanes; ANALYZE devices; ANALYZE user_subjects; ANALYZE external_ids; ANALYZE organizations",
        ] {
            try await connection.execute(script: script)
            for (statement, values) in calls + administration {
                for plan in try await connection.plans(of: statement, values) {
                    for table in ["user_subjects", "external_ids", "lanes", "devices"] {
                        #expect(!plan.contains("Seq Scan on \(table)"), "\(plan)")
                    }
                    let isPruned = plan.hasPrefix("force_custom_plan") || plan.contains("Subplans Removed: 3")
                    #expect(isPruned || !plan.contains("on user_subjects_p"), "\(plan)")
                    // a page of users looks up seven rows for each user
                    #expect(pages(in: plan) < (plan.contains("users_list") ? 160 : 60), "\(plan)")
                }
            }
        }
    }
}

extension Identities {
    /// The user of a subject, as a request finds it.
    fileprivate func mapped(_ subject: Subject, in organization: Organization) async throws(Problem) -> UUID {
        if let user = try await user(subject, in: organization) { return user }
        return try await make(subject, in: organization)
    }
}
