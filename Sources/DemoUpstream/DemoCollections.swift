import CommandSupport
import Foundation
import JSONText
import SyncModel

/// The documents and responses of a small REST API in memory, such as a backend team might have.
///
/// `/contacts` is a collection, and `/contacts/1` a document in it. A collection begins to exist with its first
/// document. A list has pages and an `ETag`, and can be restricted to changes since a time (``DemoList``). One behavior
/// is only for demonstration: the first request with a document that contains the text "fail once" is refused with 503.
struct DemoCollections: Sendable {
    /// The maximum number of stored documents, and of idempotency keys, so that a long-running demo does not use up the
    /// memory.
    static let capacity = 2_000
    /// The text that makes the first request with a document fail, to demonstrate a retry.
    static let failing = "fail once"

    private struct Remembered {
        let request: DemoRequest
        /// The response; nil if the request was refused temporarily and can be retried.
        var answer: DemoAnswer?
    }

    private struct Collection {
        var lastID = 0
        var documents: [Int: DemoDocument] = [:]
        /// The latest deletions.
        var deletions: [DemoList.Deletion] = []
        /// The number of changes.
        var revision = 0

        mutating func record(_ deletion: DemoList.Deletion) {
            revision += 1
            if deletions.count >= DemoCollections.capacity { deletions.removeFirst() }
            deletions.append(deletion)
        }
    }

    private var collections: [String: Collection] = [:]
    private var remembered: [String: Remembered] = [:]
    private var documentCount = 0
    /// The changes since the last call of ``takeChanges()``.
    private var changes: [DemoEvent] = []
    private let now: TimeSource

    init(now: @escaping TimeSource = SystemClock.now) {
        self.now = now
    }

    /// Responds to a request. A repeat with the same idempotency key gets the first response and changes nothing.
    mutating func answer(_ request: DemoRequest) -> DemoAnswer {
        guard let key = request.idempotencyKey, request.method != "GET" else { return perform(request) }
        if let known = remembered[key] {
            guard known.request.isRepeated(by: request) else {
                return refusal(422, "this Idempotency-Key was used with a different request")
            }
            if var answer = known.answer {
                answer.remark = "repeated: same response, nothing applied"
                return answer
            }
        } else if Self.isToFail(request) {
            remember(Remembered(request: request), under: key)
            return refusal(503, "a document that contains \"\(Self.failing)\" fails on the first attempt")
        }
        let answer = perform(request)
        remember(Remembered(request: request, answer: answer), under: key)
        return answer
    }

    /// Returns the changes since the last call.
    mutating func takeChanges() -> [DemoEvent] {
        defer { changes = [] }
        return changes
    }

    /// Records the event of a document's change.
    private mutating func record(
        _ document: DemoDocument,
        in path: String,
        isDeleted: Bool = false,
        by request: DemoRequest
    ) {
        changes.append(
            DemoEvent(
                collection: path[...],
                id: document.id,
                version: document.version + (isDeleted ? 1 : 0),
                owner: document.owner,
                document: isDeleted ? nil : document.json,
                causingKey: request.idempotencyKey
            )
        )
    }

    private mutating func remember(_ entry: Remembered, under key: String) {
        if remembered.count >= Self.capacity { remembered.removeAll() }
        remembered[key] = entry
    }

    private static func isToFail(_ request: DemoRequest) -> Bool {
        guard let members = try? JSONTree(parsing: request.body).root.members else { return false }
        return members.contains { $0.value.string == failing }
    }

    // MARK: - Methods

    private mutating func perform(_ request: DemoRequest) -> DemoAnswer {
        let steps = request.path.split(separator: "/", omittingEmptySubsequences: false).dropFirst()
        guard let last = steps.last, steps.allSatisfy({ !$0.isEmpty }) else {
            return refusal(404, "try /contacts")
        }
        guard let id = Int(last), id > 0, steps.count > 1 else {
            return collection(String(request.path), request)
        }
        return document(id, in: "/" + steps.dropLast().joined(separator: "/"), request)
    }

    private mutating func collection(_ path: String, _ request: DemoRequest) -> DemoAnswer {
        switch request.method {
        case "GET": list(path, request)
        case "POST": create(in: path, request)
        default: refusal(405, "a collection supports GET and POST")
        }
    }

