import AdministrationFeature
import Foundation
import JSONText
import Postgres
import StoreSupport
import SyncModel
import TestSupport
import Testing
import UsersFeature

@testable import SyncStore

/// Grants to the subjects of an issuer, which documents name.
@Suite struct SubjectGrantTests {
    private static let issuer: ByteExactString = "https://id.example"
    private static let grants =
        #"[{"user":"/who","issuer":"https://id.example","channels":["case/{id}"],"role":"write"}]"#

    private let gateway: Gateway

    init() async throws {
        gateway = try await Gateway()
        gateway.store.catalog.setUUIDIssuers { [] }
    }

    private func subject(_ text: String) -> Subject { Subject(issuer: Self.issuer, text: ByteExactString(text)) }

    private func declare(_ grants: String = grants, in organization: UUID) async throws {
        let settings = #"{"visibility":"channels","channels":["case/{id}","office"],"grants":\#(grants)}"#
        let update = try EntityTypeUpdate(body: Array(settings.utf8))
        _ = try await gateway.store.administration.putEntityType("case", in: organization, update)
    }

    /// An organization with a type that grants to subjects, and a phone of a user who may write its entities.
    private func office(_ settings: String = "{}") async throws -> Phone {
        let id = try await gateway.organization(settings).id
        try await declare(in: id)
        let phone = Phone(gateway, try await gateway.known(id))
        _ = try await gateway.store.administration.grantChannel("office", to: phone.user, .write, in: id)
        return phone
    }

    private func document(_ subjects: [String]) -> String {
        #"{"who":[\#(subjects.map { "\"\($0)\"" }.joined(separator: ","))]}"#
    }

    /// Creates a case, and returns its id.
    private func makeCase(_ subjects: [String], by phone: Phone) async throws -> String {
        try #require(try await phone.push([phone.create("case", payload: document(subjects))]).results[0].serverID)
    }

