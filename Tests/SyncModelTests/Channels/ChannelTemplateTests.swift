import Foundation
import JSONText
import Testing

@testable import SyncModel

@Suite struct ChannelTemplateTests {
    private static let owner = UUID(uuid: (1, 0, 0, 0, 0, 0, 64, 0, 128, 0, 0, 0, 0, 0, 0, 2))

    private func names(_ templates: [String], _ document: String, id: ServerID = ServerID(7)) throws -> [String] {
        let rules = ChannelRules(channels: try templates.map { try ChannelTemplate($0) })
        return rules.names(document: Array(document.utf8), id: id, owner: Self.owner)
    }

    @Test func `a template gives a name for each element of an array`() throws {
        let document = #"{"a":"x","teams":[1,"b",null,{},true],"deep":{"c":"D9A7E6B0-0000-4000-8000-000000000001"}}"#
        #expect(try names(["visit/{id}"], document) == ["visit/7"])
        #expect(try names(["user/{owner}"], document) == ["user/\(Self.owner.uuidString.lowercased())"])
        #expect(try names(["team/{/teams}", "x{/a}y"], document) == ["team/1", "team/b", "xxy"])
        #expect(try names(["{/a}/{/teams}"], document) == ["x/1", "x/b"])
        #expect(try names(["c/{/deep/c}"], document) == ["c/d9a7e6b0-0000-4000-8000-000000000001"])
        #expect(try names(["n/{/none}", "o/{/deep}", "all"], document) == ["all"])
        #expect(try names(["all", "all"], document) == ["all"])
        #expect(try names(["l/{/a}"], #"{"a":"\#(String(repeating: "x", count: 199))"}"#) == [])
    }

    @Test func `an entity without an owner has no value for the owner`() throws {
        let rules = ChannelRules(channels: try ["own/{owner}", "all"].map { try ChannelTemplate($0) })
        for owner in [Writer.erased, Writer.elsewhere.user] {
            #expect(rules.names(document: Array("{}".utf8), id: ServerID(7), owner: owner) == ["all"])
        }
    }

    @Test func `an entity may be in 32 channels`() throws {
        let list = (0..<40).map(String.init).joined(separator: ",")
        #expect(try names(["t/{/t}"], #"{"t":[\#(list)]}"#).count == ChannelName.limitOfEntity + 1)
    }

