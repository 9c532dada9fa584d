import Foundation
import JSONText
import StoreSupport
import SyncHTTP
import SyncModel
import TestSupport

@testable import SyncStore

/// An app on a device according to specification 002 (docs/spec). Its objects have ids that the device counts itself,
/// and relations contain these ids. The app has no server ids. Its whole state is a value, so a copy is a backup.
struct OfflineClient: Sendable {
    /// A folder or a task.
    struct Object: Sendable, Equatable {
        /// A text that identifies the object on every device, and never changes.
        var tag: String
        var value: Int64
        /// `parentId` of a folder, `folderId` of a task.
        var folder: Int64?
        /// The related tasks; used by tasks only.
        var related: [Int64] = []
    }

    struct Key: Sendable, Hashable, Comparable {
        var type: String
        var number: Int64

        static func < (left: Key, right: Key) -> Bool { (left.type, left.number) < (right.type, right.number) }
    }

    /// A violated invariant.
    struct Fault: Error, CustomStringConvertible {
        let description: String
    }

    var device: UUID
    let user: UUID
    var objects: [Key: Object] = [:]
    /// The number that the next object of a type gets.
    var next: [String: Int64] = ["folder": 1, "task": 1]
    var cursor: String?
    var outbox: [Entry] = []
    var lastSequence: Int64 = 0
    /// The number of objects created on this device, so that tags are unique.
    var madeCount = 0

    init(device: UUID, user: UUID) {
        self.device = device
        self.user = user
    }

    // MARK: - User actions

    mutating func create(_ type: String, folder: Int64?, related: [Int64] = [], value: Int64) {
        let key = Key(type: type, number: next[type] ?? 1)
        madeCount += 1
        let tag = "\(device.lowercased.prefix(8))-\(key.type)-\(madeCount)"
        let object = Object(tag: tag, value: value, folder: folder, related: related)
        next[type] = key.number + 1
        objects[key] = object
        queue("create", key, Self.document(object, type))
    }

    mutating func update(_ key: Key, value: Int64, folder: Int64??) {
        guard var object = objects[key] else { return }
        object.value = value
        var patch = #""value":\#(value)"#
        if let folder {
            object.folder = folder
            let name = key.type == "task" ? "folderId" : "parentId"
            patch += #","\#(name)":\#(folder.map(String.init) ?? "null")"#
        }
        objects[key] = object
        queue("update", key, "{\(patch)}")
    }

    mutating func delete(_ key: Key) {
        objects[key] = nil
        queue("delete", key, nil)
    }

