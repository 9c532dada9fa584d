import Foundation
import JSONText
import Testing

@testable import SyncModel

/// Product rule 5: client ids equal the server ids to which they resolved, in every id space; all other differences
/// count.
@Suite struct ContentComparisonTests {
    private static let device = UUID()

    /// A mutation as a push contains it.
    private func mutation(_ members: String, device: UUID = Self.device) throws -> Mutation {
        let id = Sample.id.uuidString
        let body = """
            {"device_id":"\(device)","mutations":[{"id":"\(id)","idempotency_key":"\(id)","sequence_number":1,
            "created_at":"2026-11-20T07:00:00.000Z",\(members)}]}
            """
        let entry = try PushRequest(body: Array(body.utf8), limits: IntakeLimits()).entries[0]
        return try #require(entry.mutation)
    }

    private func isSame(
        _ first: Mutation,
        _ second: Mutation,
        _ ids: [UUID: [ServerID]],
        places: [UInt8]? = nil,
        digest: [UInt8]? = nil
    ) -> Bool {
        let noted = first.fingerprint
        let print = digest.map { Fingerprint(digest: $0, identifiers: []) } ?? noted
        let record = MutationRecord.sample(
            .succeeded,
            id: first.id,
            device: Self.device,
            operation: first.operation,
            fingerprint: Fingerprint(stored: print.stored, places: places ?? print.places)
        ) {
            $0.entity = first.entity
            $0.state.syncedAt = Timestamp(microseconds: 0)
        }
        let knowledge = ContentComparison.Knowledge(serverIDs: { ids[$0] ?? [] }, isKnown: { _ in false })
        return ContentComparison(FirstAttempt(record), second, by: Self.device, type: nil, knowledge).isSame
    }

