import FoundationEssentials
import Glibc
import Postgres
import Synchronization
import TestSupport

/// A connection to a separate database.
func withConnection<Value: Sendable>(
    settings: [(String, String)] = [],
    _ body: @Sendable (Connection, TestDatabase) async throws -> Value
) async throws -> Value {
    let database = try await TestDatabase.make()
    let connection = try await database.connect(settings: settings)
    let value = try await body(connection, database)
    await connection.closeAndWait()
    try await database.close()
    return value
}

/// One execution of a text, prepared under a name derived from it.
func query(_ sql: String, _ add: (inout Parameters) -> Void = { _ in }) -> Query {
    var parameters = Parameters()
    add(&parameters)
    return Query(Statement("test: \(sql)", sql), parameters)
}

/// The error that `body` throws, or nil.
nonisolated(nonsending) func failure(of body: () async throws -> Void) async -> PostgresError? {
    do {
        try await body()
        return nil
    } catch {
        return error as? PostgresError
    }
}

/// The open descriptors of this process.
func openDescriptors() -> Int { (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd"))?.count ?? -1 }

/// The names of this process's threads.
func threadNames() -> [String] {
    let tasks = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/task")) ?? []
    return tasks.compactMap { task in
        (try? String(contentsOf: URL(filePath: "/proc/self/task/\(task)/comm"), encoding: .utf8))?
            .trimmingPrefix(while: \.isWhitespace).split(separator: "\n").first.map(String.init)
    }
}

/// Waits until a condition holds; returns whether it did.
nonisolated(nonsending) func eventually(_ condition: () async throws -> Bool) async rethrows -> Bool {
    let deadline = ContinuousClock.now + Waiting.limit
    while .now < deadline {
        if try await condition() { return true }
        try? await Task.sleep(for: .milliseconds(10))
    }
    return false
}

/// A list that many tasks add to.
final class Log<Element: Sendable>: Sendable {
    private let state = Mutex<[Element]>([])

    func add(_ element: Element) { state.withLock { $0.append(element) } }

    var elements: [Element] { state.withLock { $0 } }
}
