import Foundation
import JSONText
import Testing

@testable import SyncModel

/// One resolver replaces client ids with server ids everywhere.
@Suite struct ReferenceResolverTests {
    private static let own = UUID()
    private static let other = UUID()
    private static let data = UUID()
    private static let seven = ServerID(7)
    private static let type: EntityType = {
        var type = EntityType(firstUseOf: "task", hasUpstream: false)
        type.relations = [Relation(member: "folderIds", entityType: "folder", idSpace: .device)]
        return type
    }()

    private func resolver(_ own: ServerID?) -> ReferenceResolver {
        let entity = EntityName(type: "task", client: .id(Self.own), serverID: own)
        let folder = LocalID(entityType: "folder", number: 23).clientID(on: Sample.device)
        let known = [Self.other: ServerID(text: "a/b", isInteger: false), folder: Self.seven]
        return ReferenceResolver(of: entity) { known[$0] }
    }

    private func payload(_ text: String, _ own: ServerID?, unresolved: JSONReplacement? = nil) throws -> String? {
        let root = try JSONTree(parsing: Array(text.utf8)).root
        let related = Self.type.localReferences(in: root, on: Sample.device)
        let resolved = resolver(own).payload(root, related, unresolved: { _ in unresolved })
        return resolved.map { String(decoding: $0, as: UTF8.self) }
    }

    @Test func `a path contains percent-encoded server IDs, and data unchanged`() throws {
        let path = try Endpoint("/tasks/{local_id}/\(Self.own)/\(Self.other)/\(Self.data)")
        let data = Self.data.uuidString
        #expect(resolver(Self.seven).path(path, own: Self.seven) == "/tasks/7/7/a%2Fb/\(data)")
        #expect(resolver(nil).path(path, own: nil) == "/tasks/{local_id}/\(Self.own.uuidString)/a%2Fb/\(data)")
    }

    @Test func `an escaped delimiter separates ids like the delimiter itself`() throws {
        let (own, other) = (Self.own.uuidString, Self.other.uuidString)
        let path = try Endpoint("/tasks?ids=\(own)%2C\(other)&filter=id%20eq%20%28\(own)%29&x=%41\(own)&y=%2d\(own)")
        let expected = "/tasks?ids=7%2Ca%2Fb&filter=id%20eq%20%287%29&x=%41\(own)&y=%2d\(own)"
        #expect(resolver(Self.seven).path(path, own: Self.seven) == expected)
        #expect(path.uuids == [Self.own, Self.other, Self.own])
    }

    @Test func `a payload contains server IDs in their form`() throws {
        let text = #"{"own":"\#(Self.own)","of":["\#(Self.other)",1],"folderIds":[23,24]}"#
        #expect(try payload(text, Self.seven) == #"{"own":7,"of":["a/b",1],"folderIds":[7,24]}"#)
        let standIn = Self.data.uuidString.lowercased()
        #expect(
            try payload(#"{"folderIds":24}"#, nil, unresolved: .uuid(Self.data)) == #"{"folderIds":"\#(standIn)"}"#
        )
        #expect(try payload(#"{"n":23}"#, Self.seven) == nil)
    }

    @Test func `an unresolvable number may refuse the payload`() throws {
        struct Refused: Error {}
        let root = try JSONTree(parsing: Array(#"{"folderIds":[23,24]}"#.utf8)).root
        let related = Self.type.localReferences(in: root, on: Sample.device)
        #expect(throws: Refused.self) {
            try resolver(nil).payload(root, related) { (_) throws(Refused) in throw Refused() }
        }
    }

    @Test func `a name belongs to one ID space`() {
        let number = LocalID(entityType: "task", number: 47)
        let byNumber = EntityName(type: "task", client: number.name(on: Sample.device))
        let byID = EntityName(type: "task", client: .id(Self.own), serverID: Self.seven)
        #expect(byNumber.localID == number && byNumber.clientID == number.clientID(on: Sample.device))
        #expect(byID.localID == nil && byID.clientID == Self.own)
        #expect(byNumber.words == "local id 47 in 'task'")
        #expect(byID.words == "client id \(Self.own.uuidString.lowercased())")
        #expect(!byNumber.isSame(as: byID) && byNumber.with(Self.seven).isSame(as: byID))
    }
}
