import Crypto
public import FoundationEssentials
public import JSONText

/// An upstream's settings for batches, which are several requests in one.
public struct UpstreamBatch: Sendable, Hashable {
    /// The maximum size of a batch of several parts, in bytes. A single part may be larger.
    static let maximumBytes = 1_048_576

    /// The path of batches below the base URL.
    @Exact public var path = "/$batch"
    /// The maximum number of parts of a batch, from 2 to 1,000.
    public var maxRequests = 100

    public init() {}
}

extension UpstreamBatch: TableObject {
    package static let table = MemberTable<Self, Self>("a batch") {
        BodyMember("path", .batchPath, as: \.path).required()
        BodyMember("max_requests", .integer(2...BatchRequest.limit), as: \.maxRequests)
    }

    /// Reads the stored form; nil for JSON's null.
    public init?(stored value: JSONValue) {
        var ignored = MemberReport()
        self.init(value, at: "", &ignored)
    }

    public func write(to writer: inout JSONWriter) { writer.object(writeMembers) }

    /// The stored form.
    public var json: [UInt8] {
        var writer = JSONWriter()
        write(to: &writer)
        return writer.bytes
    }
}

extension MemberKind<String> {
    fileprivate static var batchPath: Self {
        Self { value, place, report in
            let problem = value.string.map(Self.batchPathProblem) ?? "must be a string"
            if let problem {
                report.refuse(place.pointer, Rule.range, "the batch path \(problem)")
                return nil
            }
            return value.string
        }
    }

    private static func batchPathProblem(_ path: String) -> String? {
        // the path has no placeholders, because it is the same for all batches
        if path.utf8.contains(where: { $0 == UInt8(ascii: "{") || $0 == UInt8(ascii: "}") }) {
            return "must have no '{' or '}'"
        }
        return PathRules.problem(in: path)
    }
}

extension BatchRequest {
    /// Groups mutations that are due at the same time. Each group is sent as one request.
    ///
    /// A mutation of the built-in store is alone in its group. Each earlier attempt of a mutation halves the maximum
    /// number of parts in a batch with this mutation. Each answer that suggests a misconfiguration, and therefore
    /// does not count as an attempt (`hold`), halves the number as well. Therefore a part that makes whole batches fail
    /// is soon sent alone.
    public static func groups(_ dispatches: [Dispatch], by batch: UpstreamBatch) -> [[Dispatch]] {
        var groups: [[Dispatch]] = []
        var (open, limit, size) = ([Dispatch](), 0, 0)
        for dispatch in dispatches {
            guard case .upstream(let request, _) = dispatch.destination else {
                groups.append([dispatch])
                continue
            }
            let earlier = Int(dispatch.mutation.attemptCount) + Int(dispatch.mutation.hold?.count ?? 0)
            let own = max(1, batch.maxRequests >> min(earlier, 16))
            let bytes = request.bytesInBatch
            if !open.isEmpty, open.count >= min(limit, own) || size + bytes > UpstreamBatch.maximumBytes {
                groups.append(open)
                open = []
            }
            (limit, size) = open.isEmpty ? (own, bytes) : (min(limit, own), size + bytes)
            open.append(dispatch)
        }
        return open.isEmpty ? groups : groups + [open]
    }

    /// The idempotency key of the whole request, which differs from the keys of its parts.
    ///
    /// The keys differ because an upstream repeats its answer to a key. If a refused batch had the key of a part, this
    /// part would get the same refusal when it is sent alone.
    private var idempotencyKey: UUID {
        var hash = SHA256()
        for part in parts { withUnsafeBytes(of: part.idempotencyKey.uuid) { hash.update(bufferPointer: $0) } }
        return UUID(hash: hash.finalize())
    }

    /// The request to the upstream. Its span is in the first recorded trace of the parts, and has links to the other
    /// recorded traces.
    ///
    /// - Parameter first: the request of a part. The batch is sent for the same user and with the same time limit.
    public func request(to batch: UpstreamBatch, like first: UpstreamRequest) -> UpstreamRequest {
        var request = UpstreamRequest(
            organization: first.organization,
            user: first.user,
            method: "POST",
            path: batch.path,
            // without this header, an upstream stops at the first part that fails (OData 4.01, 8.2.8.3)
            headers: ["prefer": "continue-on-error"],
            body: body,
            idempotencyKey: idempotencyKey,
            timeout: first.timeout
        )
        var seen: Set<TraceContext> = []
        request.partCount = parts.count
        let recorded = parts.compactMap(\.trace).filter { $0.isSampled && seen.insert($0).inserted }
        // the other traces are linked, because a span has only one parent
        request.trace = recorded.first ?? first.trace
        request.linkedTraces = Array(recorded.dropFirst())
        return request
    }
}

/// A batch that shows whether an upstream accepts batches. The batch is harmless, because its parts only read.
public struct BatchProbe: Sendable {
    /// The result of a probe.
    public struct Finding: Sendable, Hashable {
        /// Whether the upstream supports batches; nil if the answer does not show this.
        public let isSupported: Bool?
        /// The reason, for operators.
        @Exact public var detail: String
    }

    private static let parts = 2

    private let batch: BatchRequest

    /// - Parameter path: the path that each part reads.
    public init(organization: UUID, path: String, timeout: Duration) {
        let parts = (0..<Self.parts).map { _ in
            UpstreamRequest(
                organization: organization,
                user: Writer.elsewhere.user,
                method: "GET",
                path: path,
                body: nil,
                idempotencyKey: UUID(),
                timeout: timeout
            )
        }
        batch = BatchRequest(parts)
    }

    public var body: [UInt8] { batch.body }

    public func finding(of answer: FetchAnswer) -> Finding {
        guard case .response(let fetched) = answer else {
            return Finding(isSupported: nil, detail: "the upstream did not answer the batch")
        }
        let response = UpstreamResponse(status: fetched.status, json: fetched.body)
        let status = "it answered \(fetched.status)"
        switch BatchAnswer(.response(response), to: batch, now: Timestamp(microseconds: 0)) {
        case .unsupported where [402, 403].contains(fetched.status), .split where fetched.status != 413:
            return Finding(isSupported: nil, detail: "\(status) to the batch; its support of batches is unknown")
        case .unsupported, .split:
            return Finding(isSupported: false, detail: Self.unsupported(status, fetched.body))
        case .parts(let answers):
            guard (200...299).contains(fetched.status) else {
                return Finding(isSupported: nil, detail: "\(status) to the batch; its support of batches is unknown")
            }
            let isWhole = answers.allSatisfy { if case .response = $0 { true } else { false } }
            if isWhole {
                let detail = "the upstream supports batches: \(status) with a response for each part"
                return Finding(isSupported: true, detail: detail)
            }
            let detail = Self.unsupported("\(status) without a response for each part", fetched.body)
            return Finding(isSupported: false, detail: detail)
        }
    }

    private static func unsupported(_ status: String, _ body: [UInt8]?) -> String {
        let excerpt = body.map { PrintableExcerpt.of($0) } ?? ""
        return "the upstream does not support batches: \(status)" + (excerpt.isEmpty ? "" : ", beginning \(excerpt)")
    }
}
