public import FoundationEssentials

/// The answer to a push.
public struct PushAnswer: Sendable {
    /// The device's watermark, which is the highest sequence number that was evaluated.
    public var acceptedSequence: Int64
    /// A feed cursor that is after the effects of the push.
    public var feed: String
    private var subject: Subject
    /// The outcomes, in request order.
    public var verdicts: [PushVerdict]
    /// The user's resolved mappings of the client ids in the push.
    public var mappings: [IDMapping]

    public init(
        acceptedSequence: Int64,
        feed: String,
        push: PushRequest,
        verdicts: [PushVerdict],
        mappings: [IDMapping]
    ) {
        self.acceptedSequence = acceptedSequence
        self.feed = feed
        subject = .push(push)
        self.verdicts = verdicts
        self.mappings = mappings
    }

    /// Warnings, by index in the request.
    public var warnings: [Int: PushWarning] = [:]

    /// The blocked mutations that only a person can unblock. These mutations are treated as settled.
    ///
    /// Each of them waits for a mutation that failed or is in conflict.
    public var stuck: Set<UUID> = []

    /// The lane before the push or, if the push halted the lane, after the push.
    public var lane = LaneState()

    /// The reason why the head of the user's lane does not run while later mutations wait.
    ///
    /// Nil in three cases: the head runs or is due, all queued mutations wait for other mutations, or the gateway could
    /// not determine the reason.
    public var blocker: LaneBlocker?

    /// The maximum total size, in bytes, of entities, upstreams' bodies and lists of blocking mutations in the answer.
    public var contentRoom = WorkBounds.answer

    /// The remaining quota of the user; nil if the user has no quota.
    public var quotaStatus: QuotaStatus?

    /// The mutations that are not settled. A push with `wait` waits until each of these mutations is settled.
    public var unsettled: [UUID] {
        verdicts.compactMap(\.record).filter { !$0.status.isSettled && !stuck.contains($0.id) }.map(\.id)
    }

    /// The mappings that can be part of the answer. The answer contains each of them that is resolved.
    public var touched: TouchedMappings {
        switch subject {
        case .push(let push): TouchedMappings(push)
        case .names(_, let touched): touched
        }
    }

    /// Returns the answer without the body of the push. An answer that waits for a long time then needs less memory.
    public func withoutBody() -> PushAnswer {
        guard case .push(let push) = subject else { return self }
        var answer = self
        let names = zip(push.entries, verdicts).map { $1.record == nil ? EntryName($0) : nil }
        answer.subject = .names(names, TouchedMappings(push))
        return answer
    }

    /// Returns the answer without large errors, large bodies of upstreams and long lists of blocking mutations.
    public func withoutContents() -> PushAnswer {
        var answer = self
        answer.verdicts = verdicts.map { verdict in
            switch verdict {
            case .accepted(let record): .accepted(record.withoutContents)
            case .replayed(let record): .replayed(record.withoutContents)
            case .rejected, .rejectedBefore: verdict
            }
        }
        return answer
    }

    /// The identifiers of an entry; empty for an entry that has a record.
    public func entry(_ index: Int) -> EntryName {
        switch subject {
        case .push(let push): EntryName(push.entries[index])
        case .names(let names, _): names[index] ?? EntryName()
        }
    }

    /// The push, or the part of the push that ``withoutBody()`` keeps.
    private enum Subject: Sendable {
        case push(PushRequest)
        /// The identifiers of entries without a record, by index.
        case names([EntryName?], TouchedMappings)
    }
}

extension PushVerdict {
    /// The mutation's record; nil for a rejected entry.
    public var record: MutationRecord? {
        switch self {
        case .accepted(let record), .replayed(let record): record
        case .rejected, .rejectedBefore: nil
        }
    }

    /// The status for metrics and logs.
    public var status: MutationStatus { record?.status ?? .rejected }

    /// Whether the entry is a repeat. If so, the answer contains an earlier outcome.
    public var isReplay: Bool {
        switch self {
        case .replayed, .rejectedBefore: true
        case .accepted, .rejected: false
        }
    }
}

/// The answer to a preview.
///
/// The answer contains the results that a push would have, and the requests that would be sent.
public struct PushPreview: Sendable {
    /// The result that an entry would have in a push.
    public struct Result: Sendable {
        public let entry: PushEntry
        /// The immediate verdict, without the ids that only a push would generate.
        public let verdict: PushVerdict
        /// The request that would be sent for the entry.
        ///
        /// Nil if no request would be sent, and for an entry that is not new.
        public let request: PreviewedRequest?
        /// The conflict that the gateway would detect before it sends a request; nil without a conflict.
        ///
        /// A problem object as JSON.
        public let conflict: [UInt8]?
        public let warning: PushWarning?
    }

    /// The device's watermark after the push.
    public let acceptedSequence: Int64
    /// The results, in request order.
    public let results: [Result]
    /// The user's resolved mappings of the client ids in the push.
    public let mappings: [IDMapping]
}

/// The parts of a request that the mutation's user may see.
///
/// These parts exclude the organization's credential, headers and base URL.
public struct PreviewedRequest: Sendable, Hashable {
    /// A header of the mutation, or a header that the gateway sets.
    public struct Header: Sendable, Hashable {
        /// The name in lower case.
        @Exact public private(set) var name: String
        @Exact public private(set) var value: String
    }

    /// `POST`, `PATCH`, `PUT` or `DELETE`.
    @Exact public private(set) var method: String
    /// The path and query, relative to the base URL.
    @Exact public private(set) var path: String
    /// The gateway's headers, followed by all other headers by name.
    public let headers: [Header]
    /// The body as JSON; nil if the request has no body.
    public let body: [UInt8]?
    /// The client ids in the path and the body for which no server ids are known yet, including local ids (entities'
    /// numbers on one device).
    public let unresolvedIDs: [ServerID]
    /// The route from which the request is made; nil if the mutation has its own endpoint.
    public let route: UpstreamRequest.Route?

    init(_ request: UpstreamRequest, unresolved: [ServerID]) {
        method = request.method
        path = UpstreamRequest.encoded(path: request.path)
        headers = request.userHeaders.map { Header(name: $0.name, value: $0.value) }
        body = request.body
        unresolvedIDs = unresolved
        route = request.route
    }
}

/// The identifiers of a rejected entry, if they could be read.
///
/// The answer repeats these identifiers.
public struct EntryName: Sendable {
    public var id: UUID?
    public var idempotencyKey: UUID?
    public var sequenceNumber: Int64?
    public var entity: EntityName?

    init() {}

    public init(_ entry: PushEntry) {
        id = entry.id
        idempotencyKey = entry.idempotencyKey
        sequenceNumber = entry.sequenceNumber
        entity = entry.mutation?.entity
    }
}
