import Foundation
import JSONText

/// What an upstream's response proves about one entity, for the feed.
///
/// A mutation names its entity and its endpoint, and the gateway cannot decide whether the two belong together: a 200
/// to a request for another resource proves nothing about the entity. So a response counts only if the request's path
/// names the entity, or the document in the response has its id.
struct UpstreamEvidence {
    private let mutation: QueuedMutation
    private let request: UpstreamRequest
    private let response: UpstreamResponse
    /// The entity's document as the answer shows it, JSON.
    private let document: [UInt8]?
    /// Whether the request's path holds the id.
    private let isNamed: Bool

    /// - Parameter shown: the entity in the response, which need not be the mutation's.
    init(
        about id: ServerID,
        of mutation: QueuedMutation,
        _ request: UpstreamRequest,
        _ response: UpstreamResponse,
        _ shown: UpstreamEntity?
    ) {
        self.mutation = mutation
        self.request = request
        self.response = response
        document = shown?.id.text == id.text ? shown?.document : nil
        isNamed = id.isSegment(of: request.path)
    }

    /// The ETag of the entity that the path names, or that a create has made.
    var etag: String? {
        switch mutation.operation {
        case .delete: nil
        case .create where mutation.override == nil: response.etag
        case .create, .update, .replace: isNamed ? response.etag : nil
        }
    }

    /// The mutation's change to the entity, and the ground for it.
    var change: (Outcome.EntityChange, Outcome.Evidence) {
        switch mutation.operation {
        case .create where mutation.override == nil: (whole(document ?? request.body), .created)
        case .create, .replace: (whole(document ?? (isNamed ? request.body : nil)), .written)
        case .update: (patched, .written)
        case .delete: deletion
        }
    }

    private func whole(_ document: [UInt8]?) -> Outcome.EntityChange {
        document.map { .document($0, etag: etag) } ?? .none
    }

    private var patched: Outcome.EntityChange {
        if document != nil { return whole(document) }
        guard isNamed, let body = request.body else { return .none }
        return request.method == "PUT" ? whole(body) : .patch(body, etag: etag)
    }

    private var deletion: (Outcome.EntityChange, Outcome.Evidence) {
        if response.status == 404 || response.status == 410 { return (isNamed ? .deleted : .none, .missing) }
        return (isNamed || document != nil ? .deleted : .none, .written)
    }
}

extension ServerID {
    /// Whether the id is a whole segment of a path, percent-encoded or not.
    func isSegment(of path: String) -> Bool {
        let encoded = PercentEncoding.encoded(text)
        return path.utf8.prefix { $0 != 0x3f }.split(separator: 0x2f).contains { segment in
            if segment.elementsEqual(encoded) { return true }
            // a segment in another spelling, or with OData's key
            let mayHaveKey = segment.last == 0x29 || segment.contains(0x25)
            guard mayHaveKey || (segment.count == 36 && !isInteger) else { return false }
            guard let decoded = String(validating: PercentEncoding.decoded(segment), as: UTF8.self) else {
                return false
            }
            if mayHaveKey, let key = ODataKey(segment: decoded)?.id, key.text == text { return true }
            return decoded == text || (uuid != nil && UUID(parsing: decoded) == uuid)
        }
    }
}
