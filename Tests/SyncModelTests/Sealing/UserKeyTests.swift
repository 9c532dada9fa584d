import Foundation
import Testing

@testable import SyncModel

/// Sealing with users' own keys.
@Suite struct UserKeyTests {
    let organization = UUID()
    let user = UUID()
    let id = UUID()
    let plain = Array(#"{"title":"Besuch"}"#.utf8)
    var name: LaneKey { LaneKey(organization: organization, user: user) }
    var place: SealedPlace { .mutation(.payload, user: user, id: id) }
    let diary = SealedPlace.document(type: "diary", id: "7")

    let masters: MasterKeys
    let data: [WrappedKey]

    init() throws {
        masters = try MasterKeys(parsing: SealTests.keys)
        data = [try WrappedKey.new(number: 3, of: organization, by: try #require(masters.wrapping))]
    }

    func seal(_ ring: UserKeyRing, seals: Bool = true) -> Seal {
        Seal(of: organization, data, masters, users: UserSealing(ring, seals: seals, privateTypes: ["diary"]))
    }

    func key(of user: LaneKey? = nil) throws -> WrappedUserKey {
        try .new(for: user ?? name, by: try #require(masters.wrapping))
    }

    func ring(_ keys: WrappedUserKey...) -> UserKeyRing {
        let ring = UserKeyRing()
        for key in keys { ring.insert(key, masters) }
        return ring
    }

    @Test func `a sealed value names the user and needs both keys`() throws {
        let key = try key()
        let seal = seal(ring(key))
        let stored = try #require(try seal.seal(json: plain, as: place))
        let text = String(decoding: stored, as: UTF8.self)
        #expect(text.hasPrefix(#""sluice-sealed:1:3.\#(user.uuidString.lowercased()):"#))
        #expect(text.hasPrefix(SealedText.beginning(number: 3, user: user, isJSON: true)))
        #expect(try seal.open(json: stored, as: place) == plain)
        let words = try seal.seal(text: "500", as: .mutation(.lastError, user: user, id: id))
        #expect(words?.hasPrefix(SealedText.beginning(number: 3, user: user, isJSON: false)) == true)
        #expect(try seal.open(text: words, as: .mutation(.lastError, user: user, id: id)) == "500")

        // another key of the same user, and another data key of the organization
        #expect(throws: SealError.damaged(place.name)) {
            try self.seal(ring(self.key())).open(json: stored, as: place)
        }
        let others = [try WrappedKey.new(number: 3, of: organization, by: try #require(masters.wrapping))]
        let other = Seal(of: organization, others, masters, users: UserSealing(ring(key)))
        #expect(throws: SealError.damaged(place.name)) { try other.open(json: stored, as: place) }
        // another row of the same user
        #expect(throws: SealError.self) {
            try seal.open(json: stored, as: .mutation(.payload, user: user, id: UUID()))
        }
    }

    @Test func `a value does not open as another user's`() throws {
        let eve = LaneKey(organization: organization, user: UUID())
        let (mine, hers) = (try key(), try key(of: eve))
        let seal = seal(ring(mine, hers))
        let stored = try #require(try seal.seal(json: plain, as: diary, of: user))
        let moved = String(decoding: stored, as: UTF8.self).replacing(
            user.uuidString.lowercased(),
            with: eve.user.uuidString.lowercased()
        )
        #expect(throws: SealError.damaged("document")) { try seal.open(json: Array(moved.utf8), as: diary) }
        // the value does not open under the organization's key alone either
        let bare = moved.replacing(".\(eve.user.uuidString.lowercased())", with: "")
        #expect(throws: SealError.damaged("document")) { try seal.open(json: Array(bare.utf8), as: diary) }
        // a wrapped key does not open as another user's key
        let stolen = WrappedUserKey(name: eve, masterKey: mine.masterKey, bytes: mine.bytes)
        #expect(throws: SealError.self) { try stolen.unwrapped(masters) }
    }

    @Test func `seals only private documents with their owner's key`() throws {
        let seal = seal(ring(try key()))
        #expect(seal.user(ofType: "diary", owner: user) == user)
        #expect(seal.user(ofType: "task", owner: user) == nil)
        #expect(seal.user(ofType: "diary", owner: nil) == nil)
        let shared = try #require(try seal.seal(json: plain, as: .document(type: "task", id: "7")))
        #expect(String(decoding: shared, as: UTF8.self).hasPrefix(#""sluice-sealed:1:3:"#))
        let off = self.seal(ring(try key()), seals: false)
        #expect(off.user(ofType: "diary", owner: user) == nil && off.privateTypes.isEmpty)
        let stored = try #require(try off.seal(json: plain, as: place))
        #expect(String(decoding: stored, as: UTF8.self).hasPrefix(#""sluice-sealed:1:3:"#))
        // values sealed earlier stay readable after the setting is off
        let ring = ring(try key())
        let before = try self.seal(ring).seal(json: plain, as: place)
        #expect(try self.seal(ring, seals: false).open(json: before, as: place) == plain)
    }

    @Test func `reports the keys that are not cached`() throws {
        let (empty, full) = (UserKeyRing(), ring(try key()))
        let stored = try seal(full).seal(json: plain, as: place)
        #expect(throws: SealError.unknownUserKeys([name])) { try seal(empty).open(json: stored, as: place) }
        #expect(throws: SealError.noUserKeys([name])) { try seal(empty).seal(json: plain, as: place) }
        #expect(seal(empty).lacking([name]) == [name] && seal(full).lacking([name]).isEmpty)
        #expect(seal(empty, seals: false).lacking([name]).isEmpty)
        // a read does not report the value as permanently closed
        var unreadable: [String] = []
        #expect(throws: SealError.unknownUserKeys([name])) {
            try seal(empty).withoutKeyRefresh.read(json: stored, as: place, &unreadable)
        }
        #expect(unreadable.isEmpty)
        // several unknown keys are collected into one error
        var lacking = LackingKeys()
        let other = LaneKey(organization: organization, user: UUID())
        for user in [name, other, name] {
            let found: Int? = try lacking.collect { throw SealError.unknownUserKeys([user]) }
            #expect(found == nil)
        }
        #expect(lacking.collect { 7 } == 7)
        #expect(throws: SealError.unknownUserKeys([name, other])) { try lacking.check() }
        // if no key can be fetched, the value is closed
        let alone = Seal(of: organization, data, masters)
        #expect(try alone.read(json: stored, as: place, &unreadable) == nil)
        #expect(unreadable == ["payload"])
    }

    @Test(arguments: [Seal.Closing.damaged, .known, .everything])
    func `a destroyed key closes its values for all readers`(_ closing: Seal.Closing) throws {
        let ring = ring(try key())
        let stored = try seal(ring).seal(json: plain, as: place)
        ring.forget([name])
        ring.insertNone(for: name, isRefused: false)
        var unreadable: [String] = []
        #expect(try seal(ring).closing(closing).read(json: stored, as: place, &unreadable) == nil)
        #expect(unreadable == ["payload"])
        // writing for that user first requires a query for a key
        #expect(throws: SealError.noUserKeys([name])) { try seal(ring).seal(json: plain, as: place) }
        ring.insertNone(for: name, isRefused: true)
        let bare = try #require(try seal(ring).seal(json: plain, as: place))
        #expect(String(decoding: bare, as: UTF8.self).hasPrefix(#""sluice-sealed:1:3:"#))
    }

    @Test func `a key under a missing master key waits for it`() throws {
        let key = try key()
        let stored = try seal(ring(key)).seal(json: plain, as: place)
        let closed = UserKeyRing()
        closed.insert(key, try MasterKeys(parsing: SealTests.others))
        var unreadable: [String] = []
        #expect(throws: SealError.self) {
            try seal(closed).closing(.damaged).read(json: stored, as: place, &unreadable)
        }
        #expect(try seal(closed).read(json: stored, as: place, &unreadable) == nil)
        #expect(unreadable == ["payload"])
        // and nothing of that user is sealed under a weaker key
        #expect(throws: SealError.self) { try seal(closed).seal(json: plain, as: place) }
    }

    @Test func `a rewrapped key is the same key`() throws {
        let both = try MasterKeys(parsing: SealTests.others + "\n" + SealTests.keys)
        let key = try key()
        let stored = try seal(ring(key)).seal(json: plain, as: place)
        let again = try key.rewrapped(by: try #require(both.wrapping), knowing: both)
        #expect(again.masterKey != key.masterKey && again.name == key.name)
        let ring = UserKeyRing()
        ring.insert(again, try MasterKeys(parsing: SealTests.others))
        #expect(try seal(ring).open(json: stored, as: place) == plain)
    }

    @Test func `the cache is bounded`() throws {
        let ring = UserKeyRing(capacity: 10)
        for _ in 0..<100 {
            ring.insertNone(for: LaneKey(organization: organization, user: UUID()), isRefused: false)
        }
        #expect(ring.count <= 10)
    }

    @Test func `values of other forms are damaged`() throws {
        let seal = seal(ring(try key()))
        for odd in [
            "3.:AAAA", "3.x:AAAA", "3.\(user).\(user):AAAA", ".\(user):AAAA", "3.\(user):AAAA", "0.\(user):AAAA",
        ] {
            #expect(throws: SealError.damaged(place.name)) {
                try seal.open(json: Array(#""sluice-sealed:1:\#(odd)""#.utf8), as: place)
            }
        }
        // values that only look sealed are escaped
        let spoof = Array(#""sluice-sealed:1:3.\#(user):AAAA""#.utf8)
        #expect(try Seal.plain.seal(json: spoof, as: place) == [0x20] + spoof)
        #expect(try seal.open(json: seal.seal(json: spoof, as: place), as: place) == spoof)
    }
}
