import Foundation
import Synchronization
import TestSupport
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

    @Test func `sealed content opens unchanged and reveals nothing`() throws {
        let seal = try seal([wrapped()])
        let stored = try #require(try seal.seal(json: plain, as: place))
        let text = String(decoding: stored, as: UTF8.self)
        #expect(text.hasPrefix(#""sluice-sealed:1:1:"#) && text.hasSuffix("\""))
        #expect(!text.contains("title") && !text.contains("Frau"))
        #expect(try JSONSerialization.jsonObject(with: Data(stored), options: .fragmentsAllowed) is String)
        #expect(try seal.open(json: stored, as: place) == plain)
        #expect(try seal.seal(json: plain, as: place) != stored, "every nonce differs")
        #expect(try seal.seal(json: nil, as: place) == nil)
        #expect(try seal.open(json: nil, as: place) == nil)
        #expect(try seal.open(json: seal.seal(json: [], as: place), as: place) == [])
        let words = try #require(try seal.seal(text: "the upstream answered 500", as: place))
        #expect(words.hasPrefix("sluice-sealed:1:1:"))
        #expect(try seal.open(text: words, as: place) == "the upstream answered 500")
    }

    @Test func `content moved to another place does not open`() throws {
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

    @Test func `content changed in any byte does not open`() throws {
        let seal = try seal([wrapped()])
        let stored = try #require(try seal.seal(json: plain, as: place))
        for index in stored.indices.dropFirst(1) {
            var changed = stored
            // A is 000000 in base64 and Q 010000: in the last place the low bits are ignored, and B would equal A
            changed[index] = changed[index] == UInt8(ascii: "A") ? UInt8(ascii: "Q") : UInt8(ascii: "A")
            // with a change before the key's number, the value does not look sealed any more
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

    @Test func `plain values that look sealed are escaped`() throws {
        for spoof in [#""sluice-sealed:1:1:AAAABBBB""#, #" "sluice-sealed:1:1:AA""#, #"    "sluice-sealed:1:""#] {
            let stored = try #require(try Seal.plain.seal(json: Array(spoof.utf8), as: place))
            #expect(String(decoding: stored, as: UTF8.self) == " " + spoof)
            #expect(try Seal.plain.open(json: stored, as: place) == Array(spoof.utf8))
        }
        // the same string, as earlier versions escaped it
        let earlier = Array(#""\u0073luice-sealed:1:1:AAAABBBB""#.utf8)
        #expect(try Seal.plain.open(json: earlier, as: place) == earlier)
        let words = try Seal.plain.seal(text: "sluice-sealed:1:1:AAAA", as: place)
        #expect(words == " sluice-sealed:1:1:AAAA")
        for harmless in [#"{"a":"sluice-sealed:1:1:AA"}"#, #""sluice""#, "null", "", " ", #"  "sluice""#] {
            let bytes = Array(harmless.utf8)
            #expect(try Seal.plain.seal(json: bytes, as: place) == bytes)
            #expect(try Seal.plain.open(json: bytes, as: place) == bytes)
        }
    }

    /// Every value round-trips unchanged in every column, sealed or not, with any key.
    @Test(arguments: [UInt64.random(in: .min ... .max)])
    func `sealed values open to the original bytes`(_ number: UInt64) throws {
        var random = SeededRandom(number)
        let places: [SealedPlace] =
            [.payload, .headers, .sentPayload, .responseBody, .error, .lastError].map {
                .mutation($0, user: user, id: id)
            } + [
                .rejection(user: user, key: id), .document(type: "task", id: "1"), .upstream(.credential),
                .upstream(.headers),
            ]
        let opening = try MasterKeys(parsing: "-\n" + Self.keys)
        let key = try wrapped()
        let writers = [
            ("plain", Seal.plain, Seal.plain), ("opening only", Seal(of: organization, [], opening), Seal.plain),
            ("sealing", try seal([key]), try seal([key])),
            // values stored before there was a key
            ("since sealing", Seal.plain, try seal([key])),
            ("opening what is sealed", try seal([key]), Seal(of: organization, [key], opening)),
        ]
        let parts = [
            "sluice-sealed:1:", "sluice-sealed:", "1:", "AAAA", "\\u0073", "s", " ", "\t", "\\\"", "Å", "", ":", "/",
        ]
        for round in 0..<2_000 {
            var text = (0..<Int.random(in: 0...5, using: &random)).map { _ in parts.randomElement(using: &random) ?? ""
            }
            .joined()
            if random.chance(50) { text = "sluice-sealed:1:" + text }
            let spaces = String(repeating: " ", count: random.chance(30) ? Int.random(in: 1...3, using: &random) : 0)
            let json =
                switch round % 4 {
                case 0: #"{"a":"\#(text)"}"#
                case 1: #"["\#(text)"]"#
                default: spaces + #""\#(text)""#
                }
            for (who, writer, reader) in writers {
                let place = places.randomElement(using: &random) ?? place
                let stored = try #require(try writer.seal(json: Array(json.utf8), as: place))
                let read = try reader.open(json: stored, as: place)
                #expect(read == Array(json.utf8), "\(who), \(place.name), seed \(number): \(json)")
                let words = spaces + text
                let kept = try reader.open(text: writer.seal(text: words, as: place), as: place)
                #expect(kept == words, "\(who), \(place.name), seed \(number): \(words)")
            }
        }
    }

    /// A reader skips a value that can never open, and reports it; a value that may open soon is an error.
    @Test func `omits and names values that stay closed`() throws {
        let (one, two) = (try wrapped(1), try wrapped(2))
        let observed = Mutex<[String]>([])
        let observer: @Sendable (SealedPlace, SealError) -> Void = { place, _ in
            observed.withLock { $0.append(place.member) }
        }
        let seal = Seal(of: organization, [one], try masters(), observer: observer)
        let later = try self.seal([one, two]).seal(json: plain, as: place)
        var unreadable: [String] = []
        #expect(throws: SealError.unknownKey(2)) { try seal.read(json: later, as: place, &unreadable) }
        #expect(unreadable.isEmpty)
        #expect(try seal.withoutKeyRefresh.read(json: later, as: place, &unreadable) == nil)
        let body = SealedPlace.mutation(.responseBody, user: user, id: id)
        #expect(try seal.read(json: Array(#""sluice-sealed:1:1:AAAA""#.utf8), as: body, &unreadable) == nil)
        let words = SealedPlace.mutation(.lastError, user: user, id: id)
        #expect(try seal.read(text: "sluice-sealed:1:1:", as: words, &unreadable) == nil)
        #expect(try seal.read(json: plain, as: place, &unreadable) == plain)
        #expect(unreadable == ["payload", "response", "last_error"] && observed.withLock { $0 } == unreadable)
        // a value under an older key that another configuration opens is omitted for display, and an error for sending
        let old = try self.seal([one]).seal(json: plain, as: place)
        let foreign = WrappedKey(number: 1, masterKey: "lost:00000000", bytes: one.bytes)
        let partial = Seal(of: organization, [foreign, two], try masters())
        #expect(partial.isThere(1) && !partial.isThere(2) && !partial.isThere(3))
        #expect(try partial.read(json: old, as: place, &unreadable) == nil)
        #expect(throws: SealError.unknownKey(1)) {
            try partial.closing(.damaged).read(json: old, as: place, &unreadable)
        }
        let locked = Seal.locked("why")
        #expect(throws: SealError.locked("why")) {
            try locked.withoutKeyRefresh.read(json: old, as: place, &unreadable)
        }
    }

    @Test func `older keys open and the newest seals`() throws {
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
        // earlier plain rows stay readable
        #expect(try after.open(json: plain, as: place) == plain)
    }

    @Test func `an organization without its master key is locked`() throws {
        let key = try wrapped()
        for masters in [nil, try masters(Self.others), try masters("first:" + String(Self.others.dropFirst(7)))] {
            let seal = Seal(of: organization, [key], masters)
            let reason = try #require(seal.lock)
            #expect(reason.contains("encrypted") && reason.contains("configured"))
            #expect(throws: SealError.locked(reason)) { try seal.seal(json: plain, as: place) }
            #expect(throws: SealError.locked(reason)) { try seal.seal(text: "x", as: place) }
        }
        let forged = WrappedKey(number: 2, masterKey: key.masterKey, bytes: key.bytes)
        #expect(try seal([forged]).lock?.contains("does not unwrap") == true)
        #expect(try seal([]).isPlain)
    }

    @Test func `rewrapping keeps the data key`() throws {
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
    @Test func `a file has one line per key`() throws {
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

    @Test func `a new line is valid`() throws {
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
    func `refuses an invalid file without revealing it`(_ text: String, _ words: String) throws {
        let error = #expect(throws: MasterKeyError.self) { try MasterKeys(parsing: text) }
        let description = error?.description ?? ""
        #expect(description.contains(words), "\(description)")
        #expect(!description.contains("secret") && !description.contains("00112233"))
    }
}
