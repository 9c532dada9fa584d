public import FoundationEssentials

/// The answer to a push.
public struct PushAnswer: Sendable {
    /// The device's watermark: the highest sequence number that was evaluated.
    public var acceptedSequence: Int64
    /// A pull that has reached this cursor has seen the effects of the push.
    public var feed: String
    private var subject: Subject
    /// In request order.
    public var verdicts: [PushVerdict]
    /// Resolved mappings of this user that the batch touches.
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

    /// By index in the request.
    public var warnings: [Int: PushWarning] = [:]

    /// Blocked mutations that only a person can unblock; they count as settled.
    ///
    /// They wait for a failed or conflicting mutation.
    public var stuck: Set<UUID> = []

    /// The lane as the push found it, or after the push halted it.
    public var lane = LaneState()

    /// The reason why the head of the user's lane does not run while later mutations wait.
    ///
    /// Nil where the lane is not held, where all queued mutations wait for other mutations, and where the gateway could
    /// not find out.
    public var blocker: LaneBlocker?

    /// Bytes of entities, of upstreams' bodies and of lists of blockers that the answer has room for.
    public var contentRoom = WorkBounds.answer

    /// The rest of the user's quota; nil where the user has no quota.
    public var standing: QuotaStatus?

    /// Mutations that are not settled; a `wait` lasts as long as there are any.
    public var unsettled: [UUID] {
        verdicts.compactMap(\.record).filter { !$0.status.isSettled && !stuck.contains($0.id) }.map(\.id)
    }

    /// The mappings that the answer shows once they are resolved.
    public var touched: TouchedMappings {
        switch subject {
        case .push(let push): TouchedMappings(push)
        case .names(_, let touched): touched
        }
    }

    /// The same answer without the push's body, for an answer that is held for long.
    public func withoutBody() -> PushAnswer {
        guard case .push(let push) = subject else { return self }
        var answer = self
        let names = zip(push.entries, verdicts).map { $1.record == nil ? EntryName($0) : nil }
        answer.subject = .names(names, TouchedMappings(push))
        return answer
    }

    /// The same answer without large errors, bodies of upstreams and long lists of blockers.
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

    /// The name of an entry; empty for an entry that has a record.
    public func entry(_ index: Int) -> EntryName {
        switch subject {
        case .push(let push): EntryName(push.entries[index])
        case .names(let names, _): names[index] ?? EntryName()
        }
    }

    /// The push itself, or the part that ``withoutBody()`` keeps.
    private enum Subject: Sendable {
        case push(PushRequest)
        /// The names of entries without a record, by index.
        case names([EntryName?], TouchedMappings)
    }
}

extension PushVerdict {
    /// Nil for a rejected entry.
    public var record: MutationRecord? {
        switch self {
        case .accepted(let record), .replayed(let record): record
        case .rejected, .rejectedBefore: nil
        }
    }

    /// For metrics and logs.
    public var status: MutationStatus { record?.status ?? .rejected }

    /// Whether the answer repeats an earlier one.
    public var isReplay: Bool {
        switch self {
        case .replayed, .rejectedBefore: true
        case .accepted, .rejected: false
        }
    }
}

/// The answer to a preview.
///
/// It has the results that a push would have, and the requests that it would send.
public struct PushPreview: Sendable {
    /// The result that one entry would have.
    public struct Result: Sendable {
        public let entry: PushEntry
        /// The immediate verdict, without the ids that only a push makes.
        public let verdict: PushVerdict
        /// The request that would be sent; nil without a request.
        ///
        /// Also nil for an entry that is not new.
        public let request: PreviewedRequest?
        /// The conflict that the mutation's turn would meet before anything is sent.
        ///
        /// A problem object as JSON.
        public let conflict: [UInt8]?
        public let warning: PushWarning?
    }

    /// The device's watermark after the push.
    public let acceptedSequence: Int64
    /// In request order.
    public let results: [Result]
    /// Resolved mappings of this user that the batch touches.
    public let mappings: [IDMapping]
}

/// A request as the mutation's user may see it.
///
/// It lacks the organization's credential, headers and base URL.
public struct PreviewedRequest: Sendable, Hashable {
    /// A header of the mutation, or one that the gateway sets.
    public struct Header: Sendable, Hashable {
        /// In lower case.
        @Exact public private(set) var name: String
        @Exact public private(set) var value: String
    }

    /// `POST`, `PATCH`, `PUT` or `DELETE`.
    @Exact public private(set) var method: String
    /// Path and query, relative to the base URL.
    @Exact public private(set) var path: String
    /// The gateway's headers first, then the others by name.
    public let headers: [Header]
    /// JSON; nil for none.
    public let body: [UInt8]?
    /// Client ids and device ids in path and body whose server ids are not known yet.
    public let unresolvedIDs: [ServerID]

    init(_ request: UpstreamRequest, unresolved: [ServerID]) {
        method = request.method
        path = UpstreamRequest.encoded(path: request.path)
        headers = request.userHeaders.map { Header(name: $0.name, value: $0.value) }
        body = request.body
        unresolvedIDs = unresolved
    }
}

/// The identifiers of a rejected entry, as far as it could be read.
///
/// The answer repeats them.
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
