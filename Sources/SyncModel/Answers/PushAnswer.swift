public import Foundation

/// The answer to a push.
public struct PushAnswer: Sendable {
    /// The device's watermark: the highest sequence number judged.
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

    /// Why the head of the user's lane does not run while mutations behind it wait.
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
