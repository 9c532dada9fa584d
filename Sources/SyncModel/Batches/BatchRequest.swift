import JSONText

/// Several requests to an upstream, which are sent as one JSON batch of OData 4.01 (section 19).
///
/// Each part has a separate idempotency key, and the outcome of a part is determined by the answer to this part.
public struct BatchRequest: Sendable {
    /// The maximum number of parts of a batch.
    public static let limit = 1_000

    /// The requests, which do not depend on each other. While the batch is in flight, the lane has no other requests in
    /// flight.
    public let parts: [UpstreamRequest]

    public init(_ parts: [UpstreamRequest]) {
        self.parts = parts
    }

    /// The approximate number of bytes of the body.
    public var bytes: Int { parts.reduce(0) { $0 + $1.bytesInBatch } }

    /// The body of the request.
    public var body: [UInt8] {
        JSONWriter.object(capacity: parts.reduce(64) { $0 + 256 + ($1.bodyBytes ?? 0) }) { writer in
            writer.name("requests")
            writer.beginArray()
            for (index, part) in parts.enumerated() {
                writer.object { writer in
                    writer.member("id", Self.id(index))
                    writer.member("method", part.method)
                    writer.member("url", UpstreamRequest.encoded(path: part.path))
                    writer.name("headers")
                    writer.object { writer in
                        for header in part.userHeaders { writer.member(named: header.name, header.value) }
                        if part.bodyBytes != nil { writer.member("content-type", "application/json") }
                    }
                    if let body = part.body { writer.member("body", raw: body) }
                }
            }
            writer.endArray()
        }
    }

    fileprivate static func id(_ index: Int) -> String { String(index + 1) }
}

extension UpstreamRequest {
    /// The approximate number of bytes of the request as a part of a batch.
    var bytesInBatch: Int { (bodyBytes ?? 0) + path.utf8.count + 512 }
}

extension JSONWriter {
    fileprivate mutating func member(named name: String, _ value: String) {
        self.name(name)
        string(value)
    }
}

/// The meaning of an answer to a batch.
public enum BatchAnswer: Sendable {
    /// The answers to the parts, in order.
    case parts([UpstreamAnswer])
    /// The batch was too large, or was refused because of one of its parts.
    ///
    /// No part took effect. The batch is sent again in two halves.
    case split
    /// The upstream does not support batches. The associated value is the reason.
    ///
    /// No part took effect. Each part is sent as a separate request.
    case unsupported(String)

    /// The status codes with which an upstream may refuse a batch because of a single part.
    ///
    /// These are 413, and the codes that concern the state of an entity.
    private static let splitting: Set<Int> = [409, 412, 413, 423, 424]

    /// Interprets the answer to a batch.
    ///
    /// An answer to the whole batch never settles a part, because the id, document, ETag, conflict or success in this
    /// answer belongs to no part.
    ///
    /// - Parameter answer: the answer to the request that contains the batch.
    public init(_ answer: UpstreamAnswer, to batch: BatchRequest, now: Timestamp) {
        guard case .response(let response) = answer else {
            // the gateway may refuse to send the batch for a reason that does not apply to the separate parts
            if case .refused(let reason) = answer {
                self = .unsupported(reason)
            } else {
                self = .parts(batch.parts.map { _ in answer })
            }
            return
        }
        switch response.status {
        case 200...299: self = .parts(Self.parts(of: response, batch, now))
        case let status where batch.parts.count > 1 && Self.splitting.contains(status): self = .split
        // the batch was deferred, redirected, or refused because of its credential, or its outcome is unknown; each
        // part gets the same result
        case 300...399, 401, 407, 408, 425, 429, 500, 502...599:
            var whole = UpstreamResponse(
                status: response.status,
                retryAt: response.retryAt,
                location: response.location
            )
            (whole.challenge, whole.isOfBatch) = (response.challenge, true)
            self = .parts(batch.parts.map { _ in .response(whole) })
        default: self = .unsupported("the upstream answered \(response.status) to a batch")
        }
    }

    private static func parts(of response: UpstreamResponse, _ batch: BatchRequest, _ now: Timestamp)
        -> [UpstreamAnswer]
    {
        let root = (response.json ?? response.unkeptJSON).flatMap { try? JSONTree(parsing: $0, limits: .widest).root }
        let isAmbiguous = root?.isAmbiguous(at: "/responses") ?? false
        guard !isAmbiguous, let answers = root?.value(at: "/responses")?.elements else {
            let defect = response.unusableBody?.reason ?? (isAmbiguous ? "repeats responses" : "has no responses")
            let what = "the answer to the batch " + (response.isCutOff ? "is incomplete" : defect)
            return batch.parts.map { _ in .unknown(what) }
        }
        var found: [ByteExactString: JSONValue] = [:]
        var repeated: Set<ByteExactString> = []
        for answer in answers {
            guard !answer.isAmbiguous(at: "/id"),
                let id = answer.value(at: "/id")?.string.map({ ByteExactString($0) })
            else { continue }
            if found.updateValue(answer, forKey: id) != nil { repeated.insert(id) }
        }
        return batch.parts.indices.map { index in
            let id = ByteExactString(BatchRequest.id(index))
            if repeated.contains(id) { return .unknown("the answer to the batch has several responses for one part") }
            guard let answer = found[id] else {
                return .unknown("the answer to the batch has no response for the part")
            }
            return part(answer, now)
        }
    }

    private static func part(_ answer: JSONValue, _ now: Timestamp) -> UpstreamAnswer {
        if let member = ["/status", "/headers", "/body"].first(where: answer.isAmbiguous) {
            return .unknown("the response for the part repeats \(member.dropFirst())")
        }
        guard let status = answer.value(at: "/status")?.int64, (200...599).contains(status) else {
            return .unknown("the response for the part has no status")
        }
        // the part was not processed, because another part failed
        if status == 424 { return .notSent("the batch ended before the part") }
        var response = UpstreamResponse(status: Int(status))
        let headers = Self.headers(answer)
        response.isProblem = headers["content-type"]?.contains(where: UpstreamResponse.isProblemType) ?? false
        response.retryAt = headers["retry-after"]?.first.flatMap { Timestamp(retryAfter: $0, now: now) }
        let location = headers["location"] ?? ((200...299).contains(status) ? headers["content-location"] : nil)
        response.keepLocation(location ?? [])
        response.keepETag(headers["etag"] ?? [])
        if let body = answer.value(at: "/body"), !body.isNull {
            // the whole answer may be longer than the answer to a single request
            let limit = UpstreamResponse.maximumBodyBytes
            if body.raw.count > limit {
                response.unusableBody = .tooLong(limit: limit)
            } else if body.hasDefects {
                response.unkeptJSON = Array(body.raw)
            } else {
                response.json = Array(body.raw)
            }
        }
        return .response(response)
    }

    /// The values of a part's headers, by name in lower case.
    private static func headers(_ answer: JSONValue) -> [ByteExactString: [String]] {
        var headers: [ByteExactString: [String]] = [:]
        answer.value(at: "/headers")?.members?.forEach { name, value in
            guard let text = value.string.map(HeaderField.trimmed) else { return }
            headers[ByteExactString(name.string.lowercased()), default: []].append(text)
        }
        return headers
    }
}
