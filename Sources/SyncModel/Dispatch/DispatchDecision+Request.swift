import Crypto
public import Foundation
import JSONText

/// The request to an upstream.
extension DispatchDecision {
    /// - Throws: the reason why no request can express the mutation.
    func request(to upstream: UpstreamSettings) throws(Problem) -> UpstreamRequest {
        guard let endpoint = mutation.endpoint else {
            let detail = "its type '\(mutation.entity.type)' is forwarded now, but the mutation has no endpoint"
            throw Problem(.validationFailed, detail)
        }
        let resolved = mutation.override?.endpoint ?? path(endpoint)
        if let problem = PathRules.problem(in: resolved) {
            throw Problem(.validationFailed, "after replacement of ids, its endpoint \(problem)")
        }
        let headers = headers(upstream)
        var request = UpstreamRequest(
            organization: surroundings.lane.organization,
            user: surroundings.lane.user,
            method: mutation.override?.method ?? mutation.operation.method,
            path: resolved,
            headers: headers,
            body: try body(instead: mutation.override?.payload),
            idempotencyKey: DispatchPlanner.idempotencyKey(of: mutation, in: surroundings.lane),
            timeout: .seconds(lease.timeout(of: upstream))
        )
        request.isUnconditional = mutation.override != nil
        if mutation.override == nil { request.ifMatch = ifMatch(headers, sendsWeak: upstream.sendsWeakETags) }
        request.trace = mutation.trace
        return request
    }

    /// The mutation's headers that the operator allows.
    private func headers(_ upstream: UpstreamSettings) -> [ByteExactString: String] {
        guard let json = mutation.headers, let members = try? JSONTree(parsing: json).root.members else { return [:] }
        var headers: [ByteExactString: String] = [:]
        for (name, value) in members where upstream.allows(name.string) {
            headers[name.string.lowercased()] = value.string
        }
        return headers
    }

    /// The If-Match of the request.
    ///
    /// Within a writer's own run of writes, the upstream's state is the one in its last response, even if the client
    /// saw another state while it was offline. The client's own If-Match would conflict with itself. A mutation that
    /// names no state gets no condition.
    ///
    /// If-Match requires the strong comparison, which no weak ETag passes (RFC 9110, 13.1.1). So a weak one is sent
    /// only to an upstream that is known to accept it; to others the gateway sends the mutation without a condition.
    private func ifMatch(_ headers: [ByteExactString: String], sendsWeak: Bool) -> String? {
        guard mutation.operation != .create, mutation.resolution != .clientWins,
            let entity = surroundings.visibleEntity, let etag = entity.etag, HeaderField.isValue(etag)
        else { return nil }
        let writer = Writer(user: surroundings.lane.user, device: mutation.deviceID)
        let isSendable = sendsWeak || !etag.hasPrefix("W/")
        if let baseVersion = mutation.baseVersion {
            if entity.run.verdict(on: baseVersion, from: writer) != .fits { return Self.passedValidator }
            return isSendable ? etag : nil
        }
        return headers["if-match"] != nil && entity.lastWriter == writer && isSendable ? etag : nil
    }
}

extension DispatchPlanner {
    /// The gateway's idempotency key, the same for all attempts of a revision.
    ///
    /// Product rule 6. A hash of the revision's identity, so that every gateway makes the same key, also after its user
    /// was joined into another. A UUID of version 8 (RFC 9562, 5.8).
    public static func idempotencyKey(of mutation: QueuedMutation, in lane: LaneKey) -> UUID {
        var hash = SHA256()
        for id in [lane.organization, mutation.keyUser ?? lane.user, mutation.id] {
            withUnsafeBytes(of: id.uuid) { hash.update(bufferPointer: $0) }
        }
        withUnsafeBytes(of: mutation.revision.bigEndian) { hash.update(bufferPointer: $0) }
        return UUID(hash: hash.finalize())
    }
}
