public import FoundationEssentials
import JSONText

/// A template for names of channels: a text with placeholders in braces.
///
/// A placeholder is `{id}`, `{owner}`, or a JSON Pointer into the document.
public struct ChannelTemplate: Sendable, Hashable {
    private enum Part: Sendable, Hashable {
        case text(ByteExactString)
        case id
        case owner
        case pointer(ByteExactString)
    }

    /// The maximum size of a template in bytes.
    static let maximumBytes = 400
    /// The maximum number of placeholders in a template.
    static let maximumPlaces = 8

    /// The template as it was written.
    @Exact public private(set) var text: String
    private let parts: [Part]

    /// - Throws: the reason why the text is not a template.
    public init(_ text: String) throws(Malformed) {
        guard (1...Self.maximumBytes).contains(text.utf8.count) else {
            throw Malformed("a template has 1 to \(Self.maximumBytes) bytes")
        }
        guard text.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7f }) else {
            throw Malformed("a template has no control characters")
        }
        var parts: [Part] = []
        var rest = text.utf8[...]
        while let open = rest.firstIndex(of: UInt8(ascii: "{")) {
            if open > rest.startIndex { parts.append(try Self.plain(rest[..<open])) }
            guard let close = rest[open...].firstIndex(of: UInt8(ascii: "}")) else {
                throw Malformed("a brace is not closed")
            }
            parts.append(try Self.place(String(rest[rest.index(after: open)..<close]) ?? ""))
            rest = rest[rest.index(after: close)...]
        }
        if !rest.isEmpty { parts.append(try Self.plain(rest)) }
        guard parts.count(where: { if case .text = $0 { false } else { true } }) <= Self.maximumPlaces else {
            throw Malformed("a template has at most \(Self.maximumPlaces) places in braces")
        }
        self.text = text
        self.parts = parts
    }

    /// The reason why a text is not a template.
    public struct Malformed: Error {
        public let detail: String
        init(_ detail: String) { self.detail = detail }
    }

    private static func plain(_ bytes: Substring.UTF8View) throws(Malformed) -> Part {
        guard !bytes.contains(UInt8(ascii: "}")) else { throw Malformed("a brace is not opened") }
        return .text(ByteExactString(String(bytes) ?? ""))
    }

    private static func place(_ name: String) throws(Malformed) -> Part {
        switch name {
        case "id": return .id
        case "owner": return .owner
        default:
            guard !name.isEmpty, JSONPointer.isValid(name) else {
                throw Malformed("braces contain id, owner or a JSON Pointer such as {/team_id}; got {\(name)}")
            }
            return .pointer(ByteExactString(name))
        }
    }

    /// Whether every name from this template contains the entity's own id.
    var namesItself: Bool { parts.contains(.id) }
    /// Whether every name from this template contains the entity's owner.
    var namesOwner: Bool { parts.contains(.owner) }

    /// The different valid names of channels for a document, in order.
    ///
    /// - Parameter limit: the maximum number of names.
    func names(of subject: ChannelSubject, limit: Int) -> [String] {
        // different values can give equal names, so up to twice as many beginnings of names are kept as names are
        // needed
        let most = 2 * limit
        let values = parts.map { part in
            switch part {
            case .text(let text): [text.string]
            case .id: [subject.id.text]
            // an entity without an owner has no value, as if a member were missing
            case .owner: Writer.isReserved(subject.owner) ? [] : [subject.owner.lowercased]
            case .pointer(let pointer): subject.values(at: pointer.string, limit: most, where: ChannelName.isValid)
            }
        }
        let shortest = values.map { $0.lazy.map(\.utf8.count).min() ?? 0 }
        var room = ChannelName.maximumBytes - shortest.reduce(0, +)
        var names = [""]
        for (part, least) in zip(values, shortest) {
            // the shortest values of the parts that follow must fit
            room += least
            let mayRepeat = names.count > 1 && part.count > 1
            var seen: Set<ByteExactString> = []
            var next: [String] = []
            for name in names {
                for value in part where next.count < most && name.utf8.count + value.utf8.count <= room {
                    let longer = name + value
                    if !mayRepeat || seen.insert(ByteExactString(longer)).inserted { next.append(longer) }
                }
            }
            names = next
            if names.isEmpty { break }
        }
        return Array(names.lazy.filter(ChannelName.isValid).prefix(limit))
    }
}

