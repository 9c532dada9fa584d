import Foundation
import SyncModel
import Testing

@testable import SyncHTTP

@Suite("Query parameters")
struct QueryTests {
    private let names: Set = ["a", "b", "limit", "wait", "status"]

    private func query(_ text: String?) throws(Problem) -> Query {
        try Query(text, allowing: names)
    }

    @Test("Values are decoded")
    func decoding() throws {
        #expect(try query("a=x%20y&b=%C3%A9").text("a") == "x y")
        #expect(try query("a=x%20y&b=%C3%A9").text("b") == "é")
        #expect(try query("%61=1").text("a") == "1")
        #expect(try query("a=1=2").text("a") == "1=2")
        #expect(try query("a=1+2").text("a") == "1+2")
    }

    @Test("Empty values are absent", arguments: [nil, "", "a", "a=", "&", "&&a=&"])
    func emptyValues(text: String?) throws {
        #expect(try query(text).text("a") == nil)
    }

    @Test("An unknown parameter is named")
    func unknownParameter() throws {
        let problem = try #require(throws: Problem.self) { try query("a=1&colour=red") }
        #expect(problem.code == .invalidRequest)
        #expect(problem.errors.map(\.rule) == ["parameter_unknown"])
        #expect(problem.detail.contains("'colour'"))
    }

    @Test("Text must be text", arguments: ["a=%", "a=%4", "a=%zz", "a=%FF", "a=%00", "a=%C3"])
    func badText(text: String) {
        #expect(throws: Problem.self) { try query(text) }
    }

    @Test("What stands once stands once")
    func repeated() throws {
        let problem = try #require(throws: Problem.self) { try query("a=1&a=2").text("a") }
        #expect(problem.errors.map(\.rule) == ["parameter_invalid"])
    }

    @Test("Lists are repeated or separated by commas")
    func lists() throws {
        #expect(try query("status=a,b&status=c").list("status") == ["a", "b", "c"])
        #expect(try query("status=,a,").list("status") == ["a"])
        #expect(try query(nil).list("status").isEmpty)
    }

    @Test("A limit is 1 to 1,000", arguments: ["0", "1001", "-1", "1.0", "ten", "99999999999999999999", "%31%20"])
    func badLimit(value: String) {
        #expect(throws: Problem.self) { try query("limit=\(value)").limit(default: 100) }
    }

    @Test("Limits have a default")
    func limit() throws {
        #expect(try query("limit=1000").limit(default: 100) == 1_000)
        #expect(try query("").limit(default: 100) == 100)
    }

    @Test("Waits are cut to the longest")
    func waits() throws {
        #expect(try query("wait=5").wait(upTo: .seconds(60)) == .seconds(5))
        #expect(try query("wait=500").wait(upTo: .seconds(60)) == .seconds(60))
        #expect(try query("").wait(upTo: .seconds(60)) == .zero)
        #expect(throws: Problem.self) { try query("wait=-1").wait(upTo: .seconds(60)) }
    }

    @Test("Ids are UUIDs in any case")
    func ids() throws {
        let id = UUID()
        #expect(try query("a=\(id.uuidString)").uuid("a") == id)
        #expect(try query("a=\(id.uuidString.lowercased())").uuid("a") == id)
        #expect(throws: Problem.self) { try query("a=1").uuid("a") }
    }
}