    private mutating func document(_ id: Int, in path: String, _ request: DemoRequest) -> DemoAnswer {
        guard ["GET", "PUT", "PATCH", "DELETE"].contains(request.method) else {
            return refusal(405, "a document supports GET, PUT, PATCH and DELETE")
        }
        guard var found = collections[path]?.documents[id] else { return refusal(404, "no such document") }
        if request.method == "GET" { return DemoAnswer(status: 200, body: found.json, etag: found.etag) }
        if let expected = request.ifMatch, expected != "*", expected != found.etag {
            let remark = "If-Match is \(expected), but the document has \(found.etag)"
            return DemoAnswer(status: 412, body: found.json, etag: found.etag, remark: remark)
        }
        if request.method == "DELETE" {
            collections[path]?.documents[id] = nil
            collections[path]?.record(DemoList.Deletion(id: id, version: found.version + 1, at: now()))
            documentCount -= 1
            record(found, in: path, isDeleted: true, by: request)
            return DemoAnswer(status: 204)
        }
        guard let object = Self.object(request.body) else { return notAnObject }
        do throws(JSONParseError) {
            let moment = now()
            if request.method == "PUT" {
                found.replace(with: object, at: moment)
            } else {
                try found.merge(object, at: moment)
            }
        } catch {
            return refusal(413, "the document would become too large")
        }
        collections[path]?.documents[id] = found
        collections[path]?.revision += 1
        record(found, in: path, by: request)
        return DemoAnswer(status: 200, body: found.json, etag: found.etag)
    }

    private mutating func create(in path: String, _ request: DemoRequest) -> DemoAnswer {
        guard let object = Self.object(request.body) else { return notAnObject }
        guard documentCount < Self.capacity else { return refusal(507, "the demo is full") }
        var collection = collections[path] ?? Collection()
        collection.lastID += 1
        // a colleague's client sends no user, so the document's owner is the demo user whose token `sluice dev` prints
        let owner = request.user ?? DemoTenant.forwarded.user
        let document = DemoDocument(id: collection.lastID, owner: owner, object, at: now())
        collection.documents[document.id] = document
        collection.revision += 1
        collections[path] = collection
        documentCount += 1
        record(document, in: path, by: request)
        return DemoAnswer(
            status: 201,
            body: document.json,
            etag: document.etag,
            location: "\(path)/\(document.id)",
            remark: "id \(document.id)"
        )
    }

    private func list(_ path: String, _ request: DemoRequest) -> DemoAnswer {
        let collection = collections[path] ?? Collection()
        guard let list = DemoList(request) else {
            return refusal(400, "updated_since must be a time, limit a number, after a value from a Link header")
        }
        let etag = "\"r\(collection.revision)\""
        if request.ifNoneMatch == etag { return DemoAnswer(status: 304, etag: etag, remark: "no changes") }
        var answer = list.answer(Array(collection.documents.values), collection.deletions, path: path)
        answer.etag = etag
        return answer
    }

    // MARK: - Refusals

    private static func object(_ body: [UInt8]) -> JSONValue? {
        guard let tree = try? JSONTree(parsing: body), tree.root.kind == .object else { return nil }
        return tree.root
    }

    private var notAnObject: DemoAnswer { refusal(400, "the body must be a JSON object") }

    private func refusal(_ status: Int, _ reason: String) -> DemoAnswer {
        var writer = JSONWriter()
        writer.beginObject()
        writer.member("error", reason)
        writer.endObject()
        return DemoAnswer(status: status, body: writer.bytes, remark: reason)
    }
}

// MARK: - DemoDocument

/// A document in the demo's REST API, as JSON text without its id.
struct DemoDocument: Sendable {
    /// The longest text, and the longest body of a request, in bytes.
    static let maximumBytes = 262_144

    let id: Int
    /// The user who created the document. Edits by other users do not change the owner.
    let owner: UUID
    private(set) var version = 1
    private(set) var text: [UInt8]
    /// The time of the document's creation or last change.
    private(set) var updatedAt: Timestamp

    /// Stores an object. The document's id replaces a member `id`.
    init(id: Int, owner: UUID, _ object: JSONValue, at moment: Timestamp) {
        self.id = id
        self.owner = owner
        text = Self.withoutID(object)
        updatedAt = moment
    }

    /// The strong validator (RFC 9110, 8.8.3): the version.
    var etag: String { "\"\(version)\"" }

    mutating func replace(with object: JSONValue, at moment: Timestamp) {
        text = Self.withoutID(object)
        version += 1
        updatedAt = moment
    }

    mutating func merge(_ patch: JSONValue, at moment: Timestamp) throws(JSONParseError) {
        let merged = try JSONValue.mergePatch(target: text, patch: patch, maximumBytes: Self.maximumBytes)
        replace(with: try JSONTree(parsing: merged).root, at: moment)
    }

    func write(to writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("id", id)
        if let tree = try? JSONTree(parsing: text), let members = tree.root.members {
            for (name, value) in members {
                writer.name(name.string)
                writer.value(value)
            }
        }
        writer.endObject()
    }

    var json: [UInt8] {
        var writer = JSONWriter()
        write(to: &writer)
        return writer.bytes
    }

    private static func withoutID(_ object: JSONValue) -> [UInt8] {
        var writer = JSONWriter()
        writer.beginObject()
        if let members = object.members {
            for (name, value) in members where !name.equals("id") {
                writer.name(name.string)
                writer.value(value)
            }
        }
        writer.endObject()
        return writer.bytes
    }
}
