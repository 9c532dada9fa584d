import Foundation
import JSONText
import Testing

@testable import SyncModel

/// The settings in docs/upstream-recipes.md and docs/upstreams.md are valid.
@Suite struct RecipeTests {
    private static let docs = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        .appendingPathComponent("docs")

    private static func blocks(_ page: String) throws -> [JSONValue] {
        let text = try String(contentsOf: docs.appendingPathComponent(page), encoding: .utf8)
        let parts = text.components(separatedBy: "```json\n").dropFirst()
        return try parts.map { part in
            let json = part.components(separatedBy: "```")[0]
            return try JSONTree(parsing: Array(json.utf8)).root
        }
    }

    @Test func `each recipe has valid routes and outcome rules`() throws {
        var (routes, outcomes) = (0, 0)
        for block in try Self.blocks("upstream-recipes.md") {
            var errors: [ProblemDetail] = []
            if let value = block.value(at: "/routes") {
                _ = EntityRoutes(value, at: "/routes", &errors)
                routes += 1
            }
            if let value = block.value(at: "/outcomes") {
                _ = OutcomeRules(value, at: "/outcomes", &errors)
                outcomes += 1
            }
            #expect(errors.isEmpty, "\(String(decoding: block.raw, as: UTF8.self)): \(errors)")
        }
        #expect(routes >= 6 && outcomes >= 2)
    }

    @Test func `the examples of the page about upstreams are valid`() throws {
        for block in try Self.blocks("upstreams.md") {
            var errors: [ProblemDetail] = []
            if block.kind == .array {
                _ = OutcomeRules(block, at: "/outcomes", &errors)
            } else if block.value(at: "/create") != nil {
                _ = EntityRoutes(block, at: "/routes", &errors)
            }
            #expect(errors.isEmpty, "\(String(decoding: block.raw, as: UTF8.self)): \(errors)")
        }
    }
}
