import Foundation

@testable import SluiceClient

/// A file of `docs/client-vectors`; its README describes the format.
struct Vector: Sendable, CustomStringConvertible {
    let name: String
    let json: JSON

    var description: String { name }

    /// An error in a file, or a deviation of the client from it.
    struct Failure: Error, CustomStringConvertible {
        let description: String

        init(_ description: String) { self.description = description }
    }

    static let folder = URL(filePath: #filePath).deletingLastPathComponent()
        .appending(path: "../../../docs/client-vectors").standardizedFileURL

    /// All vectors by name. An unreadable file fails when its vector is run.
    static var all: [Vector] {
        let files = (try? FileManager.default.contentsOfDirectory(atPath: folder.path)) ?? []
        return files.filter { $0.hasSuffix(".json") }.sorted().map { file in
            let text = try? Data(contentsOf: folder.appending(path: file))
            return Vector(name: file, json: text.flatMap { try? JSON(parsing: $0) } ?? .null)
        }
    }
}

extension JSON {
    /// A required member.
    func required(_ member: String) throws -> JSON {
        guard let value = self[member] else { throw Vector.Failure("'\(member)' is missing in \(self)") }
        return value
    }

    /// A required text.
    func text(_ member: String) throws -> String {
        guard let value = try required(member).string else { throw Vector.Failure("'\(member)' is no text in \(self)") }
        return value
    }

    func list(_ member: String) throws -> [JSON] {
        guard let value = self[member], !value.isNull else { return [] }
        guard let elements = value.array else { throw Vector.Failure("'\(member)' is no list in \(self)") }
        return elements
    }
}
