import Foundation

@testable import SluiceClient

/// The exchanges of a vector, in order: the requests and responses while a client synchronizes.
final class VectorScript: Sendable {
    private struct State {
        var placeholders = Placeholders()
        var exchanges: [JSON] = []
        var served = 0
        var last: VectorServer.Request?
        var failure: String?
    }

    private let state = Locked(State())
    private let phone: Locked<VectorPhone?> = Locked(nil)

    func attach(_ phone: VectorPhone) { self.phone.withLock { $0 = phone } }

    // MARK: - Before and after

    func begin(_ exchanges: [JSON]) {
        state.withLock { state in
            state.exchanges = exchanges
            state.served = 0
            state.failure = nil
        }
    }

    /// - Throws: errors of requests, and missing requests.
    func end() throws {
        try state.withLock { state in
            if let failure = state.failure { throw Vector.Failure(failure) }
            guard state.served == state.exchanges.count else {
                let missing = state.exchanges[state.served]
                throw Vector.Failure("exchange \(state.served + 1): the request did not come: \(missing)")
            }
        }
    }

    func filled(_ json: JSON) throws -> JSON { try state.withLock { try $0.placeholders.filled(json) } }

    func bind(_ name: String, to value: JSON) throws {
        if let found = state.withLock({ $0.placeholders.bind(name, to: value) }) { throw Vector.Failure(found) }
    }

    func compare(_ expected: JSON, _ actual: JSON) throws {
        let found = state.withLock { $0.placeholders.difference(expected, actual, .listedMembers, at: "") }
        if let found { throw Vector.Failure(found) }
    }

    // MARK: - A request

    func answer(_ request: VectorServer.Request) -> VectorServer.Answer {
        do {
            return try state.withLock { state in
                if let answer = try registration(request, state) ?? list(request, state) { return answer }
                guard state.served < state.exchanges.count else {
                    throw Vector.Failure("a request that is not expected: \(Self.describe(request))")
                }
                let exchange = state.exchanges[state.served]
                try check(request, try exchange.required("request"), &state)
                if let edit = exchange["meanwhile"] { try carryOut(edit, &state) }
                state.served += 1
                state.last = request
                return try answer(try exchange.required("answer"), state)
            }
        } catch {
            state.withLock { state in
                let place = "exchange \(state.served + 1)"
                state.failure = state.failure ?? "\(place): \(error); it was \(Self.describe(request))"
            }
            return .whole(status: 500, headers: [:], body: [])
        }
    }

    private static func describe(_ request: VectorServer.Request) -> String {
        "\(request.method) \(request.path) \(request.query) \(String(decoding: request.body, as: UTF8.self))"
    }

    /// The response to a registration that a vector does not contain has no new data.
    private func registration(_ request: VectorServer.Request, _ state: State) throws -> VectorServer.Answer? {
        guard request.method == "PUT", request.path.hasPrefix("/v1/devices/") else { return nil }
        if state.served < state.exchanges.count,
            state.exchanges[state.served]["request"]?["method"]?.string == "PUT"
        {
            return nil
        }
        let body = try phone.withLock { $0 }?.registration() ?? [:]
        return .whole(status: 200, headers: [:], body: body.utf8)
    }

    /// The response to a list that a vector does not contain: the user's other devices left nothing, and nothing stops
    /// the queue.
    private func list(_ request: VectorServer.Request, _ state: State) -> VectorServer.Answer? {
        let bodies: [String: JSON] = [
            "/v1/mutations": ["mutations": [], "next": .null],
            "/v1/backlog": ["devices": [], "lane": ["held_by": .null]],
        ]
        guard request.method == "GET", let body = bodies[request.path] else { return nil }
        if state.served < state.exchanges.count, let next = state.exchanges[state.served]["request"],
            next["path"]?.string == request.path, next["method"]?.string == "GET"
        {
            return nil
        }
        return .whole(status: 200, headers: [:], body: body.utf8)
    }

    private func check(_ request: VectorServer.Request, _ expected: JSON, _ state: inout State) throws {
        if expected.string == "again" {
            guard let last = state.last, last.method == request.method, last.path == request.path,
                last.body == request.body
            else {
                let before = state.last.map(Self.describe) ?? "none"
                throw Vector.Failure("the request differs from the one before, which was \(before)")
            }
            return
        }
        var parts: [(name: String, expected: JSON, actual: JSON)] = [
            ("method", try expected.required("method"), .string(request.method)),
            (
                "path", .array(try expected.text("path").split(separator: "/").map { .string(String($0)) }),
                .array(request.path.split(separator: "/").map { .string(String($0)) })
            ),
            ("query", expected["query"] ?? [:], .object(request.query.mapValues(JSON.string))),
        ]
        if let authorization = expected["authorization"] {
            parts.append(("authorization", authorization, .string(request.headers["authorization"] ?? "")))
        }
        let body = request.body.isEmpty ? JSON.null : try JSON(parsing: request.body)
        parts.append(("body", Self.withoutNulls(expected["body"] ?? .null), Self.withoutNulls(body)))
        for part in parts {
            let found = state.placeholders.difference(part.expected, part.actual, .all, at: part.name)
            if let found { throw Vector.Failure(found) }
        }
    }

    /// In a body and in an entry of a push `null` is equivalent to an absent member; in a payload it is not.
    private static func withoutNulls(_ body: JSON) -> JSON {
        guard case .object(let members) = body else { return body }
        var kept = members.filter { !$0.value.isNull }
        if let entries = kept["mutations"]?.array {
            kept["mutations"] = .array(
                entries.map { entry in entry.object.map { .object($0.filter { !$0.value.isNull }) } ?? entry }
            )
        }
        return .object(kept)
    }

    /// The app's action while the request is in progress.
    private func carryOut(_ edit: JSON, _ state: inout State) throws {
        guard let phone = phone.withLock({ $0 }) else { return }
        let id = try phone.edit(try state.placeholders.filled(edit.without("as")))
        guard let name = edit["as"]?.string else { return }
        if let found = state.placeholders.bind(name, to: id.map { .string($0.wire) } ?? .null) {
            throw Vector.Failure(found)
        }
    }

    private func answer(_ answer: JSON, _ state: State) throws -> VectorServer.Answer {
        if answer.string == "lost" { return .none }
        let whole = answer["cut"] ?? answer
        let text = Array((whole["text"]?.string ?? "").utf8)
        let body = try whole["body"].map { try state.placeholders.filled($0).utf8 } ?? text
        var headers = (whole["headers"]?.object ?? [:]).compactMapValues(\.string)
        if whole["body"] != nil, headers["Content-Type"] == nil { headers["Content-Type"] = "application/json" }
        let status = Int(whole["status"]?.int64 ?? 200)
        return answer["cut"] == nil
            ? .whole(status: status, headers: headers, body: body)
            : .cut(status: status, headers: headers, body: body)
    }
}

extension JSON {
    func without(_ member: String) -> JSON { .object((object ?? [:]).filter { $0.key != member }) }
}