    private mutating func queue(_ operation: String, _ key: Key, _ payload: String?) {
        lastSequence += 1
        outbox.append(
            Entry(
                number: lastSequence,
                operation: operation,
                type: key.type,
                payload: payload,
                extra: ["local_id": String(key.number), "conflict_resolution": #""server_wins""#]
            )
        )
    }

    private static func document(_ object: Object, _ type: String) -> String {
        let folder = object.folder.map(String.init) ?? "null"
        let start = #"{"tag":"\#(object.tag)","value":\#(object.value),"#
        if type == "folder" { return start + #""parentId":\#(folder)}"# }
        let related = object.related.map(String.init).joined(separator: ",")
        return start + #""folderId":\#(folder),"related":[\#(related)]}"#
    }

    // MARK: - Syncing

    func push(_ count: Int, through gateway: Gateway, _ organization: Organization) async throws -> JSONValue {
        let list = outbox.prefix(count).map(\.json).joined(separator: ",")
        let body = #"{"device_id":"\#(device.lowercased)","mutations":[\#(list)]}"#
        let request = try PushRequest(body: Array(body.utf8), limits: IntakeLimits())
        let answer = try await gateway.store.pushes.submit(
            request,
            organization: organization,
            user: user,
            isStrict: false
        )
        return try JSONTree(parsing: answer.json()).root
    }

    /// Removes the answered mutations from the outbox. No mutation of this kind of client is refused.
    mutating func acknowledge(_ answer: JSONValue) throws {
        for result in answer.results {
            guard let status = result.status, ["succeeded", "discarded"].contains(status) else {
                throw Fault(description: result.text)
            }
            outbox.removeAll { $0.id == result["id"]?.uuid }
        }
    }

    func pullBody(limit: Int) -> String {
        let since = cursor.map { #""\#($0)""# } ?? "null"
        let counters = next.sorted { $0.key < $1.key }.map { #""\#($0.key)":\#($0.value)"# }.joined(separator: ",")
        return #"{"since":\#(since),"limit":\#(limit),"next_local_ids":{\#(counters)}}"#
    }

    func pull(_ body: String, through gateway: Gateway, _ organization: Organization) async throws -> JSONValue {
        let page = try await gateway.store.pulls.pull(
            PullRequest(body: Array(body.utf8), limit: 65_536),
            device: device,
            organization: organization,
            user: user
        )
        return try JSONTree(parsing: page.json()).root
    }

    /// Applies a page if the counters still have the values that the request sent.
    ///
    /// - Returns: whether the end of the feed is reached.
    mutating func apply(_ page: JSONValue, sent: [String: Int64]) throws -> Bool {
        guard sent == next else { return false }
        for change in page.changes {
            guard let type = change["entity_type"]?.string, let number = change["local_id"]?.int64 else {
                throw Fault(description: "a change without an id of the device: \(change.text)")
            }
            let key = Key(type: type, number: number)
            if change["deleted"]?.bool == true {
                objects[key] = nil
            } else {
                objects[key] = try Self.object(change["document"], type)
            }
        }
        for (name, value) in page["next_local_ids"]?.members.map({ $0.map { ($0.name.string, $0.value) } }) ?? [] {
            guard let number = value.int64, number >= next[name] ?? 1 else {
                throw Fault(description: "a counter that goes back: \(page.text)")
            }
            next[name] = number
        }
        cursor = page.next
        return page.isUpToDate
    }

    private static func object(_ document: JSONValue?, _ type: String) throws -> Object {
        guard let document, let tag = document["tag"]?.string, let value = document["value"]?.int64 else {
            throw Fault(description: "no document: \(document?.text ?? "nothing")")
        }
        let folder = document[type == "task" ? "folderId" : "parentId"]
        let related = document.list("related")
        let numbers = related.compactMap(\.int64)
        guard folder == nil || folder?.isNull == true || folder?.int64 != nil, numbers.count == related.count else {
            throw Fault(description: "a relation that is no number: \(document.text)")
        }
        return Object(tag: tag, value: value, folder: folder?.int64, related: numbers)
    }

    // MARK: - Its graph

    /// The relations between objects by their tags, which are the same on every device. A relation to a missing object
    /// is a dash.
    var graph: [String] {
        func tag(_ type: String, _ number: Int64) -> String { objects[Key(type: type, number: number)]?.tag ?? "-" }
        return objects.map { key, object in
            let folder = object.folder.map { tag("folder", $0) } ?? "none"
            let related = object.related.map { tag("task", $0) }.joined(separator: " ")
            return "\(key.type) \(object.tag) = \(object.value) in \(folder) with [\(related)]"
        }.sorted()
    }
}

/// Returns the graph of the server's documents, in the same form.
func serverGraph(_ changes: [JSONValue]) -> [String] {
    let living = changes.filter { $0["deleted"]?.bool == false }
    let tags = Dictionary(
        living.compactMap { change in
            change["id"]?.string.map { ($0, change["document"]?["tag"]?.string ?? "?") }
        }
    ) { first, _ in first }
    return living.compactMap { change in
        guard let type = change["entity_type"]?.string, let document = change["document"] else { return nil }
        let place = document[type == "task" ? "folderId" : "parentId"]
        let folder = place?.string.map { tags[$0] ?? "-" } ?? "none"
        let related = document["related"]?.elements.map { $0.map { tags[$0.string ?? ""] ?? "-" } } ?? []
        let value = document["value"]?.int64 ?? 0
        return
            "\(type) \(document["tag"]?.string ?? "") = \(value) in \(folder) with [\(related.joined(separator: " "))]"
    }.sorted()
}
