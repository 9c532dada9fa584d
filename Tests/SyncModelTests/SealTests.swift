import Foundation
import Testing

@testable import SyncModel

@Suite struct SealTests {
    static let keys = "first:" + String(repeating: "00112233445566778899aabbccddeeff", count: 2)
    static let others = "second:" + String(repeating: "0f1e2d3c4b5a69788796a5b4c3d2e1f0", count: 2)

    let organization = UUID()
    let user = UUID()
    let id = UUID()
    var place: SealedPlace { .mutation(.payload, user: user, id: id) }
    let plain = Array(#"{"title":"Besuch bei Frau Ærø","n":12345678901234567890.50}"#.utf8)

    func masters(_ text: String = keys) throws -> MasterKeys { try MasterKeys(parsing: text) }

    func wrapped(_ number: Int32 = 1, of organization: UUID? = nil) throws -> WrappedKey {
        let master = try #require(masters().wrapping)
        return try .new(number: number, of: organization ?? self.organization, by: master)
    }

    func seal(_ keys: [WrappedKey], of organization: UUID? = nil) throws -> Seal {
        Seal(of: organization ?? self.organization, keys, try masters())
    }

    @Test func whatIsSealedOpensToTheByteAndShowsNothing() throws {
        let seal = try seal([wrapped()])
        let stored = try #require(try seal.seal(json: plain, as: place))
        let text = String(decoding: stored, as: UTF8.self)
        #expect(text.hasPrefix(#""sluice-sealed:1:1:"#) && text.hasSuffix("\""))
        #expect(!text.contains("title") && !text.contains("Frau"))
        #expect(try JSONSerialization.jsonObject(with: Data(stored), options: .fragmentsAllowed) is String)
        #expect(try seal.open(json: stored, as: place) == plain)
        #expect(try seal.seal(json: plain, as: place) != stored, "every nonce is another")
        #expect(try seal.seal(json: nil, as: place) == nil)
        #expect(try seal.open(json: nil, as: place) == nil)
        #expect(try seal.open(json: seal.seal(json: [], as: place), as: place) == [])
        let words = try #require(try seal.seal(text: "the upstream answered 500", as: place))
        #expect(words.hasPrefix("sluice-sealed:1:1:"))
        #expect(try seal.open(text: words, as: place) == "the upstream answered 500")
    }

    @Test func whatWasMovedDoesNotOpen() throws {
        let key = try wrapped()
        let seal = try seal([key])
        let stored = try seal.seal(json: plain, as: place)
        let places: [SealedPlace] = [
            .mutation(.payload, user: user, id: UUID()), .mutation(.payload, user: UUID(), id: id),
            .mutation(.error, user: user, id: id), .mutation(.sentPayload, user: user, id: id),
            .rejection(user: user, key: id), .document(type: "task", id: id.uuidString), .upstream(.credential),
        ]
        for other in places {
            #expect(throws: SealError.damaged(other.name)) { try seal.open(json: stored, as: other) }
        }
        // another organization cannot even unwrap the key
        let other = UUID()
        #expect(try self.seal([key], of: other).lock != nil)
        #expect(throws: SealError.damaged(place.name)) {
            try self.seal([wrapped(of: other)], of: other).open(json: stored, as: place)
        }
        let document = try seal.seal(json: plain, as: .document(type: "a", id: "bc"))
        #expect(throws: SealError.self) { try seal.open(json: document, as: .document(type: "ab", id: "c")) }
    }

