import Foundation
import JSONText
import Testing

@testable import OperatorsFeature
@testable import SyncModel

@Suite struct OperationDraftTests {
    private static func draft(_ members: String, isPreview: Bool = false) throws -> OperationDraft {
        try OperationDraft(body: Array("{\(members)}".utf8), limit: 65_536, isPreview: isPreview)
    }

    /// `pointer rule` of a refusal; `-` if it is accepted.
    private static func refusal(_ members: String, isPreview: Bool = false) -> String {
        do {
            _ = try draft(members, isPreview: isPreview)
            return "-"
        } catch let problem as Problem {
            return problem.errors.map { "\($0.pointer) \($0.rule)" }.joined()
        } catch {
            return "\(error)"
        }
    }

    private static let reason = #""reason":"the upstream is well again""#

    @Test func `parses a retry of all stuck mutations`() throws {
        let draft = try Self.draft(#""kind":"retry","filter":{},\#(Self.reason)"#)
        #expect(draft.kind == .retry && draft.filter == FailureFilter() && draft.ids == nil)
        #expect(draft.perSecond == 50 && draft.reason == "the upstream is well again")
        #expect(draft.dependants == nil && draft.strategy == nil)
    }

    @Test func `parses a filter's members`() throws {
        let (user, id) = (UUID(), UUID())
        let draft = try Self.draft(
            #"""
            "kind":"discard","dependents":"keep","per_second":1000,\#(Self.reason),"filter":{
            "status":["failed"],"entity_type":"task","response_status":422,"error_code":"upstream_rejected",
            "user_id":"\#(user.lowercased)","ids":["\#(id.lowercased)"]}
            """#
        )
        var wanted = FailureFilter()
        wanted.statuses = [.failed]
        wanted.entityType = "task"
        wanted.responseStatus = 422
        wanted.errorCode = "upstream_rejected"
        wanted.user = user
        #expect(draft.filter == wanted && draft.ids == [id])
        #expect(draft.dependants == .keep && draft.perSecond == 1_000)
        #expect(
            try Self.draft(#""kind":"retry","filter":{"status":"conflict"},\#(Self.reason)"#).filter.statuses == [
                .conflict
            ]
        )
        #expect(
            try Self.draft(#""kind":"retry","filter":{"response_status":0},\#(Self.reason)"#).filter.responseStatus == 0
        )
        #expect(try Self.draft(#""kind":"retry","filter":{"status":null},\#(Self.reason)"#).filter.statuses == [])
    }

    @Test func `resolves only conflicts`() throws {
        let draft = try Self.draft(#""kind":"resolve","strategy":"server_wins","filter":{},\#(Self.reason)"#)
        #expect(draft.filter.statuses == [.conflict] && draft.strategy == .serverWins)
        let failed =
            #""kind":"resolve","strategy":"server_wins","filter":{"status":["failed","conflict"]},\#(Self.reason)"#
        #expect(Self.refusal(failed).hasPrefix("/filter/status "))
    }

    @Test func `evaluates the channels of one entity type`() throws {
        let draft = try Self.draft(#""kind":"evaluate","filter":{"entity_type":"visit"},\#(Self.reason)"#)
        #expect(draft.kind == .evaluate && draft.filter.entityType == "visit" && draft.perSecond == 1_000)
        for filter in [#"{}"#, #"{"entity_type":"visit","status":"failed"}"#] {
            #expect(Self.refusal(#""kind":"evaluate","filter":\#(filter),\#(Self.reason)"#).hasPrefix("/filter "))
        }
    }

    @Test func `a preview requires neither reason nor strategy`() throws {
        #expect(try Self.draft(#""kind":"resolve","filter":{}"#, isPreview: true).reason == "")
        #expect(Self.refusal(#""kind":"retry","filter":{}"#).hasPrefix("/reason "))
        #expect(Self.refusal(#""kind":"resolve","filter":{},\#(Self.reason)"#).hasPrefix("/strategy "))
    }

    @Test(arguments: [
        (#""filter":{}"#, "/kind"), (#""kind":"erase","filter":{}"#, "/kind"), (#""kind":"retry""#, "/filter"),
        (#""kind":"retry","filter":[]"#, "/filter"), (#""kind":"retry","filter":{"state":"failed"}"#, "/filter/state"),
        (#""kind":"retry","filter":{"a/b":1}"#, "/filter/a~1b"),
        (#""kind":"retry","filter":{"status":"pending"}"#, "/filter/status"),
        (#""kind":"retry","filter":{"status":[]}"#, "/filter/status"),
        (#""kind":"retry","filter":{"status":["failed",7]}"#, "/filter/status"),
        (#""kind":"retry","filter":{"entity_type":"Task"}"#, "/filter/entity_type"),
        (#""kind":"retry","filter":{"response_status":99}"#, "/filter/response_status"),
        (#""kind":"retry","filter":{"response_status":70000}"#, "/filter/response_status"),
        (#""kind":"retry","filter":{"response_status":"422"}"#, "/filter/response_status"),
        (#""kind":"retry","filter":{"error_code":"nonsense"}"#, "/filter/error_code"),
        (#""kind":"retry","filter":{"user_id":"anna"}"#, "/filter/user_id"),
        (#""kind":"retry","filter":{"ids":[]}"#, "/filter/ids"),
        (#""kind":"retry","filter":{"ids":["x"]}"#, "/filter/ids/0"),
        (#""kind":"retry","filter":{},"per_second":0"#, "/per_second"),
        (#""kind":"retry","filter":{},"per_second":1001"#, "/per_second"),
        (#""kind":"retry","filter":{},"per_second":1.5"#, "/per_second"),
        (#""kind":"retry","filter":{},"dependents":"keep""#, "/dependents"),
        (#""kind":"discard","filter":{},"dependents":"all""#, "/dependents"),
        (#""kind":"discard","filter":{},"strategy":"client_wins""#, "/strategy"),
        (#""kind":"retry","filter":{},"speed":1"#, "/speed"),
    ])
    func `a refusal contains a pointer`(members: String, pointer: String) {
        #expect(Self.refusal("\(members),\(Self.reason)").hasPrefix(pointer + " "), "\(members)")
        #expect(Self.refusal(members, isPreview: true).hasPrefix(pointer + " "), "\(members)")
    }

    @Test func `a reason is short text`() throws {
        for text in [#""""#, #""\u0007""#, "7", "\"\(String(repeating: "ø", count: 251))\""] {
            #expect(Self.refusal(#""kind":"retry","filter":{},"reason":\#(text)"#).hasPrefix("/reason "), "\(text)")
        }
        let longest = String(repeating: "ø", count: 250)
        #expect(try Self.draft(#""kind":"retry","filter":{},"reason":"\#(longest)""#).reason == longest)
    }

    @Test func `accepts at most a thousand ids`() throws {
        func ids(_ count: Int) -> String {
            let list = (0..<count).map { _ in "\"\(UUID().lowercased)\"" }.joined(separator: ",")
            return #""kind":"retry","filter":{"ids":[\#(list)]},\#(Self.reason)"#
        }
        #expect(try Self.draft(ids(1_000)).ids?.count == 1_000)
        #expect(Self.refusal(ids(1_001)).hasPrefix("/filter/ids "))
    }
}