    @Test func `an id after an escape counts, even if the first attempt's record lacks it`() throws {
        let id = UUID()
        let ids = [id: [ServerID(7)]]
        func update(_ ids: String) throws -> Mutation {
            let members = #""operation":"update","entity_type":"task","server_id":"9","payload":{}"#
            return try mutation(members + #","endpoint":"/tasks?ids=\#(ids)""#)
        }
        let first = try update("x%2C\(id)")
        #expect(first.fingerprint.identifiers == [id])
        #expect(isSame(first, try update("x%2C7"), ids))
        #expect(!isSame(first, try update("x%2C8"), ids))
        #expect(!isSame(first, try update("x%2c7"), ids))
        // an id that only adjoins an escape
        for other in ["x%2D\(id)", "%41\(id)", "%252C\(id)", "2C\(id)"] {
            #expect(try update(other).fingerprint.identifiers.isEmpty, "\(other)")
        }
        let asWritten = first.canonicalForm(
            entity: { Fingerprint.append(first.entity, to: &$0) },
            part: { _, _, _ in nil },
            value: { _, _ in nil }
        )
        let digest = Fingerprint.digest(of: asWritten)
        #expect(isSame(first, first, ids, digest: digest))
        #expect(isSame(first, first, [:], digest: digest))
        #expect(!isSame(first, try update("x%2C\(UUID())"), ids, digest: digest))
        #expect(!isSame(first, try update("x%2C7"), ids, digest: digest))
    }

    @Test func `a server id next to the client id is other content unless it is the entity's`() throws {
        let (local, server, other) = (UUID(), UUID(), UUID())
        let ids = [local: [ServerID(server)], other: [ServerID(7)]]
        for (operation, payload) in [("create", "{}"), ("update", #"{"a":1}"#)] {
            func given(_ names: String) throws -> Mutation {
                try mutation(#""operation":"\#(operation)","entity_type":"task","payload":\#(payload),\#(names)"#)
            }
            let name = #""local_id":"\#(local)""#
            let first = try given(name)
            #expect(isSame(first, try given(name + #","server_id":"\#(server)""#), ids))
            for wrong in ["\"\(other)\"", "7", "\"\(UUID())\"", "\"x\"", "\"\(local)\""] {
                #expect(!isSame(first, try given(name + #","server_id":\#(wrong)"#), ids), "\(wrong)")
            }
            // the first attempt's content equals itself
            let both = try given(name + #","server_id":"x""#)
            #expect(isSame(both, both, [:]))
        }
    }

    // MARK: - Property

    /// The content of one place.
    private enum Atom {
        case client(Int)
        case server(Int)
        case stray(UUID)
        case number(Int)
        case word(String)
    }

    private indirect enum Tree {
        case atom(Atom)
        case list([Tree])
        case object([(String, Tree)])
    }

    private struct Content {
        var entity: Atom
        var segments: [Atom]
        var payload: Tree

        /// Changes the content of each place.
        func map(_ change: (Atom) -> Atom) -> Content {
            func map(_ tree: Tree) -> Tree {
                switch tree {
                case .atom(let atom): .atom(change(atom))
                case .list(let list): .list(list.map(map))
                case .object(let members): .object(members.map { ($0, map($1)) })
                }
            }
            return Content(entity: change(entity), segments: segments.map(change), payload: map(payload))
        }
    }

    /// Server ids that look like ordinary numbers and words, and server ids generated by Sluice.
    private static let servers: [ServerID] = [
        ServerID(text: "7", isInteger: true), ServerID(text: "1", isInteger: true),
        ServerID(text: "0", isInteger: true), ServerID(text: "open", isInteger: false),
        ServerID(text: "a b?ü", isInteger: false), ServerID(text: "42", isInteger: false), ServerID(UUID()),
        ServerID(UUID()),
    ]
    private static let clients = servers.map { _ in UUID() }
    private static let strays = [UUID(), UUID()]
    private static let words = ["open", "closed", "42", "7", "a b?ü", "x", "1"]

    private static var known: [UUID: [ServerID]] {
        Dictionary(uniqueKeysWithValues: zip(clients, servers.map { [$0] }))
    }

    private func atom(_ random: inout some RandomNumberGenerator) -> Atom {
        let index = Int.random(in: 0..<Self.servers.count, using: &random)
        return switch Int.random(in: 0..<8, using: &random) {
        case 0...2: .client(index)
        case 3, 4: .server(index)
        case 5: .number(Int.random(in: 0...9, using: &random))
        case 6: .stray(Self.strays[index % 2])
        default: .word(Self.words[Int.random(in: 0..<Self.words.count, using: &random)])
        }
    }

    private func tree(_ depth: Int, _ random: inout some RandomNumberGenerator) -> Tree {
        let count = Int.random(in: 0...4, using: &random)
        switch Int.random(in: 0..<(depth > 2 ? 1 : 3), using: &random) {
        case 1: return .list((0..<count).map { _ in tree(depth + 1, &random) })
        case 2: return .object((0..<count).map { ("m\($0)", tree(depth + 1, &random)) })
        default: return .atom(atom(&random))
        }
    }

    private func json(_ atom: Atom) -> String {
        switch atom {
        case .client(let index): "\"\(Self.clients[index])\""
        case .server(let index):
            Self.servers[index].isInteger ? Self.servers[index].text : "\"\(Self.servers[index].text)\""
        case .stray(let id): "\"\(id.uuidString.lowercased())\""
        case .number(let number): "\(number)"
        case .word(let word): "\"\(word)\""
        }
    }

    private func text(_ atom: Atom) -> String {
        switch atom {
        case .client(let index): Self.clients[index].uuidString
        case .server(let index): Self.servers[index].text
        case .stray(let id): id.uuidString
        case .number(let number): "\(number)"
        case .word(let word): word
        }
    }

    private func json(_ tree: Tree, _ random: inout some RandomNumberGenerator) -> String {
        switch tree {
        case .atom(let atom): return json(atom)
        case .list(let list): return "[" + list.map { json($0, &random) }.joined(separator: ", ") + "]"
        case .object(let members):
            return "{"
                + members.shuffled(using: &random).map { "\"\($0)\":\(json($1, &random))" }
                .joined(separator: ",") + "}"
        }
    }

    private func mutation(_ content: Content, _ random: inout some RandomNumberGenerator) throws -> Mutation {
        let entity =
            if case .client = content.entity { "\"local_id\":\(json(content.entity))" } else {
                "\"server_id\":\(json(content.entity))"
            }
        let path = content.segments.map { String(decoding: PercentEncoding.encoded(text($0)), as: UTF8.self) }
        return try mutation(
            """
            "operation":"update","entity_type":"task",\(entity),"endpoint":"/\((path + ["x"]).joined(separator: "/"))",
            "payload":\(json(content.payload, &random))
            """
        )
    }

    /// Returns a text that is equal for contents with the same meaning: each entity has its server id, even if the
    /// content names it by its client id.
    private func meaning(_ content: Content, isPath: Bool = false) -> String {
        func meaning(_ atom: Atom) -> String {
            if case .client(let index) = atom { return json(.server(index)) }
            return json(atom).lowercased()
        }
        func meaning(_ tree: Tree) -> String {
            switch tree {
            case .atom(let atom): meaning(atom)
            case .list(let list): "[" + list.map(meaning).joined(separator: ",") + "]"
            case .object(let members): "{" + members.map { $0 + ":" + meaning($1) }.joined(separator: ",") + "}"
            }
        }
        // in a path 7 and "7" are equal
        let path = content.segments.map { atom -> String in
            if case .client(let index) = atom { return text(.server(index)).lowercased() }
            return text(atom).lowercased()
        }
        return ([meaning(content.entity)] + path + [meaning(content.payload)]).joined(separator: "|")
    }

    @Test func `any subset of IDs may be rewritten and nothing else`() throws {
        var random = SystemRandomNumberGenerator()
        var (same, other) = (0, 0)
        for _ in 0..<2_000 {
            let index = Int.random(in: 0..<Self.servers.count, using: &random)
            let first = Content(
                entity: Bool.random(using: &random) ? .client(index) : .server(index),
                segments: (0..<Int.random(in: 0...3, using: &random)).map { _ in atom(&random) },
                payload: tree(0, &random)
            )
            var second = first.map { atom in
                guard Bool.random(using: &random) else { return atom }
                return switch atom {
                case .client(let index): .server(index)
                case .server(let index): .client(index)
                default: atom
                }
            }
            if Bool.random(using: &random) {
                // one place has other content, which may happen to mean the same
                var places = 0
                _ = second.map {
                    places += 1
                    return $0
                }
                var left = Int.random(in: 0..<places, using: &random)
                let changed = second.map { atom in
                    left -= 1
                    return left == -1 ? self.atom(&random) : atom
                }
                second.segments = changed.segments
                second.payload = changed.payload
                if case .client = changed.entity { second.entity = changed.entity }
                if case .server = changed.entity { second.entity = changed.entity }
            }
            let (one, two) = (try mutation(first, &random), try mutation(second, &random))
            let expected = meaning(first) == meaning(second)
            if expected { same += 1 } else { other += 1 }
            #expect(isSame(one, two, Self.known) == expected, "\(meaning(first)) and \(meaning(second))")
            #expect(isSame(two, one, Self.known) == expected, "\(meaning(second)) and \(meaning(first))")
        }
        #expect(same > 300 && other > 300)
    }

    // MARK: - One at a time

    private static let client = UUID()
    private static let seven = [client: [ServerID(text: "7", isInteger: true)]]

    private func update(_ payload: String, endpoint: String = "/x", more: String = #""server_id":1"#) throws -> Mutation
    {
        try mutation(
            #""operation":"update","entity_type":"task",\#(more),"endpoint":"\#(endpoint)","payload":\#(payload)"#
        )
    }

    @Test func `a number that equals a server ID is content`() throws {
        let first = try update(#"{"count":7,"of":"\#(Self.client)"}"#)
        #expect(isSame(first, try update(#"{"count":7,"of":7}"#), Self.seven))
        for payload in [
            #"{"count":8,"of":7}"#, #"{"count":7,"of":8}"#, #"{"count":7,"of":"7"}"#, #"{"count":7,"of":[7]}"#,
            #"{"of":7}"#, #"{"count":7,"of":7,"more":7}"#, #"{"count":7,"of":null}"#, #"{"count":7,"off":7}"#,
        ] {
            let second = try update(payload)
            #expect(!isSame(first, second, Self.seven), "\(payload)")
            #expect(!isSame(second, first, Self.seven), "\(payload)")
        }
    }

    @Test func `names and parts of strings are no IDs`() throws {
        let client = Self.client.uuidString.lowercased()
        #expect(!isSame(try update(#"{"\#(client)":1}"#), try update(#"{"7":1}"#), Self.seven))
        #expect(!isSame(try update(#"{"a":"x \#(client)"}"#), try update(#"{"a":"x 7"}"#), Self.seven))
        let other = try update(#"{"a":"\#(client)"}"#, endpoint: "/x/7")
        #expect(!isSame(other, try update(#"{"a":7}"#, endpoint: "/x/8"), Self.seven))
    }

    @Test(arguments: ["a%20b%2Fc", "a%20b%2fc", "%61%20b%2Fc"])
    func `an ID in a path is equal in every encoding`(_ text: String) throws {
        let ids = [Self.client: [ServerID(text: "a b/c", isInteger: false)]]
        let first = try mutation(
            #""operation":"delete","entity_type":"task","server_id":1,"endpoint":"/x/\#(Self.client)/y?of=\#(Self.client)""#
        )
        let path = try #require(
            Endpoint.length(of: ServerID(text: "a b/c", isInteger: false), at: Array((text + "/y").utf8)[...])
        )
        #expect(path == text.utf8.count)
        let other = #""operation":"delete","entity_type":"task","server_id":1,"endpoint":"/x/\#(text)/y?of=\#(text)""#
        if let second = try? mutation(other) { #expect(isSame(first, second, ids)) }
        let second = try mutation(
            #""operation":"delete","entity_type":"task","server_id":1,"endpoint":"/x/a%20b/y?of=\#(Self.client)""#
        )
        #expect(!isSame(first, second, ids))
    }

    @Test func `an ID in a path ends at its delimiter`() throws {
        let first = try update("{}", endpoint: "/x/\(Self.client)/y?of=\(Self.client)")
        #expect(isSame(first, try update("{}", endpoint: "/x/7/y?of=7"), Self.seven))
        #expect(isSame(first, try update("{}", endpoint: "/x/\(Self.client)/y?of=7"), Self.seven))
        for path in ["/x/77/y?of=7", "/x/7/y?of=71", "/x/7/y?of=7&a=7", "/x/7/z?of=7", "/x//y?of=7"] {
            guard let second = try? update("{}", endpoint: path) else { continue }
            #expect(!isSame(first, second, Self.seven), "\(path)")
        }
    }

    @Test func `types that share a client ID resolve to each of their IDs`() throws {
        let ids = [Self.client: [ServerID(text: "7", isInteger: true), ServerID(text: "t", isInteger: false)]]
        let first = try update(#"{"of":"\#(Self.client)"}"#)
        for payload in [#"{"of":7}"#, #"{"of":"t"}"#] { #expect(isSame(first, try update(payload), ids)) }
        #expect(!isSame(first, try update(#"{"of":8}"#), ids))
    }

    @Test func `a mutation is the same with the entity's client ID, its server ID, and both`() throws {
        let id = "\"local_id\":\"\(Self.client)\""
        let tries = try [id, #""server_id":7"#, id + #","server_id":7"#].map { try update("{}", more: $0) }
        for first in tries {
            for second in tries { #expect(isSame(first, second, Self.seven)) }
            #expect(!isSame(first, try update("{}", more: #""server_id":"7""#), Self.seven))
            #expect(!isSame(first, try update("{}", more: #""server_id":8"#), Self.seven))
            #expect(!isSame(first, try update("{}", more: #""local_id":"\#(UUID())""#), Self.seven))
        }
    }

    // MARK: - Stored form

    /// Earlier versions stored this form. With other bytes, every known key would look reused.
    @Test func `the computed form equals the stored one`() throws {
        let id = UUID().uuidString
        let mutation = try mutation(
            """
            "operation":"update","entity_type":"task","local_id":"\(id)","endpoint":"/x/\(id)?of=\(id)",
            "payload":{"b":"x","a":[1,"\(id)"]},"headers":{"accept":"y"},"base_version":3
            """
        )
        let hex = mutation.fingerprint.digest.map { String(format: "%02x", $0) }.joined()
        #expect(hex == "01" + "4466507ba8f249ac035d98235efb8bdf453c4fc59439f71ce04ca863c243b0b0")
        #expect(mutation.fingerprint.identifiers.count == 4)
        #expect(mutation.fingerprint.stored.count == 33 + 4 * 16)
        #expect(mutation.fingerprint.places.count == 3)
    }

    /// Rows from before places were recorded: UUIDs are compared as in that version, and nothing else counts as equal.
    @Test func `a record without places is compared by its UUIDs`() throws {
        let (a, b) = (UUID(), UUID())
        let ids = [a: [ServerID(b)], Self.client: [ServerID(text: "7", isInteger: true)]]
        let first = try update(#"{"a":"\#(a)","of":"\#(Self.client)"}"#)
        #expect(isSame(first, try update(#"{"a":"\#(b)","of":"\#(Self.client)"}"#), ids, places: []))
        #expect(!isSame(first, try update(#"{"a":"\#(a)","of":7}"#), ids, places: []))
        #expect(isSame(first, try update(#"{"a":"\#(b)","of":7}"#), ids))
        // bytes that no version wrote
        #expect(!isSame(first, try update(#"{"a":"\#(b)","of":7}"#), ids, places: [0xff, 0xff]))
    }

    @Test func `encoded places decode to themselves`() {
        var random = SystemRandomNumberGenerator()
        for _ in 0..<200 {
            var places = IDPlaces()
            var expected: [IDPlaces.Place] = []
            var offset = 0
            for _ in 0..<Int.random(in: 0...20, using: &random) {
                offset += Int.random(in: 0...(Bool.random() ? 10 : 300_000), using: &random)
                let numbers: [Int64?] = [nil, nil, 0, -1, 81, .min, .max, .random(in: .min...(.max))]
                let place = IDPlaces.Place(offset: offset, number: numbers.randomElement() ?? nil)
                expected.append(place)
                places.append(place)
            }
            #expect(IDPlaces.places(places.stored) == expected)
        }
    }

    // MARK: - Device ids

    private static let folder = EntityType(
        name: "task",
        idSpace: .device,
        relations: [Relation(member: "folderId", entityType: "folder", idSpace: .device)],
        visibility: .user,
        defaultPriority: 0,
        isForwarded: true,
        isInUse: true
    )

    /// A task in a folder; each attempt may come from another device.
    @Test func `a relation's number equals the server ID to which it resolves`() throws {
        let tablet = UUID()
        func folder(_ number: Int64, _ device: UUID = Self.device) -> UUID {
            LocalID(entityType: "folder", number: number).clientID(on: device)
        }
        let uuid = UUID()
        var ids = [
            folder(23): [ServerID(text: "f", isInteger: false)], folder(24): [ServerID(text: "9", isInteger: true)],
            folder(25): [ServerID(uuid)], folder(26): [ServerID(text: "23", isInteger: true)],
        ]
        func task(_ folder: String, local: String = "47", device: UUID = Self.device) throws -> Mutation {
            try mutation(
                #""operation":"create","entity_type":"task","local_id":\#(local),"payload":{"folderId":\#(folder),"n":23}"#,
                device: device
            )
        }
        func isSame(_ first: Mutation, _ second: Mutation, by device: UUID = Self.device) -> Bool {
            let references = Self.folder.localReferences(in: first.payload, on: Self.device)
            let knowledge = ContentComparison.Knowledge(
                serverIDs: { ids[$0] ?? [] },
                isKnown: { ids[$0.clientID(on: Self.device)] != nil }
            )
            let first = FirstAttempt(first, by: Self.device, references)
            return ContentComparison(first, second, by: device, type: Self.folder, knowledge).isSame
        }
        for (one, other, expected) in [
            ("23", #""f""#, true), ("24", "9", true), ("25", "\"\(uuid)\"", true),
            ("[24,23,null]", #"[24,"f",null]"#, true),
            ("[23,25,24]", "[\"f\",\"\(uuid)\",9]", true), ("23", "24", false), ("23", #""g""#, false),
            // an integer that is an id of the device references that entity
            ("26", "23", false), ("24", "8", false), ("23", "null", false), ("23", #""23""#, false),
        ] {
            #expect(isSame(try task(one), try task(other)) == expected, "\(one) and \(other)")
        }
        for (one, other) in [(#""f""#, "23"), ("\"\(uuid)\"", "25"), (#"["f",25]"#, "[23,25]")] {
            #expect(isSame(try task(one), try task(other)), "\(one) and \(other)")
        }
        // an installation with a new device id sends its earlier mutations
        #expect(isSame(try task("23"), try task("23", device: tablet), by: tablet))
        #expect(isSame(try task("23"), try task(#""f""#, device: tablet), by: tablet))
        #expect(!isSame(try task("23"), try task("23", local: "48", device: tablet), by: tablet))
        // the tablet's own number 47 is another entity
        let foreign = LocalID(entityType: "task", number: 47).clientID(on: tablet)
        ids[foreign] = [ServerID(8)]
        ids[LocalID(entityType: "task", number: 47).clientID(on: Self.device)] = [ServerID(5)]
        for (id, expected) in [("5", true), ("8", false), ("6", false)] {
            let both = try task("23", local: "47,\"server_id\":\(id)", device: tablet)
            #expect(isSame(try task("23"), both, by: tablet) == expected, "\(id)")
        }
    }
}