/// The values of an entity for templates and grants.
struct ChannelSubject {
    let id: ServerID
    let owner: UUID
    let document: JSONValue

    /// The maximum number of elements of an array that are read.
    static let limitOfElements = 10_000

    /// The different valid ids at a JSON Pointer, which are the single value or the elements of an array.
    func values(at pointer: String, limit: Int, where isValid: (String) -> Bool) -> [String] {
        different(at: pointer, limit: limit) { ServerID(json: $0).flatMap { isValid($0.text) ? $0.text : nil } }
    }

    private func different(at pointer: String, limit: Int, _ text: (JSONValue) -> String?) -> [String] {
        guard let value = document.value(at: pointer) else { return [] }
        guard let elements = value.elements else { return text(value).map { [$0] } ?? [] }
        var seen: Set<ByteExactString> = []
        return Array(
            elements.prefix(Self.limitOfElements).lazy.compactMap(text)
                .filter { seen.insert(ByteExactString($0)).inserted }.prefix(limit)
        )
    }

    /// The different names that an issuer gave to users, read at a JSON Pointer.
    ///
    /// These are the single value or the elements of an array. Unlike a user's id, a name is not converted to lower
    /// case, even if it is a UUID.
    func externalNames(at pointer: String, limit: Int) -> [String] {
        different(at: pointer, limit: limit) { value in
            (value.string ?? value.integerText).flatMap { ExternalName.isValid($0) ? $0 : nil }
        }
    }
}

/// The rules of a type with channels. The rules determine the channels of the type's entities, and the channels that
/// the entities grant.
public struct ChannelRules: Sendable, Hashable {
    /// The maximum number of templates of a type.
    public static let maximumTemplates = 16
    /// The maximum number of a type's rules for granting channels.
    public static let maximumGrants = 8
    /// The maximum number of grants of one entity, which are pairs of a user and a channel.
    public static let limitOfGrants = 200

    public var channels: [ChannelTemplate]
    public var grants: [ContentGrant]
    /// The visibility of the type before it had channels; nil if it always had channels.
    var former: Visibility?
    /// Whether an entity's channels or grants depend on its owner.
    public var dependOnOwner: Bool {
        (channels + grants.flatMap(\.channels)).contains(where: \.namesOwner)
    }
    /// The issuers for which the gateway uses a subject in the form of a UUID as the user's id; nil in a process
    /// without token settings.
    ///
    /// A process without token settings cannot interpret a subject that is a UUID. This is a setting of the gateway,
    /// not of the type.
    public var uuidIssuers: Set<ByteExactString>?
    /// The users into whom others were joined, by joined user. A grant to a joined user is a grant to the other user
    /// (product rule 26).
    public var joinedUsers: [UUID: UUID] = [:]

    public init(channels: [ChannelTemplate] = [], grants: [ContentGrant] = []) {
        self.channels = channels
        self.grants = grants
    }

    /// The names of an entity's channels, in the order of the templates and without duplicates.
    ///
    /// If an entity would be in more channels than the limit, the result has one name more than the limit.
    public func names(document: [UInt8]?, id: ServerID, owner: UUID) -> [String] {
        guard !channels.isEmpty, let subject = Self.subject(document, id, owner) else { return [] }
        let limit = ChannelName.limitOfEntity + 1
        var seen: Set<ByteExactString> = []
        var names: [String] = []
        for template in channels {
            for name in template.names(of: subject, limit: limit) where seen.insert(ByteExactString(name)).inserted {
                names.append(name)
                if names.count == limit { return names }
            }
        }
        return names
    }

    /// The channels of an entity. If there are more than ``ChannelName/limitOfEntity``, only the first are returned.
    func ids(document: [UInt8]?, id: ServerID, owner: UUID) -> [ChannelID] {
        names(document: document, id: id, owner: owner).prefix(ChannelName.limitOfEntity).map(ChannelID.init(named:))
    }