    @Test func `only different valid values count`() throws {
        func list(_ values: [String]) -> String { "[" + values.map { "\"\($0)\"" }.joined(separator: ",") + "]" }
        let repeated = Array(repeating: "q", count: 500)
        #expect(try names(["x{/a}"], #"{"a":\#(list(repeated + ["s"]))}"#) == ["xq", "xs"])
        let (long, ends) = ((0..<40).map { String(repeating: "\($0 % 10)", count: 150 + $0) }, list(repeated + ["t"]))
        let pairs = try names(["{/a}/{/b}"], #"{"a":\#(list(repeated + ["s"])),"b":\#(ends)}"#)
        #expect(pairs == ["q/q", "q/t", "s/q", "s/t"])
        let tooLong = String(repeating: "b", count: 60)
        #expect(try names(["{/a}/{/b}"], #"{"a":\#(list(long + ["s"])),"b":"\#(tooLong)"}"#) == ["s/" + tooLong])
        // different values give equal names
        let parts = list((1...12).map { String(repeating: "a", count: $0) })
        #expect(try names(["{/a}{/a}"], #"{"a":\#(parts)}"#) == (2...24).map { String(repeating: "a", count: $0) })
    }

    @Test func `only different users and channels count for grants`() throws {
        let users = Array(repeating: Self.owner.uuidString, count: 300) + ["no user", UUID().uuidString]
        let channels = Array(repeating: "q", count: 300) + (0..<90).map { "c\($0)" }
        func list(_ values: [String]) -> String { "[" + values.map { "\"\($0)\"" }.joined(separator: ",") + "]" }
        let rule = ContentGrant(user: "/u", channels: [try ChannelTemplate("t/{/t}")], role: .read)
        let document = Array(#"{"u":\#(list(users)),"t":\#(list(channels))}"#.utf8)
        let granted = ChannelRules(grants: [rule]).granted(document: document, id: ServerID(7), owner: Self.owner)
        #expect(granted?.count == 182 && Set(granted ?? []).count == 182)
    }

    @Test(arguments: ["", "{", "a}", "{}", "{name}", "{a/b}", "{/a~2}", "a\u{1}"])
    func `rejects an invalid template`(text: String) {
        #expect(throws: ChannelTemplate.Malformed.self) { try ChannelTemplate(text) }
    }

    @Test func `a document grants each channel to each user once`() throws {
        let grants = [
            ContentGrant(user: "/who", channels: [try ChannelTemplate("v/{id}")], role: .read),
            ContentGrant(user: "/lead", channels: [try ChannelTemplate("v/{id}")], role: .write),
        ]
        let user = Self.owner.uuidString
        let document = Array(#"{"who":["\#(user)","no user"],"lead":"\#(user)"}"#.utf8)
        let granted = ChannelRules(grants: grants).granted(document: document, id: ServerID(7), owner: Self.owner)
        #expect(granted == [GrantedChannel(to: .user(Self.owner), channel: "v/7", role: .write)])
    }

    @Test func `an entity makes at most 200 grants, and a later rule can strengthen them`() throws {
        let users = (0..<300).map { _ in "\"\(UUID().uuidString)\"" }
        let names = (0..<32).map { "\"n\($0)\"" }
        let document = #"{"users":[\#(users.joined(separator: ","))],"names":[\#(names.joined(separator: ","))]}"#
        let templates = try (0..<16).map { try ChannelTemplate("\($0)/{/names}") }
        let grants = (0..<8).map { rule in
            ContentGrant(user: "/users", channels: templates, role: rule < 7 ? .read : .write)
        }
        let granted = try #require(
            ChannelRules(grants: grants).granted(document: Array(document.utf8), id: ServerID(7), owner: Self.owner)
        )
        #expect(granted.count == ChannelRules.limitOfGrants && Set(granted).count == granted.count)
        #expect(Set(granted.map(\.holder)).count == 1 && granted.allSatisfy { $0.role == .write })
    }

    @Test func `a grant with an issuer names users by their subjects`() throws {
        let (issuer, id) = (ByteExactString("https://id.example"), Self.owner.uuidString)
        let grant = ContentGrant(
            user: "/who",
            issuer: issuer,
            channels: [try ChannelTemplate("v/{id}")],
            role: .read
        )
        var rules = ChannelRules(grants: [grant])
        let long = String(repeating: "s", count: 255)
        let subjects = #""auth0|a",7,"\#(long)","\#(long)s","a\u0001","",null,{}"#
        func holders(_ who: String) -> [GrantHolder]? {
            let document = Array(#"{"who":[\#(who)]}"#.utf8)
            return rules.granted(document: document, id: ServerID(7), owner: Self.owner)?.map(\.holder)
        }
        func subject(_ text: String) -> GrantHolder {
            .subject(Subject(issuer: issuer, text: ByteExactString(text)))
        }
        let known = ["auth0|a", "7", long].map(subject)
        let all = #"\#(subjects),"\#(id)""#
        #expect(holders(subjects) == known, "texts are kept as they are")
        #expect(holders(all) == nil, "without settings, a UUID could be a subject or a user's id")
        rules.uuidIssuers = ["https://other.example"]
        #expect(holders(all) == known + [subject(id)])
        rules.uuidIssuers = [issuer]
        #expect(holders(all) == known + [.user(Self.owner)])
    }

    @Test func `settings are stored and read back`() throws {
        let channels = try JSONTree(parsing: Array(#"["visit/{id}"]"#.utf8)).root
        let grants = try JSONTree(parsing: Array(#"[{"user":"/a","channels":["v/{id}"],"role":"write"}]"#.utf8)).root
        let rules = ChannelRules(storedChannels: channels, storedGrants: grants)
        var writer = JSONWriter()
        rules.grants.write(to: &writer)
        #expect(
            String(decoding: writer.bytes, as: UTF8.self) == #"[{"user":"/a","channels":["v/{id}"],"role":"write"}]"#
        )
        for issuer in ["https://id.example", ""] {
            let json = #"[{"user":"/a","issuer":"\#(issuer)","channels":["v/{id}"],"role":"write"}]"#
            let grants = try JSONTree(parsing: Array(json.utf8)).root
            let rules = ChannelRules(storedChannels: channels, storedGrants: grants)
            #expect(rules.grants.first?.issuer == ByteExactString(issuer))
            var writer = JSONWriter()
            rules.grants.write(to: &writer)
            #expect(String(decoding: writer.bytes, as: UTF8.self) == json)
        }
        let wrong = try JSONTree(
            parsing: Array(#"[{"user":"a","issuer":"a\u0001","channels":["{x}"],"role":"own","b":1}]"#.utf8)
        ).root
        var report = MemberReport()
        #expect(MemberKind.contentGrants.read(wrong, at: "/grants", &report)?.isEmpty == true)
        let pointers: Set = [
            "/grants/0/b", "/grants/0/user", "/grants/0/issuer", "/grants/0/role", "/grants/0/channels/0",
        ]
        #expect(Set(report.problems.map(\.pointer)) == pointers)
    }

    @Test func `sources are stored and read back`() {
        let sources: [GrantSource] = [
            .operator, .user(Self.owner), .issuer("https://a.example/x y", of: Self.owner),
            .entity(EntityKey(type: "visit", id: "a b")),
        ]
        for source in sources { #expect(GrantSource(source.text) == source) }
    }
}