    private func change(_ id: String, _ subjects: [String], by phone: Phone) async throws {
        let update = phone.entry("update", "case", server: #""\#(id)""#, payload: document(subjects))
        #expect(try await phone.push([update]).results[0].status == "succeeded")
    }

    /// The phone of a user whose first token has a subject.
    private func signIn(_ text: String, inOrganizationOf phone: Phone) async throws -> Phone {
        let made = try await gateway.store.identities.make(subject(text), in: phone.organization)
        return Phone(gateway, phone.organization, user: made)
    }

    private func visible(to phone: Phone) async throws -> Set<String> {
        Set(try await phone.pull().filter { $0["deleted"]?.bool == false }.compactMap { $0["id"]?.string })
    }

    private func holders(in organization: Organization) async throws -> Set<String> {
        Set(
            try await gateway.rows(
                """
                SELECT user_id::text FROM channel_grants
                WHERE organization_id = '\(organization.id)' AND until IS NULL AND source <> 'operator'
                """
            )
        )
    }

    // MARK: - Subjects

    @Test func `a subject who is seen later sees the entities, in one organization`() async throws {
        let (office, other) = (try await office(), try await office())
        let id = try await makeCase(["auth0|ada", "auth0|bob"], by: office)
        let theirs = try await makeCase(["auth0|bob"], by: other)
        #expect(try await gateway.count("user_subjects", of: office.organization.id) == 0, "no user was made")
        let ada = try await signIn("auth0|ada", inOrganizationOf: office)
        let stranger = try await signIn("auth0|ada", inOrganizationOf: other)
        #expect(ada.user.isVersion8 && ada.user != stranger.user)
        #expect(try await visible(to: ada) == [id])
        #expect(try await visible(to: stranger) == [])
        #expect(try await visible(to: try await signIn("auth0|Ada", inOrganizationOf: office)) == [])
        #expect(try await visible(to: try await signIn("auth0|bob", inOrganizationOf: other)) == [theirs])
        // the user holds the channel with `write`, and loses it with the name
        try await change(id, ["auth0|ada", "auth0|carol"], by: ada)
        try await change(id, ["auth0|carol"], by: office)
        #expect(try await visible(to: ada) == [])
        #expect(try await visible(to: try await signIn("auth0|carol", inOrganizationOf: office)) == [id])
    }

    @Test func `a subject with an id of an earlier release keeps it`() async throws {
        let office = try await office()
        let user = UUID.version8()
        _ = try await gateway.read(
            """
            INSERT INTO user_subjects (organization_id, issuer, subject, user_id, created_at)
            VALUES ('\(office.organization.id)', '\(Self.issuer)', 'auth0|ada', '\(user)', now())
            """
        )
        let id = try await makeCase(["auth0|ada"], by: office)
        #expect(try await holders(in: office.organization) == [user.lowercased])
        #expect(try await signIn("auth0|ada", inOrganizationOf: office).user == user)
        #expect(try await visible(to: Phone(gateway, office.organization, user: user)) == [id])
    }

    @Test func `a grant provisions no user`() async throws {
        let office = try await office(#"{"provisioning":"explicit"}"#)
        let id = try await makeCase(["auth0|ada"], by: office)
        let ada = subject("auth0|ada")
        await #expect(throws: Problem.self) {
            try await gateway.store.identities.user(ada, in: office.organization)
        }
        let added = try await gateway.store.administration.putUser(ada, in: office.organization.id)
        let user = try #require(added?.value.id)
        #expect(try await visible(to: Phone(gateway, office.organization, user: user)) == [id])
    }

    @Test func `a grant to a merged user's subject is one to the target`() async throws {
        let office = try await office()
        let id = try await makeCase(["auth0|ada"], by: office)
        let (ada, target) = (
            try await signIn("auth0|ada", inOrganizationOf: office),
            try await signIn("auth0|ada2", inOrganizationOf: office)
        )
        try await ada.join(into: target)
        #expect(try await visible(to: target) == [id])
        let next = try await makeCase(["auth0|ada"], by: office)
        #expect(try await visible(to: target) == [id, next])
        try await change(id, ["auth0|bob"], by: office)
        #expect(try await visible(to: target).contains(next))
        #expect(try await holders(in: office.organization).contains(ada.user.lowercased) == false)
        // the target's mutations count grants to the subject of the merged user
        let own = target.entry("update", "case", server: #""\#(next)""#, payload: document(["auth0|ada"]))
        let again = target.entry("update", "case", server: #""\#(next)""#, payload: #"{"n":1}"#)
        #expect(try await target.push([own, again]).results.map(\.status) == ["succeeded", "succeeded"])
    }

    /// Once with an id that follows from the subject, and once with an id of an earlier release.
    @Test(arguments: [false, true]) func `an erased user gets no grants by the subject`(isEarlier: Bool) async throws {
        let office = try await office()
        if isEarlier {
            _ = try await gateway.read(
                """
                INSERT INTO user_subjects (organization_id, issuer, subject, user_id, created_at)
                VALUES ('\(office.organization.id)', '\(Self.issuer)', 'auth0|ada', '\(UUID.version8())', now())
                """
            )
        }
        let id = try await makeCase(["auth0|ada", "auth0|bob"], by: office)
        let ada = try await signIn("auth0|ada", inOrganizationOf: office)
        #expect(try await holders(in: office.organization).contains(ada.user.lowercased))
        try await ada.erase()
        let bob = try await signIn("auth0|bob", inOrganizationOf: office)
        #expect(try await holders(in: office.organization) == [bob.user.lowercased])
        try await change(id, ["auth0|bob", "auth0|ada"], by: office)
        _ = try await makeCase(["auth0|ada"], by: office)
        #expect(try await holders(in: office.organization) == [bob.user.lowercased])
        await #expect(throws: Problem.self) {
            try await gateway.store.identities.make(subject("auth0|ada"), in: office.organization)
        }
    }

    @Test func `a user who was provisioned and erased without a token gets no grants`() async throws {
        let office = try await office()
        _ = try await makeCase(["auth0|ada"], by: office)
        let added = try await gateway.store.administration.putUser(
            subject("auth0|ada"),
            in: office.organization.id
        )
        let user = try #require(added?.value.id)
        #expect(try await holders(in: office.organization) == [user.lowercased])
        try await Phone(gateway, office.organization, user: user).erase()
        #expect(try await holders(in: office.organization) == [])
    }

    /// A document's subject is read as a subject in a token.
    @Test func `a UUID is the user's id unless the issuer's users are mapped`() async throws {
        let office = try await office()
        let user = UUID()
        let mapped = try await makeCase([user.uuidString], by: office)
        #expect(try await holders(in: office.organization) != [user.lowercased])
        #expect(try await visible(to: try await signIn(user.uuidString, inOrganizationOf: office)) == [mapped])
        gateway.store.catalog.setUUIDIssuers { [Self.issuer] }
        gateway.store.catalog.invalidate(office.organization.id)
        let id = try await makeCase([user.uuidString], by: office)
        #expect(try await visible(to: Phone(gateway, office.organization, user: user)) == [id])
    }

    @Test func `a UUID changes no grants in a process without token settings`() async throws {
        let office = try await office()
        let ada = try await signIn("auth0|ada", inOrganizationOf: office)
        let id = try await makeCase(["auth0|ada"], by: office)
        gateway.store.catalog.setUUIDIssuers { nil }
        gateway.store.catalog.invalidate(office.organization.id)
        try await change(id, ["auth0|bob", UUID().uuidString], by: office)
        #expect(try await holders(in: office.organization) == [ada.user.lowercased])
        // other texts are always subjects
        try await change(id, ["auth0|bob"], by: office)
        #expect(try await visible(to: ada) == [])
        #expect(try await visible(to: try await signIn("auth0|bob", inOrganizationOf: office)) == [id])
    }

    // MARK: - Writes

    @Test func `a grant counts for later mutations of the same push`() async throws {
        let office = try await office()
        let ada = try await signIn("auth0|ada", inOrganizationOf: office)
        let id = try await makeCase(["auth0|ada"], by: office)
        func update(_ payload: String) -> Entry {
            ada.entry("update", "case", server: #""\#(id)""#, payload: payload)
        }
        let updates = [update(#"{"n":1}"#), update(document(["auth0|ada", "auth0|bob"])), update(#"{"n":2}"#)]
        #expect(try await ada.push(updates).results.map(\.status) == ["succeeded", "succeeded", "succeeded"])
        let last = [update(document(["auth0|bob"])), update(#"{"n":3}"#)]
        let results = try await ada.push(last).results
        #expect(results[0].status == "succeeded" && results[1].status == "failed")
    }

    @Test func `events grant to subjects`() async throws {
        let office = try await office()
        let event = EventSource.event("e1", of: "case", #""seven""#, version: 1, document(["auth0|ada"]))
        #expect(try await EventSource(gateway, office.organization).results([event]) == ["applied"])
        #expect(try await visible(to: try await signIn("auth0|ada", inOrganizationOf: office)) == ["seven"])
    }

    @Test func `an evaluation replaces grants to ids by grants to subjects, once`() async throws {
        let id = try await gateway.organization().id
        try await declare(#"[{"user":"/id","channels":["case/{id}"],"role":"read"}]"#, in: id)
        let office = Phone(gateway, try await gateway.known(id))
        _ = try await gateway.store.administration.grantChannel("office", to: office.user, .write, in: id)
        let (first, gone) = (UUID(), try await signIn("auth0|gone", inOrganizationOf: office))
        try await gone.erase()
        let payload = #"{"id":"\#(first.lowercased)","who":["auth0|ada","auth0|gone"]}"#
        try await office.push([office.create("case", payload: payload)])
        #expect(try await holders(in: office.organization) == [first.lowercased])
        try await declare(in: id)
        var steps: [Int] = []
        for _ in 0..<2 {
            let step = try await gateway.store.channelEvaluation.step(of: "case", in: id, after: "")
            steps.append(step?.written ?? -1)
        }
        #expect(steps == [1, 0], "the second run finds the grants up to date")
        gateway.store.catalog.setUUIDIssuers { nil }
        gateway.store.catalog.invalidate(id)
        await #expect(throws: Problem.self, "a UUID could be a subject or a user's id") {
            try await gateway.store.channelEvaluation.step(of: "case", in: id, after: "")
        }
        gateway.store.catalog.setUUIDIssuers { [] }
        let ada = try await signIn("auth0|ada", inOrganizationOf: office)
        #expect(try await holders(in: office.organization) == [ada.user.lowercased])
    }

    @Test func `a salt of one organization makes other ids in another`() async throws {
        let (office, other) = (try await office(), try await office())
        let salts = try await gateway.rows("SELECT encode(salt, 'hex') FROM erasure_salts")
        #expect(Set(salts).count == 2, "the setting makes the salt")
        for phone in [office, other] { _ = try await makeCase(["auth0|ada"], by: phone) }
        let (one, two) = (
            try await holders(in: office.organization), try await holders(in: other.organization)
        )
        #expect(one.count == 1 && two.count == 1 && one != two)
    }

    /// PostgreSQL then interprets backslashes in literals, unless a session sets the parameter.
    @Test func `documents grant channels in a database without standard strings`() async throws {
        let connection = try await gateway.database.connect()
        defer { connection.close() }
        try await connection.execute(
            script: """
                DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET standard_conforming_strings = off', current_database());
                END $$
                """
        )
        let other = try await Gateway(replicaOf: gateway)
        other.store.catalog.setUUIDIssuers { [] }
        let phone = Phone(other, try await other.known(try await office().organization.id))
        let administration = other.store.administration
        _ = try await administration.grantChannel("office", to: phone.user, .write, in: phone.organization.id)
        let id = try await makeCase(["kari"], by: phone)
        try await change(id, ["ola"], by: phone)
    }
}
