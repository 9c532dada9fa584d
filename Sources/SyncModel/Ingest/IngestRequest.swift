import JSONText

/// The body of `POST /v1/ingest`.
///
/// The envelope is valid, and each event is valid or holds its errors.
public struct IngestRequest: Sendable {
    /// One event of the batch.
    public struct Entry: Sendable {
        /// Nil where it cannot be read.
        public let eventID: String?
        public let event: Result<IngestEvent, Problem>

        public init(eventID: String?, event: Result<IngestEvent, Problem>) {
            self.eventID = eventID
            self.event = event
        }
    }

    /// In request order.
    public let entries: [Entry]
    /// Size of the body in bytes: the batch's weight while it waits.
    public let bodyBytes: Int
    /// The first entry's place in the batch that its sender made.
    public let firstIndex: Int

    public init(entries: [Entry], bodyBytes: Int, firstIndex: Int = 0) {
        self.entries = entries
        self.bodyBytes = bodyBytes
        self.firstIndex = firstIndex
    }

    /// A part of the batch; its problems point to the places of the whole.
    public func part(_ range: Range<Int>) -> IngestRequest {
        let bytes = entries.isEmpty ? 0 : bodyBytes * range.count / entries.count
        return IngestRequest(
            entries: Array(entries[range]),
            bodyBytes: bytes,
            firstIndex: firstIndex + range.lowerBound
        )
    }

    /// - Parameter limits: those of a push: as many events as mutations, documents as large as payloads.
    /// - Throws: `invalid_json` for invalid JSON, `invalid_request` for a wrong envelope, `payload_too_large` past the
    ///   limits; all refuse the whole batch.
    public init(body: [UInt8], limits: IntakeLimits) throws(Problem) {
        let tree: JSONTree
        do throws(JSONParseError) {
            tree = try JSONTree(parsing: body, limits: JSONLimits(maximumBytes: limits.bodyBytes))
        } catch {
            throw Problem(jsonError: error, limit: limits.bodyBytes)
        }
        let events = try Self.events(in: tree.root)
        guard events.count <= limits.mutations else {
            let detail = "a batch may contain \(limits.mutations) events; this one has \(events.count)"
            throw Problem(.payloadTooLarge, detail + "; send them in several batches")
        }
        let hasDefects = tree.root.hasDefects
        entries = events.enumerated().map { index, value in
            IngestDecoder.decode(value, index: index, limits: limits, hasDefects: hasDefects)
        }
        bodyBytes = body.count
        firstIndex = 0
    }

    /// The same with a deletion in place of each patch.
    ///
    /// A deletion needs no entity to be valid.
    public var withoutPatches: IngestRequest {
        let entries = entries.map { entry in
            guard case .success(let event) = entry.event, event.operation == .patch else { return entry }
            var deletion = IngestEvent(
                id: event.id,
                entityType: event.entityType,
                entityID: event.entityID,
                mark: event.mark,
                operation: .delete,
                document: nil,
                owner: event.owner,
                causingKey: event.causingKey
            )
            deletion.isPrivate = event.isPrivate
            return Entry(eventID: entry.eventID, event: .success(deletion))
        }
        return IngestRequest(entries: entries, bodyBytes: bodyBytes, firstIndex: firstIndex)
    }

    private static func events(in root: JSONValue) throws(Problem) -> [JSONValue] {
        guard let members = root.members else {
            throw Problem(.invalidRequest, pointer: "", rule: Rule.memberType, "the body must be a JSON object")
        }
        var list: JSONValue?
        for (name, value) in members {
            guard name.equals("events") else {
                let pointer = JSONPointer.member(name.string)
                let detail = UnknownMember.detail(name.string, of: "a batch: events")
                throw Problem(.invalidRequest, pointer: pointer, rule: Rule.unknownMember, detail)
            }
            guard list == nil else {
                let detail = "'events' occurs twice"
                throw Problem(.invalidRequest, pointer: "/events", rule: Rule.duplicateMember, detail)
            }
            list = value
        }
        guard let list else {
            throw Problem(.invalidRequest, pointer: "/events", rule: Rule.required, "events is required")
        }
        guard let elements = list.elements else {
            throw Problem(.invalidRequest, pointer: "/events", rule: Rule.memberType, "events must be an array")
        }
        return Array(elements)
    }
}
