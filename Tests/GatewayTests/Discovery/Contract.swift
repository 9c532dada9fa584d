import Foundation
import GatewaySupport
import JSONText
import TestSupport
import Testing

/// The OpenAPI document in the sources, and the programs that check it.
struct Contract {
    let root: JSONValue

    init() throws {
        root = try JSONTree(parsing: Self.bytes()).root
    }

    static var path: String {
        URL(filePath: PythonProgram.folder).appending(path: "../../Sources/CContract/openapi.json").standardized.path
    }

    static func bytes() throws -> [UInt8] { Array(try Data(contentsOf: URL(filePath: path))) }

    /// Runs a program of `Tests/OpenAPI`, and records the problems that it reports as test issues.
    static func run(
        _ name: String,
        _ arguments: [String],
        environment: [String: String] = [:],
        within limit: Duration = Waiting.limit
    ) async throws {
        let words = try PythonProgram.command(name) + arguments
        let program = try Program(
            shell: "exec " + words.map { "'\($0)'" }.joined(separator: " "),
            environment: environment
        )
        let status = try await program.end(within: limit)
        #expect(status == 0, "\(program.output)\(program.complaint)")
    }

    func value(at pointer: String) -> JSONValue? { root.value(at: pointer) }

    func words(at pointer: String) -> [String] { strings(value(at: pointer)) }

    /// `METHOD /path` of each operation of one listener. Operations of the operations listener declare their server.
    func routes(ofOperations wanted: Bool) -> Set<String> {
        var routes: Set<String> = []
        for (path, item) in members(root["paths"]) where (item["servers"] != nil) == wanted {
            for method in item.names where method != "servers" { routes.insert("\(method.uppercased()) \(path)") }
        }
        return routes
    }

    /// The problem codes by status.
    var problemCodes: [(status: Int, codes: [String])] {
        var found: [(Int, [String])] = []
        for (_, item) in members(root["paths"]) {
            for (_, operation) in members(item) {
                for (status, response) in members(operation["responses"]) {
                    guard let schema = resolved(response).value(at: "/content/application~1problem+json/schema"),
                        let code = resolved(schema).value(at: "/allOf/1/properties/code"), let status = Int(status)
                    else { continue }
                    found.append((status, strings(code["enum"]) + [code["const"]?.string].compactMap { $0 }))
                }
            }
        }
        return found
    }

    /// The users whose data the examples contain.
    func exampleOrganization() throws -> UUID {
        try uuid("/paths/~1admin~1organizations~1{id}/get/parameters/0/example")
    }

    func exampleUser() throws -> UUID {
        try uuid("/paths/~1admin~1organizations~1{id}~1mutations/get/parameters/4/examples/stuck/value")
    }

    private func uuid(_ pointer: String) throws -> UUID {
        try #require(value(at: pointer)?.string.flatMap { UUID(uuidString: $0) })
    }

    private func resolved(_ value: JSONValue) -> JSONValue {
        guard let reference = value["$ref"]?.string else { return value }
        return root.value(at: String(reference.dropFirst())) ?? value
    }

    private func members(_ value: JSONValue?) -> [(String, JSONValue)] {
        value?.members.map { $0.map { ($0.name.string, $0.value) } } ?? []
    }

    private func strings(_ value: JSONValue?) -> [String] {
        value?.elements.map { $0.compactMap(\.string) } ?? []
    }
}