    @Test func whatWasChangedInAnyByteDoesNotOpen() throws {
        let seal = try seal([wrapped()])
        let stored = try #require(try seal.seal(json: plain, as: place))
        for index in stored.indices.dropFirst(1) {
            var changed = stored
            changed[index] = changed[index] == UInt8(ascii: "A") ? UInt8(ascii: "B") : UInt8(ascii: "A")
            // before the number it is no sealed value any more, and no JSON object either
            guard index > 16 else { continue }
            #expect(throws: SealError.self) { try seal.open(json: changed, as: place) }
        }
        for count in 18..<stored.count {
            #expect(throws: SealError.self) { try seal.open(json: Array(stored[..<count]), as: place) }
            #expect(throws: SealError.self) {
                try seal.open(json: Array(stored[..<count]) + [UInt8(ascii: "\"")], as: place)
            }
            if count == stored.count - 2 { break }
        }
        for odd in [
            #""sluice-sealed:1:""#, #""sluice-sealed:1:1:""#, #""sluice-sealed:1:1:AAAA""#, #""sluice-sealed:1:x:AA""#,
        ] {
            #expect(throws: SealError.self) { try seal.open(json: Array(odd.utf8), as: place) }
        }
    }

    @Test func plainValuesThatLookSealedAreWrittenAnotherWay() throws {
        let spoof = Array(#""sluice-sealed:1:1:AAAABBBB""#.utf8)
        let stored = try #require(try Seal.plain.seal(json: spoof, as: place))
        #expect(String(decoding: stored, as: UTF8.self) == #""\u0073luice-sealed:1:1:AAAABBBB""#)
        let read = try Seal.plain.open(json: stored, as: place)
        #expect(read == stored)
        let value = try JSONSerialization.jsonObject(with: Data(stored), options: .fragmentsAllowed) as? String
        #expect(value == "sluice-sealed:1:1:AAAABBBB")
        let words = try Seal.plain.seal(text: "sluice-sealed:1:1:AAAA", as: place)
        #expect(words == " sluice-sealed:1:1:AAAA")
        #expect(try Seal.plain.open(text: words, as: place) == words)
        // with a key it is sealed like anything else
        let seal = try seal([wrapped()])
        #expect(try seal.open(json: seal.seal(json: spoof, as: place), as: place) == spoof)
        for harmless in [#"{"a":"sluice-sealed:1:1:AA"}"#, #""sluice""#, "null", "", #" "sluice-sealed:1:1:AA""#] {
            let bytes = Array(harmless.utf8)
            #expect(try Seal.plain.seal(json: bytes, as: place) == bytes)
            #expect(try seal.open(json: bytes, as: place) == bytes)
        }
    }

    @Test func olderKeysOpenAndTheNewestSeals() throws {
        let (one, two) = (try wrapped(1), try wrapped(2))
        let before = try seal([one])
        let stored = try before.seal(json: plain, as: place)
        let after = try seal([two, one])
        #expect(after.number == 2)
        #expect(try after.open(json: stored, as: place) == plain)
        let new = try #require(try after.seal(json: plain, as: place))
        #expect(String(decoding: new, as: UTF8.self).hasPrefix(#""sluice-sealed:1:2:"#))
        #expect(throws: SealError.unknownKey(2)) { try before.open(json: new, as: place) }
        #expect(throws: SealError.unknownKey(2)) { try Seal.plain.open(json: new, as: place) }
        // plain rows from before stay readable
        #expect(try after.open(json: plain, as: place) == plain)
    }

    @Test func withoutItsMasterKeyAnOrganizationIsLocked() throws {
        let key = try wrapped()
        for masters in [nil, try masters(Self.others), try masters("first:" + String(Self.others.dropFirst(7)))] {
            let seal = Seal(of: organization, [key], masters)
            let reason = try #require(seal.lock)
            #expect(reason.contains("sealed") && reason.contains("configured"))
            #expect(throws: SealError.locked(reason)) { try seal.seal(json: plain, as: place) }
            #expect(throws: SealError.locked(reason)) { try seal.seal(text: "x", as: place) }
        }
        let forged = WrappedKey(number: 2, masterKey: key.masterKey, bytes: key.bytes)
        #expect(try seal([forged]).lock?.contains("does not open") == true)
        #expect(try seal([]).isPlain)
    }

    @Test func rewrappingKeepsTheDataKey() throws {
        let key = try wrapped()
        let stored = try seal([key]).seal(json: plain, as: place)
        let both = try masters(Self.others + "\n" + Self.keys)
        let master = try #require(both.wrapping)
        let rewrapped = try key.rewrapped(of: organization, by: master, knowing: both)
        #expect(rewrapped.masterKey.hasPrefix("second:") && rewrapped.bytes != key.bytes)
        let seal = Seal(of: organization, [rewrapped], try masters(Self.others))
        #expect(try seal.open(json: stored, as: place) == plain)
        #expect(throws: SealError.self) {
            try key.rewrapped(of: organization, by: master, knowing: masters(Self.others))
        }
    }
}

@Suite struct MasterKeyTests {
    @Test func aFileHasALineAKey() throws {
        let text =
            "# of 2027\n\n  \(SealTests.others)  \r\n\(SealTests.keys.uppercased().replacing("FIRST", with: "first"))\n"
        let keys = try MasterKeys(parsing: text)
        #expect(keys.wrapping?.name == "second")
        let first = try #require(MasterKeys(parsing: SealTests.keys).wrapping)
        #expect(keys[first.label]?.name == "first")
        #expect(first.label.count == "first:".count + 8)
        #expect(try MasterKeys(parsing: "-\n" + SealTests.keys).wrapping == nil)
        #expect(try MasterKeys(parsing: "-\n" + SealTests.keys)[first.label] != nil)
    }

    @Test func aNewLineIsAGoodOne() throws {
        let line = MasterKey.newLine(name: "main")
        #expect(try MasterKeys(parsing: line).wrapping?.name == "main")
        #expect(MasterKey.newLine(name: "main") != line)
    }

    @Test(arguments: [
        ("", "no key"), ("# nothing\n", "no key"), ("-\n", "no key"), ("secretsecret", "line 1"),
        ("first:0011223344secret", "64 hex digits"), ("First:" + SealTests.keys.dropFirst(6), "line 1"),
        (SealTests.keys + "\n" + SealTests.keys, "line 2 names first a second time"),
        ("zero:" + String(repeating: "0", count: 64), "random"), (SealTests.keys + "\n-", "line 2"),
        ("first:zz" + SealTests.keys.dropFirst(8), "64 hex digits"), (":" + SealTests.keys.dropFirst(6), "line 1"),
    ])
    func aBadFileIsRefusedWithoutShowingIt(_ text: String, _ words: String) throws {
        let error = #expect(throws: MasterKeyError.self) { try MasterKeys(parsing: text) }
        let description = error?.description ?? ""
        #expect(description.contains(words), "\(description)")
        #expect(!description.contains("secret") && !description.contains("00112233"))
    }
}
