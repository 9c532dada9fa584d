import Foundation
import JSONText
import Postgres
import StoreSupport
import SyncHTTP
import SyncModel
import TestSupport
import Testing

@testable import AdministrationFeature
@testable import EncryptionFeature
@testable import SyncStore
@testable import UsersFeature

/// Users with their own data keys.
@Suite struct UserKeyStoreTests {
    static let marker = "geheimnis"
    static let on = #"{"user_keys":true}"#

    /// An organization whose users have keys, and a type whose documents only their owners see.
    func organization(_ gateway: Gateway, _ settings: String = on) async throws -> Organization {
        let organization = try await gateway.organization(settings)
        try await show(.user, "diary", gateway, organization)
        return try await gateway.known(organization.id)
    }

    func show(
        _ visibility: Visibility,
        _ type: String,
        _ gateway: Gateway,
        _ organization: Organization,
        onErase: OnErase = .delete
    ) async throws {
        var update = EntityTypeUpdate()
        (update.visibility, update.onErase) = (visibility, onErase)
        _ = try await gateway.store.administration.putEntityType(type, in: organization.id, update)
    }

    func put(_ settings: String, _ organization: Organization, _ gateway: Gateway) async throws(Problem) {
        let body = #"{"settings":\#(settings)}"#
        _ = try await gateway.store.administration.put(organization.id, OrganizationUpdate(body: Array(body.utf8)))
    }

    /// Pushes a private document, a shared document, and a refused entry.
    @discardableResult
    func history(_ phone: Phone) async throws -> [Entry] {
        let payload = #"{"title":"\#(Self.marker)"}"#
        var bad = phone.create(payload: payload)
        bad.extra["dependency_ids"] = #"["\#(UUID().lowercased)"]"#
        let entries = [phone.create("diary", payload: payload), phone.create("task", payload: payload), bad]
        #expect(try await phone.push(entries).results.map(\.status) == ["succeeded", "succeeded", "rejected"])
        return entries
    }

    func beginning(_ user: UUID, number: Int32 = 1) -> String {
        SealedText.beginning(number: number, user: user, isJSON: false)
    }

    func tables(_ text: String, _ gateway: Gateway) async throws -> [String: Int] {
        try await gateway.database.mentions(of: text)
    }

    func titles(_ phone: Phone) async throws -> [String] {
        try await phone.pull().compactMap { $0["document"]?["title"]?.string }
    }

    // MARK: - Sealing

    @Test func `users' content is sealed with their own keys`() async throws {
        let gateway = try await Gateway(masterKeys: TestKeys.first)
        let (first, second) = (try await organization(gateway), try await organization(gateway))
        let (ada, bob) = (Phone(gateway, first), Phone(gateway, first))
        let eve = Phone(gateway, second, user: ada.user)
        var entries: [Entry] = []
        for phone in [ada, bob, eve] { entries = try await history(phone) }
        #expect(try await tables(Self.marker, gateway) == [:])
        for (user, factor) in [(ada.user, 2), (bob.user, 1)] {
            let found = try await tables(beginning(user), gateway)
            #expect(found == ["entities": factor, "mutations": 2 * factor, "rejections": factor])
        }
        // content visible to the whole organization is sealed with the organization's key alone
        #expect(try await tables(SealedText.beginning(number: 1, isJSON: false), gateway) == ["entities": 3])
        #expect(try await gateway.count("user_keys", of: first.id) == 2)

        // a gateway with no key in its cache
        let cold = try await Gateway(replicaOf: gateway, masterKeys: TestKeys.first)
        let elsewhere = eve.signedIn(as: eve.user, through: cold)
        #expect(try await titles(elsewhere) == [Self.marker, Self.marker])
        #expect(try await elsewhere.push(entries).results.map(\.isReplayed) == [true, true, true])
        let page = try await cold.store.mutations.list(MutationFilter(), organization: first, of: nil)
        let listed = try JSONTree(parsing: page.json()).root.list("mutations")
        #expect(listed.count == 4 && listed.allSatisfy { $0["unreadable"] == nil })
        #expect(listed.allSatisfy { $0["payload"]?["title"]?.string == Self.marker })
    }

