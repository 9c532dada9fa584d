import Crypto
import FoundationEssentials
public import JSONText

/// How an upstream takes several requests in one.
public struct UpstreamBatch: Sendable, Hashable {
    /// Payload bytes of a batch at most, unless a single part has more.
    static let maximumBytes = 1_048_576

    /// The path of batches below the base URL.
    @Exact public var path = "/$batch"
    /// Parts of a batch at most, 2 to 1,000.
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
        // one path serves all batches, so it has no placeholders
        if path.utf8.contains(where: { $0 == UInt8(ascii: "{") || $0 == UInt8(ascii: "}") }) {
            return "must have no '{' or '}'"
        }
        return PathRules.problem(in: path)
    }
}

extension BatchRequest {
    /// Groups mutations that are sent at the same time into the requests in which they are sent.
    ///
    /// A mutation of the built-in store is alone. Each attempt of a mutation halves the batches in which it may be, and so
    /// does each answer that needs an operator. So a part that makes whole batches fail is soon sent by itself.
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

    /// The key of the whole request, which no part has.
    ///
    /// An upstream repeats its answer to a key, so the key of a refused batch must not be that of a part.
    private var idempotencyKey: UUID {
        var hash = SHA256()
        for part in parts { withUnsafeBytes(of: part.idempotencyKey.uuid) { hash.update(bufferPointer: $0) } }
        return UUID(hash: hash.finalize())
    }

    /// The request to the upstream.
    ///
    /// - Parameter first: the request of a part, for its user and its time limit.
    public func request(to batch: UpstreamBatch, like first: UpstreamRequest) -> UpstreamRequest {
        var request = UpstreamRequest(
            organization: first.organization,
            user: first.user,
            method: "POST",
            path: batch.path,
            // otherwise an upstream stops at the first part that fails (OData 4.01, 8.2.8.3)
            headers: ["prefer": "continue-on-error"],
            body: body,
            idempotencyKey: idempotencyKey,
            timeout: first.timeout
        )
        request.trace = first.trace
        return request
    }
}
