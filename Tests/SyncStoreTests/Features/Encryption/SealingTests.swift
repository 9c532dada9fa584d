import Foundation
import JSONText
import Postgres
import StoreSupport
import SyncHTTP
import SyncModel
import Synchronization
import TestSupport
import Testing

@testable import AdministrationFeature
@testable import EncryptionFeature
@testable import SyncStore

/// Encryption at rest of the content of pushes.
@Suite struct SealingTests {
    static let marker = "geheimnis"

    func gateway(_ keys: String? = TestKeys.first, of other: Gateway? = nil) async throws -> Gateway {
        // with "-" and a key that wraps nothing, the gateway has no usable key, for any environment
        try await Gateway(replicaOf: other, masterKeys: keys)
    }

    static let without = "-\nnobody:" + TestKeys.second.dropFirst("second:".count)

    func phone(_ gateway: Gateway) async throws -> Phone { Phone(gateway, try await gateway.organization()) }

    /// A create, a conflicting update of it, and a refused entry.
    @discardableResult
    func history(_ phone: Phone, _ marker: String = marker) async throws -> (entity: String, entries: [Entry]) {
        let create = phone.entry("create", local: UUID(), payload: #"{"title":"\#(marker)"}"#)
        let id = try #require(try await phone.push([create]).results.first?.serverID)
        let other = Phone(phone.gateway, phone.organization)
        try await other.push([other.entry("update", server: #""\#(id)""#, payload: #"{"by":"\#(marker)2"}"#)])
        let stale = phone.entry(
            "update",
            server: #""\#(id)""#,
            payload: #"{"title":"\#(marker)3"}"#,
            extra: ["base_version": "1", "headers": #"{"accept-language":"\#(marker)"}"#]
        )
        var bad = phone.entry("create", local: UUID())
        bad.extra["priority"] = #""\#(marker)""#
        let answer = try await phone.push([stale, bad])
        #expect(answer.results.map(\.status) == ["conflict", "rejected"])
        return (id, [create, stale, bad])
    }

    func mutation(_ id: UUID, _ phone: Phone, through other: Gateway? = nil) async throws -> JSONValue {
        let reader = (other ?? phone.gateway).store.mutations
        let found = try await reader.mutation(id, organization: phone.organization, user: phone.user, wait: .zero)
        return try JSONTree(parsing: #require(found).json()).root
    }

    func execute(_ script: String, _ gateway: Gateway) async throws {
        let connection = try await gateway.database.connect()
        try await connection.execute(script: script)
        await connection.closeAndWait()
    }

    @Test func `content is encrypted in the database and readable in the answers`() async throws {
        let gateway = try await gateway()
        let phone = try await phone(gateway)
        let (_, entries) = try await history(phone)
        #expect(try await gateway.database.mentions(of: Self.marker) == [:])
        #expect(
            try await gateway.database.mentions(of: "sluice-sealed:1:1:").keys.sorted() == [
                "entities", "mutations", "rejections",
            ]
        )

        let stored = try await mutation(entries[1].id, phone)
        #expect(stored["payload"]?["title"]?.string == "geheimnis3")
        #expect(stored["headers"]?["accept-language"]?.string == "geheimnis")
        #expect(stored.value(at: "/error/current/document/by")?.string == "geheimnis2")
        let change = try #require(try await phone.pull().last)
        #expect(change["document"]?["title"]?.string == "geheimnis")
        let again = try await phone.push(entries)
        #expect(again.results.allSatisfy { $0.isReplayed == true })
        #expect(again.results[1].value(at: "/error/current/document/by")?.string == "geheimnis2")
        #expect(again.results[2].status == "rejected")
        let cursor = try await gateway.store.events.start(
            after: nil,
            of: LaneKey(organization: phone.organization.id, user: phone.user)
        )
        #expect(cursor.place.change > 0)
    }

    @Test func `without a master key all content is stored as plain text`() async throws {
        let gateway = try await gateway(Self.without)
        try await history(try await phone(gateway))
        #expect(try await gateway.database.mentions(of: Self.marker).keys.sorted() == ["entities", "mutations"])
        #expect(try await gateway.database.mentions(of: "sluice-sealed") == [:])
        #expect(try await gateway.store.keyRotation.keys(after: UUID.least, 0).isEmpty)
    }

    @Test func `organizations have separate keys, and a ciphertext opens only in its place`() async throws {
        let gateway = try await gateway()
        let (ada, eve) = (try await phone(gateway), try await phone(gateway))
        let (entity, adas) = try await history(ada)
        let (evesEntity, eves) = try await history(eve)
        #expect(try await gateway.store.keyRotation.keys(after: UUID.least, 0).count == 2)
        // the test copies values into rows of another organization, and into another row of the same organization
        func read(_ column: String, _ table: String, _ id: String) async throws -> String {
            try await gateway.read("SELECT \(column)::text FROM \(table) WHERE id = '\(id)'").read(
                0,
                0,
                as: String.self
            )
        }
        let payload = try await read("payload", "mutations", adas[0].id.uuidString)
        let document = try await read("document", "entities", entity)
        try await execute(
            """
            UPDATE mutations SET payload = '\(payload)' WHERE id IN ('\(eves[0].id)', '\(adas[1].id)');
            UPDATE entities SET document = '\(document)' WHERE id = '\(evesEntity)'
            """,
            gateway
        )
        for (phone, id) in [(eve, eves[0].id), (ada, adas[1].id)] {
            let closed = try await mutation(id, phone)
            #expect(closed["payload"]?.isNull == true && closed["unreadable"]?.text == #"["payload"]"#)
        }
        let change = try #require(try await eve.pull().first)
        #expect(change["document"]?.isNull == true && change["unreadable"]?.text == #"["document"]"#)
        #expect(try await mutation(adas[0].id, ada)["payload"]?["title"]?.string == Self.marker)
        #expect(try await ada.pull().count == 1)
        // a patch that needs the document fails in Eve's organization alone, although it is committed together with a
        // push to Ada's
        let ivy = Phone(gateway, eve.organization)
        let bad = Task { try await ivy.push([ivy.entry("update", server: #""\#(evesEntity)""#, payload: "{}")]) }
        let bob = Phone(gateway, ada.organization)
        #expect(try await bob.push([bob.create()]).results.map(\.status) == ["succeeded"])
        #expect(try await bad.value.results.map(\.status) == ["failed"])
    }

    /// Earlier versions stored a payload that looks like a sealed value without escaping it. The test writes such
    /// values into every column, with and without data keys. All users can continue, the answers report these values as
    /// unreadable, and replacing the content repairs them.
    @Test(arguments: [nil, TestKeys.first])
    func `unreadable rows do not block other requests`(_ keys: String?) async throws {
        let gateway = try await gateway(keys ?? Self.without)
        let phone = try await phone(gateway)
        let (entity, entries) = try await history(phone)
        // a conflict halts its user's lane
        let (other, third) = (Phone(gateway, phone.organization), Phone(gateway, phone.organization))
        let fourth = Phone(gateway, phone.organization)
        let fine = other.create(payload: #"{"title":"fine"}"#)
        try await other.push([fine])
        let columns = ["payload", "headers", "sent_payload", "response_body", "error"]
        // a truncated value, a value under a key that does not exist, and a value that was never sealed
        let spoofs = [
            "AAAA", "99:" + String(repeating: "QUFB", count: 20), "1:" + String(repeating: "QUFB", count: 20),
        ]
        try await execute(
            """
            UPDATE mutations SET \(columns.map { #"\#($0) = '"sluice-sealed:1:\#(spoofs[0])"'"# }.joined(separator: ",")),
                last_error = 'sluice-sealed:1:\(spoofs[1])'
            WHERE id = '\(entries[1].id)';
            UPDATE mutations SET payload = '"sluice-sealed:1:\(spoofs[2])"' WHERE id = '\(entries[0].id)';
            UPDATE rejections SET error = '"sluice-sealed:1:\(spoofs[1])"';
            UPDATE entities SET document = '"sluice-sealed:1:\(spoofs[2])"' WHERE id = '\(entity)'
            """,
            gateway
        )
        gateway.clock.advance(seconds: 6)
        let store = gateway.store
        let (organization, user) = (phone.organization, phone.user)

        // lists
        for page in [
            try await store.mutations.list(MutationFilter(), organization: organization, user: user),
            try await store.mutations.list(MutationFilter(statuses: [.conflict]), organization: organization, of: nil),
        ] {
            let mutations = try JSONTree(parsing: page.json()).root.list("mutations")
            let conflict = try #require(mutations.first { $0["id"]?.uuid == entries[1].id })
            let members = conflict["unreadable"]?.elements.map { $0.compactMap(\.string) } ?? []
            #expect(Set(members) == ["payload", "headers", "response", "error", "last_error"])
            #expect(conflict["payload"]?.isNull == true && conflict["error"]?.isNull == true)
        }
        let changes = try await phone.pull()
        let closed = try #require(changes.first { $0["id"]?.string == entity })
        #expect(closed["document"]?.isNull == true && closed["deleted"]?.bool == false)
        #expect(closed["unreadable"]?.text == #"["document"]"#)
        #expect(changes.contains { $0["document"]?["title"]?.string == "fine" && $0["unreadable"] == nil })

        // repeats
        let replay = try await phone.push(entries)
        #expect(replay.results.map(\.status) == ["succeeded", "conflict", "rejected"])
        #expect(replay.results.allSatisfy { $0.isReplayed == true })
        #expect(replay.results[2].code == "validation_failed")

        // writes: a patch needs the current document, a replacement does not
        let patch = other.entry("update", server: #""\#(entity)""#, payload: #"{"a":1}"#)
        let stale = third.entry("update", server: #""\#(entity)""#, extra: ["base_version": "1"])
        let replace = fourth.entry("replace", server: #""\#(entity)""#, payload: #"{"whole":1}"#)
        let conflict = try #require(try await third.push([stale]).results.first)
        #expect(conflict.value(at: "/error/current/unreadable")?.text == #"["document"]"#)
        let patched = try #require(try await other.push([patch]).results.first)
        #expect(patched.status == "failed")
        #expect(patched["error"]?["detail"]?.string?.contains("cannot be decrypted") == true)
        #expect(try await fourth.push([replace]).results.map(\.status) == ["succeeded"])
        #expect(try await phone.pull().last?["document"]?.text == #"{"whole":1}"#)

        // settling by a person
        let refusal = await #expect(throws: Problem.self) { try await phone.retry(entries[1].id) }
        #expect(refusal?.errors.first?.pointer == "/payload")
        let bulk = try BulkRequest(body: Array(#"{"filter":{"status":["conflict"]}}"#.utf8), limit: 65_536, for: .retry)
        #expect(try await store.settling.retry(bulk, organization: organization).settled == 1)
        let edited = try await phone.retry(entries[1].id, #"{"payload":{"title":"new"}}"#)
        #expect(edited?["payload"]?.text == #"{"title":"new"}"#)

        // rows can be sealed only if there is a key
        guard keys != nil else { return }
        let waits = Mutex<[Double]>([])
        _ = try await store.keyRotation.renew(organization.id)
        let rows = try #require(
            try await store.keyRotation.sealRows(
                of: organization.id,
                grace: 0.2,
                onWait: { seconds in waits.withLock { $0.append(seconds) } },
                { _ in }
            )
        )
        #expect(waits.withLock { $0.count } <= 1)
        #expect(rows.unreadable >= 2 && rows.unreadableValues.count == rows.unreadable)
        #expect(
            rows.droppedKeys == 0 && rows.keptKeys == 1,
            "the key is kept, because unreadable values may be sealed with it"
        )
        #expect(
            rows.unreadableValues.contains {
                $0.contains("payload of a mutation in mutation \(entries[0].id.lowercased)")
            }
        )
        #expect(rows.unreadableValues.contains { $0.contains("refused entry with key") })
        #expect(try await mutation(fine.id, other)["payload"]?["title"]?.string == "fine")
        // retention deletes these rows with all the others
        gateway.clock.advance(seconds: 40 * Gateway.day)
        let report = try await gateway.retain()
        #expect(report != nil)
        #expect(try await phone.count("mutations", "t.id = '\(entries[0].id.lowercased)'") == 0)
    }

    @Test func `earlier rows stay readable and are sealed on request`() async throws {
        let before = try await gateway(Self.without)
        let old = try await phone(before)
        let (entity, entries) = try await history(old)
        try await execute(
            """
            INSERT INTO upstreams VALUES ('\(old.organization.id)', 'http://localhost:1', '{"bearer":"geheimnis"}', 30,
                8, '/id', '{"x-key":"geheimnis"}', now());
            UPDATE mutations SET last_error = 'geheimnis', response_body = '"geheimnis"', sent_payload = '{"g":"geheimnis"}';
            INSERT INTO id_mappings (organization_id, user_id, client_id, entity_type, status, mutation_id,
                change_position, last_error, created_at)
            VALUES ('\(old.organization.id)', '\(old.user)', '\(UUID())', 'task', 'failed', '\(UUID())', 1, 'geheimnis',
                now())
            """,
            before
        )
        let bystander = try await phone(before)
        try await history(bystander, "anderes")
        let gateway = try await gateway(of: before)
        let phone = Phone(gateway, old.organization, user: old.user)
        #expect(try await mutation(entries[1].id, phone)["payload"]?["title"]?.string == "geheimnis3")
        // new values are sealed; an updated row is sealed as well
        try await phone.push([phone.entry("create", local: UUID(), payload: #"{"x":"frisch"}"#, number: 100)])
        #expect(try await gateway.database.mentions(of: "frisch") == [:])
        #expect(try await gateway.database.mentions(of: "geheimnis").count >= 4)

        let rows = try #require(
            try await gateway.store.keyRotation.sealRows(of: phone.organization.id, grace: 0) { _ in }
        )
        #expect(rows.sealed > 4 && rows.examined >= rows.sealed && rows.droppedKeys == 0)
        #expect(try await gateway.database.mentions(of: "geheimnis") == [:])
        #expect(try await gateway.database.mentions(of: "anderes") != [:])
        let stored = try await mutation(entries[1].id, phone)
        #expect(stored["payload"]?["title"]?.string == "geheimnis3")
        #expect(stored["last_error"]?.string == "geheimnis")
        #expect(stored["response"]?["body"]?.string == "geheimnis")
        #expect(stored.value(at: "/error/current/document/by")?.string == "geheimnis2")
        let upstream = try #require(try await gateway.store.catalog.organization(phone.organization.id)?.upstream)
        #expect(upstream.credential == .bearer("geheimnis") && upstream.headers == ["x-key": "geheimnis"])
        #expect(try await phone.pull().first { $0["id"]?.string == entity }?["document"]?["by"]?.string == "geheimnis2")
        // a second run has only the upstream to seal
        let again = try await gateway.store.keyRotation.sealRows(of: phone.organization.id, grace: 0) { _ in }
        #expect(again?.sealed == 1)
        #expect(try await gateway.store.keyRotation.sealRows(of: UUID(), grace: 0) { _ in } == nil)
        await #expect(throws: Problem.self) {
            try await before.store.keyRotation.sealRows(of: bystander.organization.id, grace: 0) { _ in }
        }
    }

    @Test func `rotates master and data keys while two gateways work`() async throws {
        let both = (old: TestKeys.first + "\n" + TestKeys.second, new: TestKeys.second + "\n" + TestKeys.first)
        let one = try await gateway(both.old)
        let two = try await gateway(both.new, of: one)
        let phone = try await phone(one)
        let (_, entries) = try await history(phone)

        let bob = Phone(one, phone.organization)
        func work() async throws {
            let entry = bob.create(payload: #"{"t":"geheimnis"}"#)
            #expect(try await bob.push([entry]).results.map(\.status) == ["succeeded"])
            let other = bob.create(payload: #"{"t":"geheimnis"}"#)
            #expect(try await bob.push([other], through: two).results.map(\.status) == ["succeeded"])
            for gateway in [one, two] {
                for (id, phone) in [(entries[1].id, phone), (entry.id, bob), (other.id, bob)] {
                    let payload = try await mutation(id, phone, through: gateway)["payload"]
                    #expect(payload?.text.contains("geheimnis") == true)
                }
            }
        }
        try await work()
        let third = try await self.phone(two)
        try await history(third)
        // the new master key wraps all data keys
        let outcome = try await two.store.keyRotation.rewrap { _ in }
        #expect(outcome.rewrapped == 1 && outcome.unknown == 0)
        #expect(try await two.store.keyRotation.rewrap { _ in }.rewrapped == 0)
        for gateway in [one, two] { gateway.clock.advance(seconds: 6) }
        try await work()
        // a gateway with only the new key continues
        let last = try await gateway(TestKeys.second, of: one)
        last.clock.advance(seconds: 6)
        #expect(try await mutation(entries[1].id, phone, through: last)["payload"] != nil)
        await last.store.notifier.hints.register()
        #expect(await last.store.readiness() == [])

        // a gateway that has not loaded a new data key loads it
        #expect(try await two.store.keyRotation.renew(phone.organization.id) == 2)
        #expect(try await two.store.keyRotation.renew(UUID()) == nil)
        let sealed = phone.create(payload: #"{"t":"neu"}"#)
        try await phone.push([sealed], through: two)
        #expect(try await mutation(sealed.id, phone, through: one)["payload"]?["t"]?.string == "neu")
        try await work()
        let rows = try #require(try await two.store.keyRotation.sealRows(of: phone.organization.id, grace: 0) { _ in })
        #expect(rows.droppedKeys == 1 && rows.sealed > 3)
        #expect(
            try await two.database.mentions(of: "sluice-sealed:1:1:").values.reduce(0, +) > 0,
            "values of the other organization stay under their key"
        )
        try await work()
        #expect(try await phone.push(entries).results.allSatisfy { $0.isReplayed == true })
        #expect(
            try await one.store.keyRotation.keys(after: UUID.least, 0).filter {
                $0.organization == phone.organization.id
            }.map(\.number) == [2]
        )
    }

    @Test func `a gateway without the key refuses requests and writes nothing`() async throws {
        let gateway = try await gateway()
        let phone = try await phone(gateway)
        let (_, entries) = try await history(phone)
        for keys in [Self.without, TestKeys.impostor] {
            let blind = try await self.gateway(keys, of: gateway)
            let before = try await gateway.database.mentions(of: "-")
            await #expect(throws: StoreFailure.sealed) {
                try await blind.store.catalog.organization(phone.organization.id)
            }
            await #expect(throws: Problem.self) { try await mutation(entries[0].id, phone, through: blind) }
            await #expect(throws: Problem.self) { try await phone.push([phone.create()], through: blind) }
            let reasons = await blind.store.readiness()
            #expect(reasons.count == 1 && reasons[0].contains("first:") && reasons[0].contains("not configured"))
            #expect(try await gateway.database.mentions(of: "-") == before)
            // a gateway without the master key also creates no keys that other gateways could not open, for this
            // organization or for new ones
            await #expect(throws: Problem.self) { try await blind.store.keyRotation.renew(phone.organization.id) }
            #expect(try await gateway.store.keyRotation.keys(of: phone.organization.id)?.map(\.number) == [1])
            let new = UUID()
            let body = Array(#"{"name":"New"}"#.utf8)
            _ = try await gateway.store.administration.put(new, OrganizationUpdate(body: body))
            await #expect(throws: Problem.self) { try await blind.store.keyRotation.renew(new) }
            await #expect(throws: Problem.self) {
                try await blind.store.keyRotation.sealRows(of: new, grace: 0) { _ in }
            }
            #expect(try await gateway.store.keyRotation.keys(of: new)?.isEmpty == true)
            // other organizations are served
            let other = Phone(blind, try await blind.organization())
            if keys == Self.without { #expect(try await other.push([other.create()]).results.count == 1) }
            let outcome = keys == Self.without ? nil : try await blind.store.keyRotation.rewrap { _ in }
            #expect(outcome?.unknown ?? 1 >= 1)
        }
        #expect(try await mutation(entries[0].id, phone)["payload"]?["title"]?.string == Self.marker)
    }

    @Test func `sealing reports unreadable values under the newest key too`() async throws {
        let gateway = try await gateway()
        let (phone, other) = (try await phone(gateway), try await phone(gateway))
        let (entity, entries) = try await history(phone)
        try await history(other)
        let rotation = gateway.store.keyRotation
        func seal() async throws -> SealedRows {
            try #require(try await rotation.sealRows(of: phone.organization.id, grace: 0) { _ in })
        }
        #expect(try await seal().unreadable == 0)
        // swap the values of two rows
        try await execute(
            """
            CREATE TABLE kept AS SELECT id, payload FROM mutations;
            UPDATE mutations m SET payload = k.payload FROM kept k
            WHERE m.id = '\(entries[0].id)' AND k.id = '\(entries[1].id)';
            UPDATE mutations m SET payload = k.payload FROM kept k
            WHERE m.id = '\(entries[1].id)' AND k.id = '\(entries[0].id)';
            UPDATE entities SET document = (SELECT payload FROM kept WHERE id = '\(entries[0].id)')
            WHERE id = '\(entity)'
            """,
            gateway
        )
        let found = try await seal()
        #expect(found.unreadable == 3 && found.sealed == 0)
        for place in [
            "payload of a mutation in mutation \(entries[0].id.lowercased)",
            "payload of a mutation in mutation \(entries[1].id.lowercased)", "document",
        ] {
            #expect(found.unreadableValues.contains { $0.contains(place) }, "\(found.unreadableValues)")
        }
        // while rows are unreadable, all keys under which they may be sealed are kept, including older keys
        #expect(try await rotation.renew(phone.organization.id) == 2)
        let renewed = try await seal()
        #expect(renewed.unreadable == 3 && renewed.droppedKeys == 0 && renewed.keptKeys == 1)
        #expect(try await rotation.renew(phone.organization.id) == 3)
        let again = try await seal()
        #expect(
            again.unreadable == 3 && again.droppedKeys == 1 && again.keptKeys == 1,
            "of the keys 1 and 2, one is dropped and one is kept"
        )
        try await execute(
            """
            UPDATE mutations m SET payload = k.payload FROM kept k
            WHERE m.id = k.id AND m.id IN ('\(entries[0].id)', '\(entries[1].id)')
            """,
            gateway
        )
        #expect(try await mutation(entries[1].id, phone)["payload"]?["title"]?.string == Self.marker + "3")
        #expect(try await seal().unreadable == 1)
        #expect(try await phone.count("entities", "t.id = '\(entity)'") == 1)
        let writer = Phone(gateway, phone.organization)
        let replace = writer.entry("replace", server: #""\#(entity)""#, payload: #"{"whole":1}"#)
        #expect(try await writer.push([replace]).results.map(\.status) == ["succeeded"])
        let last = try await seal()
        #expect(last.unreadable == 0 && last.droppedKeys == 1 && last.keptKeys == 0)
    }

    @Test func `a purge destroys the key`() async throws {
        let gateway = try await gateway()
        let (phone, other) = (try await phone(gateway), try await phone(gateway))
        let (_, entries) = try await history(phone)
        try await history(other)
        try await execute("CREATE TABLE backup AS SELECT * FROM mutations", gateway)
        #expect(try await gateway.store.administration.purge(phone.organization.id))
        #expect(
            try await gateway.store.keyRotation.keys(after: UUID.least, 0).map(\.organization) == [
                other.organization.id
            ]
        )
        // the organization is created again under the same id and gets a new key, before its old rows are copied back
        _ = try await gateway.store.administration.put(
            phone.organization.id,
            OrganizationUpdate(body: Array(#"{"name":"Again"}"#.utf8))
        )
        _ = try await gateway.store.catalog.organization(phone.organization.id)
        try await execute(
            "INSERT INTO mutations SELECT * FROM backup WHERE organization_id = '\(phone.organization.id)'",
            gateway
        )
        let copy = try await mutation(entries[0].id, phone)
        #expect(copy["payload"]?.isNull == true && copy["unreadable"]?.text == #"["payload"]"#)
        #expect(try await other.pull().count == 1)
    }

    @Test func `replicas that create the first key concurrently agree`() async throws {
        let gateway = try await gateway(Self.without)
        let organization = try await gateway.organization()
        let replicas = [try await self.gateway(of: gateway), try await self.gateway(of: gateway)]
        try await withThrowingTaskGroup(of: Void.self) { group in
            for replica in replicas {
                group.addTask {
                    let phone = Phone(replica, organization)
                    try await phone.push([phone.create()])
                }
            }
            try await group.waitForAll()
        }
        #expect(try await gateway.store.keyRotation.keys(after: UUID.least, 0).count == 1)
        let reader = Phone(replicas[0], organization)
        #expect(try await reader.pull().count == 2)
    }

    /// Phones push through two gateways while a key is renewed and rows are sealed, twice.
    @Test func `sealing rows loses no concurrent writes`() async throws {
        let before = try await gateway(Self.without)
        let old = try await phone(before)
        let created = try await old.push((0..<60).map { _ in old.create(payload: #"{"n":"geheimnis"}"#) })
        let ids = created.results.compactMap(\.serverID)
        #expect(ids.count == 60)
        let gateways = [try await gateway(of: before), try await gateway(of: before)]
        let organization = old.organization
        let phones = gateways.flatMap { gateway in (0..<3).map { _ in Phone(gateway, organization) } }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (place, phone) in phones.enumerated() {
                group.addTask {
                    for round in 0..<10 {
                        // every phone writes a separate member in every entity
                        let entries = ids.enumerated().filter { $0.offset % 10 == round }.map { _, id in
                            phone.entry("update", server: #""\#(id)""#, payload: #"{"m\#(place)":"geheimnis"}"#)
                        }
                        let answer = try await phone.push(entries)
                        #expect(answer.results.allSatisfy { $0.status == "succeeded" })
                    }
                }
            }
            group.addTask {
                let sealing = gateways[0].store.keyRotation
                for _ in 0..<2 {
                    // without a grace period, the other gateway may still seal under the old key, so it is not dropped
                    _ = try await sealing.renew(organization.id)
                    _ = try await sealing.sealRows(of: organization.id, grace: 0, dropsKeys: false) { _ in }
                }
            }
            try await group.waitForAll()
        }
        for gateway in gateways { gateway.clock.advance(seconds: 6) }
        let rows = try await gateways[1].store.keyRotation.sealRows(of: organization.id, grace: 0) { _ in }
        #expect(rows?.droppedKeys ?? 0 >= 1)
        #expect(try await before.database.mentions(of: "geheimnis") == [:])
        let changes = try await phones[5].pull()
        #expect(changes.count == 60)
        for change in changes {
            #expect(change["version"]?.int64 == 7)
            let members = change["document"]?.members.map { $0.map(\.name.string).sorted() }
            #expect(members == ["m0", "m1", "m2", "m3", "m4", "m5", "n"])
        }
    }

    @Test func `an unreadable upstream stops only its organization`() async throws {
        let gateway = try await gateway()
        let (phone, other) = (try await phone(gateway), try await phone(gateway))
        try await history(phone)
        let body = Array(#"{"base_url":"http://localhost:1","credential":{"bearer":"geheimnis"}}"#.utf8)
        let rules = UpstreamRules(canSign: false, leaseSeconds: 120)
        for phone in [phone, other] {
            _ = try await gateway.store.administration.putUpstream(
                of: phone.organization.id,
                UpstreamUpdate(body: body, rules: rules)
            )
        }
        #expect(try await gateway.database.mentions(of: "geheimnis") == [:])
        let upstream = try await gateway.store.catalog.organization(phone.organization.id)?.upstream
        #expect(upstream?.credential == .bearer("geheimnis"))
        // two statements are required, because on a cluster the organizations are on different servers
        let sealed = try await gateway.read(
            "SELECT credential::text FROM upstreams WHERE organization_id = '\(other.organization.id)'"
        )
        try await execute(
            """
            UPDATE upstreams SET credential = '\(try sealed.read(0, 0, as: String.self))'
            WHERE organization_id = '\(phone.organization.id)'
            """,
            gateway
        )
        gateway.clock.advance(seconds: 6)
        await #expect(throws: StoreFailure.sealed) {
            try await gateway.store.catalog.organization(phone.organization.id)
        }
        #expect(try await gateway.store.catalog.organization(other.organization.id)?.upstream?.credential != nil)
        #expect(try await gateway.store.administration.deleteUpstream(of: phone.organization.id))
        #expect(try await gateway.store.catalog.organization(phone.organization.id) != nil)
    }

    @Test func `a suspended gateway refuses keys for a purged organization`() async throws {
        let gateway = try await gateway(Self.without)
        let phone = try await phone(gateway)
        try await execute("UPDATE organizations SET status = 'purging' WHERE id = '\(phone.organization.id)'", gateway)
        let sealing = try await self.gateway(of: gateway)
        _ = try await sealing.store.catalog.organization(phone.organization.id)
        #expect(try await sealing.store.keyRotation.renew(phone.organization.id) == nil)
        #expect(try await sealing.store.keyRotation.keys(after: UUID.least, 0).isEmpty)
    }
}
