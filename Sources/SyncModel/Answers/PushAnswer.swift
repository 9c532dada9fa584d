public import Foundation

/// What a push is answered with.
public struct PushAnswer: Sendable {
    /// The device's watermark: the highest number judged.
    public var acceptedSequence: Int64
    /// A pull that has reached this cursor has seen what the push did.
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

    /// By place in the request.
    public var warnings: [Int: PushWarning] = [:]

    /// Blocked mutations that a settled one blocks, so that nothing but a person moves them: settled as well.
    public var stuck: Set<UUID> = []

    /// The lane as the push found it, or as it was when the push had halted it.
    public var lane = LaneState()

    /// What keeps the head of the user's lane from running, so that what is behind it waits; nil where nothing does, where
    /// all that is queued waits for other mutations, and where it could not be found out.
    public var hold: LaneHold?

    /// What is left of the user's quota; nil where there is none.
    public var standing: QuotaStanding?

    /// Mutations that are not settled: a `wait` goes on while there are any.
    public var unsettled: [UUID] {
        verdicts.compactMap(\.record).filter { !$0.status.isSettled && !stuck.contains($0.id) }.map(\.id)
    }

    /// Which mappings the answer shows once they are resolved.
    public var touched: TouchedMappings {
        switch subject {
        case .push(let push): TouchedMappings(push)
        case .names(_, let touched): touched
        }
    }

    /// The same without the push's body: for an answer that is held for long.
    public func withoutBody() -> PushAnswer {
        guard case .push(let push) = subject else { return self }
        var answer = self
        let names = zip(push.entries, verdicts).map { $1.record == nil ? EntryName($0) : nil }
        answer.subject = .names(names, TouchedMappings(push))
        return answer
    }

    /// The name of an entry; only of those that have no record.
    public func entry(_ index: Int) -> EntryName {
        switch subject {
        case .push(let push): EntryName(push.entries[index])
        case .names(let names, _): names[index] ?? EntryName()
        }
    }

    /// What is answered: a push as it came, or what an answer needs to know of it.
    private enum Subject: Sendable {
        case push(PushRequest)
        /// The names of entries that have no record, by index.
        case names([EntryName?], TouchedMappings)
    }
}

extension PushVerdict {
    /// The mutation's record, unless the entry was rejected.
    public var record: MutationRecord? {
        switch self {
        case .accepted(let record), .replayed(let record): record
        case .rejected, .rejectedBefore: nil
        }
    }

    /// The entry's status, for metrics and logs.
    public var status: MutationStatus { record?.status ?? .rejected }

    /// Whether the answer is a repetition of an earlier one.
    public var isReplay: Bool {
        switch self {
        case .replayed, .rejectedBefore: true
        case .accepted, .rejected: false
        }
    }
}