    /// The grants of an existing entity. Each pair of a user and a channel occurs once, with the stronger role.
    ///
    /// - Returns: the grants; nil if the grants are unknown. They are unknown if the document contains a UUID as an
    ///   issuer's subject, and ``uuidIssuers`` is nil.
    public func granted(document: [UInt8]?, id: ServerID, owner: UUID) -> [GrantedChannel]? {
        guard !grants.isEmpty, let subject = Self.subject(document, id, owner) else { return [] }
        var granted: [GrantedChannel] = []
        var places: [GrantedChannel.Key: Int] = [:]
        for grant in grants {
            let names = grant.channels.flatMap { $0.names(of: subject, limit: Self.limitOfGrants) }
            guard let holders = holders(of: grant, subject) else { return nil }
            pairs: for holder in holders {
                for name in names {
                    guard granted.count < Self.limitOfGrants else { break pairs }
                    let key = GrantedChannel.Key(holder: holder, channel: ByteExactString(name))
                    if let known = places[key] {
                        granted[known].role = max(granted[known].role, grant.role)
                    } else {
                        places[key] = granted.count
                        granted.append(GrantedChannel(to: holder, channel: name, role: grant.role))
                    }
                }
            }
            // after the limit is reached, a grant can only strengthen the role of an earlier grant
            guard granted.count == Self.limitOfGrants, grant.role == .write else { continue }
            let (users, channels) = (Set(holders), Set(names.map { ByteExactString($0) }))
            for (key, place) in places where users.contains(key.holder) && channels.contains(key.channel) {
                granted[place].role = .write
            }
        }
        return granted
    }

    /// The users to whom a grant refers; nil if it cannot be decided whether a UUID is a subject or a user's id.
    private func holders(of grant: ContentGrant, _ subject: ChannelSubject) -> [GrantHolder]? {
        guard let issuer = grant.issuer else {
            let ids = subject.values(at: grant.user, limit: Self.limitOfGrants) { UUID(parsing: $0) != nil }
            return ids.compactMap(UUID.init(parsing:)).map(holder(of:))
        }
        var holders: [GrantHolder] = []
        for text in subject.externalNames(at: grant.user, limit: Self.limitOfGrants) {
            var id = UUID(parsing: text)
            if id != nil {
                guard let uuidIssuers else { return nil }
                if !uuidIssuers.contains(issuer) { id = nil }
            }
            holders.append(id.map(holder(of:)) ?? .subject(Subject(issuer: issuer, text: ByteExactString(text))))
        }
        return holders
    }

    private func holder(of user: UUID) -> GrantHolder { .user(joinedUsers[user] ?? user) }

    private static func subject(_ document: [UInt8]?, _ id: ServerID, _ owner: UUID) -> ChannelSubject? {
        guard let document, let root = (try? JSONTree(parsing: document, limits: .widest))?.root else { return nil }
        return ChannelSubject(id: id, owner: owner, document: root)
    }
}

/// A rule for the channels that entities of a type grant to users.
public struct ContentGrant: Sendable, Hashable {
    /// A JSON Pointer to the id of a user, or to an array of ids. If the rule has an issuer, the ids are the issuer's
    /// subjects.
    @Exact public var user: String
    /// The issuer of the subjects in the documents; nil if the documents contain users' ids.
    public var issuer: ByteExactString?
    public var channels: [ChannelTemplate]
    public var role: ChannelRole

    public init(user: String, issuer: ByteExactString? = nil, channels: [ChannelTemplate], role: ChannelRole) {
        self.user = user
        self.issuer = issuer
        self.channels = channels
        self.role = role
    }
}

/// The user to whom an entity grants a channel.
public enum GrantHolder: Sendable, Hashable {
    case user(UUID)
    /// The user with this subject. The gateway may not have received a token of this user yet.
    case subject(Subject)
}

/// A channel that an entity grants to a user.
public struct GrantedChannel: Sendable, Hashable {
    public let holder: GrantHolder
    @Exact public private(set) var channel: String
    public fileprivate(set) var role: ChannelRole

    fileprivate struct Key: Hashable {
        let holder: GrantHolder
        let channel: ByteExactString
    }

    public init(to holder: GrantHolder, channel: String, role: ChannelRole) {
        self.holder = holder
        self.channel = channel
        self.role = role
    }

    /// The same grant to another user; nil if `user` is nil.
    public func granted(to user: UUID?) -> GrantedChannel? {
        user.map { GrantedChannel(to: .user($0), channel: channel, role: role) }
    }
}
