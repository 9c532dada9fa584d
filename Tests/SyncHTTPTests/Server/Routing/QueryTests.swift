import Foundation
import SyncModel
import Testing

@testable import Postgres
@testable import SyncHTTP

@Suite("Query parameters")
struct QueryTests {
    private let names: Set = ["a", "b", "limit", "wait", "status"]

    private func query(_ text: String?) throws(Problem) -> URLQuery {
        try URLQuery(text, allowing: names)
    }

    @Test
    func `decodes values`() throws {
        #expect(try query("a=x%20y&b=%C3%A9").text("a") == "x y")
        #expect(try query("a=x%20y&b=%C3%A9").text("b") == "é")
        #expect(try query("%61=1").text("a") == "1")
        #expect(try query("a=1=2").text("a") == "1=2")
        #expect(try query("a=1+2").text("a") == "1+2")
    }

    @Test(arguments: [nil, "", "a", "a=", "&", "&&a=&"])
    func `empty values count as absent`(text: String?) throws {
        #expect(try query(text).text("a") == nil)
    }

    @Test
    func `names an unknown parameter`() throws {
        let problem = try #require(throws: Problem.self) { try query("a=1&colour=red") }
        #expect(problem.code == .invalidRequest)
        #expect(problem.errors.map(\.rule) == ["parameter_unknown"])
        #expect(problem.detail.contains("'colour'"))
    }

    @Test(arguments: ["a=%", "a=%4", "a=%zz", "a=%FF", "a=%00", "a=%C3"])
    func `rejects values that are not text`(text: String) {
        #expect(throws: Problem.self) { try query(text) }
    }

    @Test
    func `rejects repeated single parameters`() throws {
        let problem = try #require(throws: Problem.self) { try query("a=1&a=2").text("a") }
        #expect(problem.errors.map(\.rule) == ["parameter_invalid"])
    }

    @Test
    func `lists are repeated or separated by commas`() throws {
        #expect(try query("status=a,b&status=c").list("status") == ["a", "b", "c"])
        #expect(try query("status=,a,").list("status") == ["a"])
        #expect(try query(nil).list("status").isEmpty)
    }

    @Test(arguments: ["0", "1001", "-1", "1.0", "ten", "99999999999999999999", "%31%20"])
    func `rejects limits outside 1 to 1000`(value: String) {
        #expect(throws: Problem.self) { try query("limit=\(value)").limit(default: 100) }
    }

    @Test
    func `limits have a default`() throws {
        #expect(try query("limit=1000").limit(default: 100) == 1_000)
        #expect(try query("").limit(default: 100) == 100)
    }

    @Test
    func `shortens waits to the maximum`() throws {
        #expect(try query("wait=5").wait(upTo: .seconds(60)) == .seconds(5))
        #expect(try query("wait=500").wait(upTo: .seconds(60)) == .seconds(60))
        #expect(try query("").wait(upTo: .seconds(60)) == .zero)
        #expect(throws: Problem.self) { try query("wait=-1").wait(upTo: .seconds(60)) }
    }

    @Test
    func `reads UUIDs in any case`() throws {
        let id = UUID()
        #expect(try query("a=\(id.uuidString)").uuid("a") == id)
        #expect(try query("a=\(id.uuidString.lowercased())").uuid("a") == id)
        #expect(throws: Problem.self) { try query("a=1").uuid("a") }
    }
}