    @Test func `users have no keys without the setting`() async throws {
        let gateway = try await Gateway(masterKeys: TestKeys.first)
        let organization = try await organization(gateway, #"{"user_keys":false}"#)
        let phone = Phone(gateway, organization)
        try await history(phone)
        #expect(try await gateway.count("user_keys", of: organization.id) == 0)
        #expect(try await tables("sluice-sealed:1:1.", gateway) == [:])
    }

    @Test func `creates many keys at once, and uses those of the first of two gateways`() async throws {
        let one = try await Gateway(masterKeys: TestKeys.first)
        let other = try await Gateway(replicaOf: one, masterKeys: TestKeys.first)
        let organization = try await organization(one)
        let users = (0..<300).map { _ in LaneKey(organization: organization.id, user: UUID()) }
        let seals = [
            try await one.store.catalog.seal(of: organization.id),
            try await other.store.catalog.seal(of: organization.id),
        ]
        async let first: Void = one.store.catalog.userKeys.prepare(users) { _ in seals[0] }
        async let second: Void = other.store.catalog.userKeys.prepare(users) { _ in seals[1] }
        _ = try await (first, second)
        #expect(try await one.count("user_keys", of: organization.id) == 300)
        for user in users {
            let place = SealedPlace.rejection(user: user.user, key: UUID())
            let stored = try seals[0].seal(json: Array("{}".utf8), as: place)
            #expect(try seals[1].open(json: stored, as: place) == Array("{}".utf8))
        }
        let before = try await one.rows("SELECT md5(string_agg(k::text, '' ORDER BY k)) FROM user_keys k")
        try await one.store.catalog.userKeys.prepare(users) { _ in seals[0] }
        #expect(try await one.rows("SELECT md5(string_agg(k::text, '' ORDER BY k)) FROM user_keys k") == before)
    }

    @Test func `a gateway without cached keys commits a group of many users`() async throws {
        let gateway = try await Gateway(masterKeys: TestKeys.first)
        let organization = try await organization(gateway)
        let phones = (0..<20).map { _ in Phone(gateway, organization) }
        for phone in phones { try await phone.push([phone.create("diary")]) }
        gateway.store.catalog.userKeys.ring.removeAll()
        let statuses = try await withThrowingTaskGroup(of: [String].self) { group in
            for phone in phones {
                group.addTask {
                    try await phone.push([phone.create("diary"), phone.create()]).results.map { $0.status ?? "-" }
                }
            }
            return try await group.reduce(into: []) { $0 += $1 }
        }
        #expect(statuses.count == 40 && statuses.allSatisfy { $0 == "succeeded" })
    }

    @Test func `ingested events are sealed with their owner's key`() async throws {
        let gateway = try await Gateway(masterKeys: TestKeys.first)
        let organization = try await organization(gateway)
        let source = EventSource(gateway, organization)
        let phones = (0..<10).map { _ in Phone(gateway, organization) }
        func events(_ version: Int) -> [String] {
            phones.enumerated().map { index, phone in
                EventSource.event(
                    "e\(version)-\(index)",
                    of: "diary",
                    #""\#(index)""#,
                    version: Int64(version),
                    #"{"title":"\#(Self.marker)"}"#,
                    extra: ["owner": #""\#(phone.user.lowercased)""#]
                )
            }
        }
        #expect(try await source.results(events(1)).allSatisfy { $0 == "applied" })
        #expect(try await tables(Self.marker, gateway) == [:])
        #expect(try await gateway.count("user_keys", of: organization.id) == 10)
        gateway.store.catalog.userKeys.ring.removeAll()
        #expect(try await source.results(events(2)).allSatisfy { $0 == "applied" })
        for phone in phones { #expect(try await titles(phone) == [Self.marker]) }
    }

    @Test func `a refused event creates no key`() async throws {
        let gateway = try await Gateway(masterKeys: TestKeys.first)
        let organization = try await organization(gateway)
        let (ada, nobody) = (UUID(), UUID())
        let events = [(ada, "upsert"), (nobody, "patch")].map { user, operation in
            EventSource.event(
                operation,
                operation,
                of: "diary",
                #""\#(operation)""#,
                version: 1,
                extra: ["owner": #""\#(user.lowercased)""#]
            )
        }
        #expect(try await EventSource(gateway, organization).results(events) == ["applied", "refused"])
        #expect(try await tables(nobody.lowercased, gateway) == [:])
        #expect(try await gateway.count("user_keys", of: organization.id) == 1)
    }

    @Test func `a user that only has a key can be erased`() async throws {
        let gateway = try await Gateway(masterKeys: TestKeys.first)
        let organization = try await organization(gateway)
        let phone = Phone(gateway, organization)
        let seal = try await gateway.store.catalog.seal(of: organization.id)
        let lane = LaneKey(organization: organization.id, user: phone.user)
        try await gateway.store.catalog.userKeys.prepare([lane]) { _ in seal }
        #expect(try await gateway.count("user_keys", of: organization.id) == 1)
        #expect(try await gateway.store.exports.isKnown(lane))
        try await phone.erase()
        #expect(try await tables(phone.user.lowercased, gateway) == [:])
    }

    // MARK: - The setting

    @Test func `the setting requires a master key and gateways that support it`() async throws {
        let without = try await Gateway(masterKeys: SealingTests.without)
        let plain = try await without.organization()
        let refused = await #expect(throws: Problem.self) { try await put(Self.on, plain, without) }
        #expect(refused?.code == .validationFailed)
        #expect(refused?.errors.map(\.pointer) == ["/settings/user_keys"])

        let gateway = try await Gateway(masterKeys: TestKeys.first)
        let organization = try await gateway.organization()
        let phone = Phone(gateway, organization)
        try await phone.execute(
            """
            INSERT INTO gateways (id, seen_at, newest_migration)
            VALUES (gen_random_uuid(), clock_timestamp(), '0021_sources')
            """
        )
        let early = await #expect(throws: Problem.self) { try await put(Self.on, organization, gateway) }
        #expect(early?.code == .validationFailed && early?.errors.map(\.rule) == ["user_keys_old_gateway"])
        #expect(try await gateway.known(organization.id).settings.userKeys == false)
        try await phone.execute("DELETE FROM gateways")
        try await put(Self.on, organization, gateway)
        #expect(try await gateway.known(organization.id).settings.userKeys)
    }

    @Test func `content stays readable after a change of the setting, and is resealed on request`() async throws {
        let gateway = try await Gateway(masterKeys: TestKeys.first)
        let organization = try await organization(gateway, "{}")
        let phone = Phone(gateway, organization)
        try await put(#"{"user_keys":false}"#, organization, gateway)
        try await history(phone)
        try await put(Self.on, organization, gateway)
        #expect(try await titles(phone).count == 2)
        try await history(phone)
        #expect(try await tables(beginning(phone.user), gateway) == ["entities": 1, "mutations": 2, "rejections": 1])
        let rotation = gateway.store.keyRotation
        let rows = try #require(try await rotation.sealRows(of: organization.id, grace: 0) { _ in })
        #expect(rows.sealed == 4 && rows.unreadable == 0)
        #expect(try await tables(beginning(phone.user), gateway) == ["entities": 2, "mutations": 4, "rejections": 2])
        #expect(try await rotation.sealRows(of: organization.id, grace: 0) { _ in }?.sealed == 0)
        #expect(try await titles(phone).count == 4)

        // rotating the organization's data key also reseals the users' rows
        let number = try #require(try await rotation.renew(organization.id))
        let renewed = try #require(try await rotation.sealRows(of: organization.id, grace: 0) { _ in })
        #expect(renewed.droppedKeys == 1)
        #expect(
            try await tables(beginning(phone.user, number: number), gateway) == [
                "entities": 2, "mutations": 4, "rejections": 2,
            ]
        )
        #expect(try await titles(phone).count == 4)

        try await put(#"{"user_keys":false}"#, organization, gateway)
        try await history(phone)
        #expect(try await titles(phone).count == 6)
        _ = try await rotation.sealRows(of: organization.id, grace: 0) { _ in }
        #expect(try await tables(beginning(phone.user, number: number), gateway) == [:])
        #expect(try await titles(phone).count == 6)
    }

    /// Returns two phones: the first has written before and after users had keys, the second only before.
    private func withAndWithoutKey() async throws -> (Gateway, Organization, one: Phone, other: Phone) {
        let gateway = try await Gateway(masterKeys: TestKeys.first)
        let organization = try await organization(gateway, "{}")
        let (one, other) = (Phone(gateway, organization), Phone(gateway, organization))
        try await put(#"{"user_keys":false}"#, organization, gateway)
        for phone in [one, other] { try await history(phone) }
        try await put(Self.on, organization, gateway)
        try await history(one)
        return (gateway, organization, one, other)
    }

    @Test func `sealing creates no new key for a user who lost one`() async throws {
        let (gateway, organization, one, other) = try await withAndWithoutKey()
        // the state after a restore, before the newest dump of the keys is loaded
        _ = try await gateway.rows("CREATE TABLE kept AS SELECT * FROM user_keys")
        _ = try await gateway.rows("DELETE FROM user_keys")
        let restored = try await Gateway(replicaOf: gateway, masterKeys: TestKeys.first)
        let rotation = restored.store.keyRotation
        func seal(_ number: Int32?) async throws -> SealedRows {
            if let number { #expect(try await rotation.renew(organization.id) == number) }
            return try #require(try await rotation.sealRows(of: organization.id, grace: 0) { _ in })
        }
        for number in [nil, 2] as [Int32?] {
            let found = try await seal(number)
            #expect(found.unreadable == 4 && found.droppedKeys == 0 && found.keptKeys == (number == nil ? 0 : 1))
            #expect(
                found.unreadableValues.allSatisfy { $0.contains("of user \(one.user.lowercased), which was deleted") }
            )
            #expect(try await gateway.rows("SELECT made_for::text FROM user_keys") == [other.user.lowercased])
            #expect(try await tables(Self.marker, gateway) == [:])
        }
        // the state after the newest dump of the keys is loaded
        _ = try await gateway.rows("INSERT INTO user_keys SELECT * FROM kept")
        restored.store.catalog.userKeys.ring.removeAll()
        let found = try await seal(nil)
        #expect(found.unreadable == 0 && found.droppedKeys == 1 && found.keptKeys == 0)
        #expect(
            try await tables(beginning(one.user, number: 2), gateway) == [
                "entities": 2, "mutations": 4, "rejections": 2,
            ]
        )
        #expect(try await titles(one.signedIn(as: one.user, through: restored)).filter { $0 == Self.marker }.count == 5)
    }

    @Test func `an unreadable key does not prevent sealing other users' rows`() async throws {
        let (gateway, organization, one, other) = try await withAndWithoutKey()
        // only the user's key is wrapped by another master key
        try await one.execute("CREATE TABLE kept AS SELECT * FROM user_keys")
        try await one.execute("UPDATE user_keys SET master_key = 'second:00000000'")
        let restored = try await Gateway(replicaOf: gateway, masterKeys: TestKeys.first)
        restored.clock.set(gateway.clock.now)
        let rotation = restored.store.keyRotation
        let found = try #require(try await rotation.sealRows(of: organization.id, grace: 0) { _ in })
        #expect(found.unreadable > 0 && found.droppedKeys == 0)
        #expect(found.unreadableValues.allSatisfy { $0.contains("master key second:00000000") })
        #expect(try await tables(beginning(other.user), gateway) == ["entities": 1, "mutations": 2, "rejections": 1])

        // documents from other writers are accepted without the user's key, but the user's own writes require the key
        let source = EventSource(restored, organization)
        let events = [one.user, other.user].map { user in
            EventSource.event(
                user.lowercased,
                of: "diary",
                "\"\(user.lowercased)\"",
                version: 1,
                #"{"title":"elsewhere"}"#,
                extra: ["owner": "\"\(user.lowercased)\""]
            )
        }
        #expect(try await source.results(events) == ["applied", "applied"])
        #expect(try await tables("elsewhere", gateway) == [:])
        let late = one.signedIn(as: one.user, through: restored)
        await #expect(throws: Problem.self) { try await late.push([late.create()]) }

        // with the key, all rows are sealed
        try await one.execute(
            "UPDATE user_keys k SET master_key = o.master_key FROM kept o WHERE o.made_for = k.made_for"
        )
        restored.store.catalog.userKeys.ring.removeAll()
        let rest = try #require(try await rotation.sealRows(of: organization.id, grace: 0) { _ in })
        #expect(rest.unreadable == 0)
        #expect(try await tables(beginning(one.user), gateway) == ["entities": 3, "mutations": 4, "rejections": 2])
        #expect(try await titles(late).filter { $0 == "elsewhere" }.count == 1)
    }

    @Test func `a lost user key is not replaced while an older data key is missing too`() async throws {
        let gateway = try await Gateway(masterKeys: TestKeys.first)
        let organization = try await organization(gateway)
        let one = Phone(gateway, organization)
        try await history(one)
        // the user's values are sealed with data key 1, which another master key wraps now, and the user's own key is
        // lost
        let both = try await Gateway(replicaOf: gateway, masterKeys: TestKeys.second + "\n" + TestKeys.first)
        #expect(try await both.store.keyRotation.renew(organization.id) == 2)
        try await one.execute(
            """
            CREATE TABLE kept AS SELECT * FROM user_keys;
            DELETE FROM user_keys;
            UPDATE mutations SET payload = '{"title":"plain"}'
            WHERE organization_id = '\(organization.id)' AND entity_type = 'task'
            """
        )
        let second = try await Gateway(replicaOf: gateway, masterKeys: TestKeys.second)
        let found = try #require(
            try await second.store.keyRotation.sealRows(of: organization.id, grace: 0) { _ in }
        )
        #expect(found.unreadable > 0 && found.droppedKeys == 0 && found.keptKeys == 1)
        #expect(try await gateway.count("user_keys", of: organization.id) == 0)
        try await one.execute("INSERT INTO user_keys SELECT * FROM kept")
        let rest = try #require(
            try await both.store.keyRotation.sealRows(of: organization.id, grace: 0) { _ in }
        )
        #expect(rest.unreadable == 0 && rest.droppedKeys == 1)
    }

    // MARK: - Erasure

    /// The tables with users' rows in a backup.
    private static let backup = ["lanes", "users", "devices", "mutations", "rejections", "entities"]

    private func copy(_ tables: [String], _ phone: Phone) async throws {
        try await phone.execute(
            tables.map { "CREATE TABLE copy_\($0) AS SELECT * FROM \($0)" }.joined(separator: ";")
        )
    }

    private func bringBack(_ tables: [String], _ phone: Phone) async throws {
        try await phone.execute(
            tables.map { "DELETE FROM \($0); INSERT INTO \($0) SELECT * FROM copy_\($0)" }.joined(separator: ";")
        )
    }

    @Test func `a copy from before an erasure is unreadable and is erased again`() async throws {
        let gateway = try await Gateway(masterKeys: TestKeys.first)
        let organization = try await organization(gateway)
        let (one, other) = (Phone(gateway, organization), Phone(gateway, organization))
        let entries = try await history(one)
        try await history(other)
        try await copy(Self.backup, one)
        try await one.erase()
        #expect(try await gateway.rows("SELECT made_for::text FROM user_keys") == [other.user.lowercased])

        // the large tables in their earlier state, with today's keys and erasures
        try await bringBack(Self.backup, one)
        let restored = try await Gateway(replicaOf: gateway, masterKeys: TestKeys.first)
        let report = try await restored.store.administration.setRightAfterRestore()
        #expect(report.erasures == 1)
        let page = try await restored.store.mutations.list(MutationFilter(), organization: organization, of: nil)
        let listed = try JSONTree(parsing: page.json()).root.list("mutations")
        let lost = listed.filter { mutation in entries.contains { $0.id == mutation["id"]?.uuid } }
        #expect(listed.count == 4 && lost.count == 2)
        for mutation in lost {
            #expect(mutation["payload"]?.isNull == true && mutation["unreadable"]?.text.contains("payload") == true)
        }
        // other requests are not delayed
        let phone = other.signedIn(as: other.user, through: restored)
        #expect(try await titles(phone).count == 3)
        #expect(try await phone.push([phone.create("diary")]).results.map(\.status) == ["succeeded"])
        let again = one.signedIn(as: one.user, through: restored)
        restored.clock.advance(seconds: 20)
        try await again.erase()
        for table in Self.backup where table != "entities" {
            #expect(try await again.rowCount(table) == 0, "\(table)")
        }
        #expect(try await tables(beginning(one.user), restored).keys.allSatisfy { $0.hasPrefix("copy_") })
        #expect(try await restored.store.administration.setRightAfterRestore().erasures == 0)
    }

    @Test func `no column contains data of an erased user`() async throws {
        let gateway = try await Gateway(masterKeys: TestKeys.first)
        let organization = try await organization(gateway)
        let (one, other) = (Phone(gateway, organization), Phone(gateway, organization))
        for phone in [one, other] { try await history(phone) }
        try await one.erase()
        for text in [one.user.lowercased, one.user.lowercased.replacing("-", with: "")] {
            #expect(try await gateway.mentions(of: text, in: organization.id) == [:])
        }
        #expect(try await titles(other).count == 2)
        // no new key is created for the erased user
        let lane = LaneKey(organization: organization.id, user: one.user)
        let seal = try await gateway.store.catalog.seal(of: organization.id)
        try await gateway.store.catalog.userKeys.prepare([lane]) { _ in seal }
        #expect(try await gateway.count("user_keys", of: organization.id) == 1)
        #expect(seal.lacking([lane]).isEmpty)
    }

    @Test func `a formerly private document that is kept is readable without its owner's key`() async throws {
        let gateway = try await Gateway(masterKeys: TestKeys.first)
        let organization = try await organization(gateway)
        let (one, other) = (Phone(gateway, organization), Phone(gateway, organization))
        try await one.push([one.create("diary", payload: #"{"title":"\#(Self.marker)"}"#)])
        try await show(.organization, "diary", gateway, organization, onErase: .blankOwner)
        _ = try await gateway.known(organization.id)
        #expect(try await tables(beginning(one.user), gateway)["entities"] == 1)
        try await one.erase()
        #expect(try await tables(beginning(one.user), gateway) == [:])
        #expect(try await titles(other) == [Self.marker])
    }

    @Test func `a kept document does not depend on a key that this gateway cannot open`() async throws {
        let gateway = try await Gateway(masterKeys: TestKeys.first)
        let organization = try await organization(gateway)
        let (one, other) = (Phone(gateway, organization), Phone(gateway, organization))
        try await one.push([one.create("diary", payload: #"{"title":"\#(Self.marker)"}"#)])
        try await show(.organization, "diary", gateway, organization, onErase: .blankOwner)
        // the state of a rewrap interrupted between the organization's key and the user's
        _ = try await gateway.rows("CREATE TABLE kept AS SELECT * FROM user_keys")
        let both = try await Gateway(replicaOf: gateway, masterKeys: TestKeys.second + "\n" + TestKeys.first)
        _ = try await both.store.keyRotation.rewrap { _ in }
        _ = try await gateway.rows("DELETE FROM user_keys")
        _ = try await gateway.rows("INSERT INTO user_keys SELECT * FROM kept")
        let after = try await Gateway(replicaOf: gateway, masterKeys: TestKeys.second)
        after.clock.set(gateway.clock.now)
        await #expect(throws: Problem.self) { try await one.signedIn(as: one.user, through: after).erase() }
        #expect(try await gateway.count("user_keys", of: organization.id) == 1)
        try await one.signedIn(as: one.user, through: both).erase()
        #expect(try await titles(other.signedIn(as: other.user, through: both)) == [Self.marker])
    }

    // MARK: - Joined users

    @Test func `a joined user's content stays readable and is erased with the remaining user`() async throws {
        let gateway = try await Gateway(masterKeys: TestKeys.first)
        let organization = try await organization(gateway)
        let (one, other) = (Phone(gateway, organization), Phone(gateway, organization))
        let bystander = Phone(gateway, organization)
        let entries = try await history(one)
        try await history(bystander)
        // the other user has no key so far
        _ = try await gateway.store.administration.putUser(other.user, in: organization.id)
        try await one.join(into: other)
        let cold = try await Gateway(replicaOf: gateway, masterKeys: TestKeys.first)
        cold.clock.set(gateway.clock.now)
        let phone = one.signedIn(as: other.user, through: cold)
        #expect(try await titles(phone).filter { $0 == Self.marker }.count == 3)
        #expect(try await phone.push(entries).results.map(\.isReplayed) == [true, true, true])
        #expect(try await phone.read(entries[0].id).value(at: "/payload/title")?.string == Self.marker)
        let owners = try await gateway.rows(
            "SELECT made_for || ' ' || user_id FROM user_keys WHERE user_id <> '\(bystander.user)' ORDER BY created_at"
        )
        #expect(
            Set(owners) == [
                "\(one.user.lowercased) \(other.user.lowercased)", "\(other.user.lowercased) \(other.user.lowercased)",
            ]
        )
        // the rows have moved; the document names the original user of its key until it is sealed again
        #expect(try await tables(beginning(one.user), gateway) == ["entities": 1])
        _ = try await gateway.store.keyRotation.sealRows(of: organization.id, grace: 0) { _ in }
        #expect(try await tables(beginning(one.user), gateway) == [:])
        #expect(try await titles(phone).count == 3)
        try await phone.erase()
        #expect(try await gateway.rows("SELECT made_for::text FROM user_keys") == [bystander.user.lowercased])
        #expect(try await titles(bystander).count >= 2)
    }

    @Test func `restored keys belong to the users of the restored joins`() async throws {
        let gateway = try await Gateway(masterKeys: TestKeys.first)
        let organization = try await organization(gateway)
        let (one, other) = (Phone(gateway, organization), Phone(gateway, organization))
        for phone in [one, other] { try await history(phone) }
        func owners() async throws -> Set<String> {
            Set(try await gateway.rows("SELECT made_for || ' ' || user_id FROM user_keys"))
        }
        func own(_ phone: Phone, _ owner: Phone) -> String { "\(phone.user.lowercased) \(owner.user.lowercased)" }
        let backup = Self.backup + ["user_joins"]
        try await copy(backup, one)
        try await one.join(into: other)
        #expect(try await owners() == [own(one, other), own(other, other)])
        // the rows are from before the join, and the keys from after it
        try await bringBack(backup, one)
        let restored = try await Gateway(replicaOf: gateway, masterKeys: TestKeys.first)
        restored.clock.set(gateway.clock.now)
        _ = try await restored.store.administration.setRightAfterRestore()
        #expect(try await owners() == [own(one, one), own(other, other)])
        let phone = one.signedIn(as: one.user, through: restored)
        try await other.signedIn(as: other.user, through: restored).erase()
        restored.store.catalog.userKeys.ring.removeAll()
        #expect(try await titles(phone).filter { $0 == Self.marker }.count >= 1)

        // the opposite case: the keys are from before a join, and the rows from after it
        let third = Phone(restored, organization)
        try await history(third)
        try await phone.join(into: third)
        try await one.execute("UPDATE user_keys SET user_id = made_for")
        _ = try await restored.store.administration.setRightAfterRestore()
        #expect(try await owners() == [own(one, third), own(third, third)])
    }

    // MARK: - Master keys

    @Test func `the new master key wraps users' keys`() async throws {
        let gateway = try await Gateway(masterKeys: TestKeys.first)
        let (first, second) = (try await organization(gateway), try await organization(gateway))
        let phones = [Phone(gateway, first), Phone(gateway, first), Phone(gateway, second)]
        for phone in phones { try await history(phone) }
        let blind = try await Gateway(replicaOf: gateway, masterKeys: TestKeys.second)
        let notReady = await blind.store.readiness()
        #expect(notReady.count == 1 && notReady[0].hasPrefix("5 data keys are wrapped by master key first:"))
        let both = try await Gateway(replicaOf: gateway, masterKeys: TestKeys.second + "\n" + TestKeys.first)
        let outcome = try await both.store.keyRotation.rewrap { _ in }
        #expect(outcome.rewrapped == 5 && outcome.unknown == 0)
        #expect(try await both.store.keyRotation.rewrap { _ in }.rewrapped == 0)
        let after = try await Gateway(replicaOf: gateway, masterKeys: TestKeys.second)
        await after.store.notifier.hints.register()
        #expect(await after.store.readiness() == [])
        for phone in phones {
            let count = phone.organization.id == first.id ? 3 : 2
            #expect(try await titles(phone.signedIn(as: phone.user, through: after)).count == count)
        }
    }

    // MARK: - Statements

    /// Plans use indexes on small and on grown tables, without and with statistics.
    @Test(.onOneServer("plans of one server")) func `finds keys by index`() async throws {
        let gateway = try await Gateway(masterKeys: TestKeys.first)
        let organization = try await gateway.organization()
        let connection = try await gateway.database.connect(settings: Store.pooledSettings)
        defer { connection.close() }
        let user = UUID()
        func grow(_ count: Int) async throws {
            try await connection.execute(
                script: """
                    INSERT INTO user_keys (organization_id, made_for, user_id, master_key, wrapped_key, created_at)
                    SELECT '\(organization.id)', u.id, u.id, 'first:00000000', decode(repeat('00', 60), 'hex'), now()
                    FROM (SELECT gen_random_uuid() AS id FROM generate_series(1, \(count))) u
                    """
            )
        }
        let shape = Query.planByIndex
        let one = "ARRAY['\(organization.id)']::uuid[], ARRAY['\(user)']::uuid[]"
        let calls: [(Statement, String)] = [
            (UserKeyRows.readStatement, one),
            (
                UserKeyRows.makeStatement,
                "\(one), 'first:00000000', ARRAY[decode(repeat('00', 60), 'hex')], '2026-11-24T07:00:00Z'"
            ),
            (UserKeyRows.destroyStatement, "'\(organization.id)', ARRAY['\(user)']::uuid[]"),
            (UserKeyRows.moveStatement, "'\(organization.id)', '\(user)', '\(UUID())'"),
            (KeyRotation.userPageStatement, "'\(organization.id)', '\(user)', 'second:00000000', 500"),
            (
                KeyRotation.userReplaceStatement,
                "'\(organization.id)', '\(user)', 'first:00000000', 'second:00000000', decode(repeat('00', 60), 'hex')"
            ),
        ]
        for count in [0, 20_000] {
            if count > 0 {
                try await grow(count)
                try await connection.execute(script: "ANALYZE user_keys")
            }
            for (statement, values) in calls {
                for plan in try await connection.plans(of: statement, values, [shape]) {
                    #expect(!plan.contains("Seq Scan on user_keys"), "\(statement.name) \(plan)")
                    #expect(!plan.contains("Hash Join"), "\(statement.name) \(plan)")
                }
            }
        }
    }
}
