public import FoundationEssentials

/// Decides the outcomes of events that report edits made elsewhere. Pure.
///
/// An event is applied, is known already, is an echo of the gateway's own request, or waits for the outcome of one.
///
/// An echo is recognized by the key of the request that caused it, or else, once, by the version or the content that a
/// request left behind; never by time or by who acted.
public struct IngestPlanner: Sendable {
    /// The maximum time for which an event waits for the outcome of requests, in seconds.
    ///
    /// After this time, it is evaluated by the known state.
    public static let timeoutSeconds: Double = SentRecord.flightSeconds
    /// Events of an organization that may wait.
    public static let parkedLimit = 5_000

    /// The owner of an entity for which an event names a user.
    public enum Owner: Sendable, Hashable {
        case user(UUID)
        /// Not known yet: the user is being joined with another.
        case joining
        /// The user was erased: no user could see the entity, and no erasure delete it.
        case erased
    }

    public struct Context: Sendable {
        public let organization: Organization
        /// The registered entity types, by name.
        public let types: [ByteExactString: EntityType]
        /// The time of the transaction.
        public let now: Timestamp
        /// The current identity of a user.
        public let owner: @Sendable (UUID) -> Owner

        public init(
            organization: Organization,
            types: [ByteExactString: EntityType],
            now: Timestamp,
            owner: @escaping @Sendable (UUID) -> Owner = { .user($0) }
        ) {
            self.organization = organization
            self.types = types
            self.now = now
            self.owner = owner
        }

        /// The type; an unknown one is made at its first use.
        ///
        /// It is not made if the organization requires declared types.
        func type(_ name: String) -> EntityType? {
            if let type = types[name] { return type }
            return organization.settings.entityTypes == .open
                ? EntityType(firstUseOf: name, hasUpstream: organization.upstream != nil) : nil
        }
    }

    let context: Context

    public init(_ context: Context) {
        self.context = context
    }

    /// Judges a batch that has arrived.
    ///
    /// - Parameters:
    ///   - seen: outcomes of events of this source that were taken before, by their ids.
    ///   - budget: the work after which it ends (``IngestBounds``). The first event is judged in any case, unless its
    ///     document was not read.
    ///   - state: of the organization; the batch changes it.
    /// - Returns: a plan with a verdict for each of the batch's first events.
    public func plan(
        _ request: IngestRequest,
        seen: [ByteExactString: IngestResult],
        budget: Int = .max,
        _ state: inout IngestState
    ) -> IngestPlan {
        var plan = IngestPlan()
        var seen = seen
        let start = state.work
        defer { state.settle() }
        for (offset, entry) in request.entries.enumerated() {
            let index = request.firstIndex + offset
            switch entry.event {
            case .failure(let problem):
                plan.verdicts.append(IngestVerdict(eventID: entry.eventID, .refused, problem: problem))
            case .success(let event):
                if let original = seen[event.id] {
                    plan.verdicts.append(IngestVerdict(eventID: event.id, .duplicate, original: original))
                    continue
                }
                guard reserve(event, isFirst: plan.verdicts.isEmpty, budget, since: start, &state) else { return plan }
                var received = ReceivedEvent(event, at: context.now)
                let isBehind = state.lastPlaces[event.key] != nil
                let verdict = judge(received, isBehind: isBehind, pointer: "/events/\(index)", &state, &plan)
                if verdict.result == .parked { received.place = state.park(event.key) }
                record(received, verdict, &plan)
                if verdict.result.isRemembered { seen[event.id] = verdict.result }
            }
        }
        return plan
    }

    /// Judges events that have waited, in the order in which they came.
    ///
    /// If one continues to wait, the later events about the same entity do so, too; they are not stored again.
    public func plan(
        released events: [ReceivedEvent],
        budget: Int = .max,
        _ state: inout IngestState
    ) -> IngestPlan {
        var plan = IngestPlan()
        var waiting: Set<EntityKey> = []
        let start = state.work
        defer { state.settle() }
        for received in events {
            let key = received.event.key
            guard reserve(received.event, isFirst: plan.verdicts.isEmpty, budget, since: start, &state) else {
                return plan
            }
            let verdict =
                waiting.contains(key)
                ? IngestVerdict(eventID: received.event.id, .parked)
                : judge(received, isBehind: false, pointer: "", &state, &plan)
            if verdict.result == .parked { waiting.insert(key) }
            record(received, verdict, &plan)
        }
        return plan
    }

    /// Counts an event's work; false if it exceeds the budget.
    private func reserve(
        _ event: IngestEvent,
        isFirst: Bool,
        _ budget: Int,
        since start: Int,
        _ state: inout IngestState
    ) -> Bool {
        guard let work = state.estimate(event) else { return false }
        guard isFirst || state.work - start + work <= budget else { return false }
        state.count(work, for: event)
        return true
    }

    private func record(_ received: ReceivedEvent, _ verdict: IngestVerdict, _ plan: inout IngestPlan) {
        plan.verdicts.append(verdict)
        if verdict.result.isRemembered { plan.remembered.append((received, verdict.result)) }
    }

    private func judge(
        _ received: ReceivedEvent,
        isBehind: Bool,
        pointer: String,
        _ state: inout IngestState,
        _ plan: inout IngestPlan
    ) -> IngestVerdict {
        let event = received.event
        do throws(Problem) {
            let judgement = try IngestEventPlanner(event, context, pointer: pointer)
            let verdict = try judgement.verdict(receivedAt: received.receivedAt, isBehind: isBehind, &state)
            let type = judgement.type
            if verdict.result == .applied, !type.isInUse,
                !plan.typesToRegister.contains(where: { $0.name == type.name })
            {
                plan.typesToRegister.append(type)
            }
            return verdict
        } catch {
            return IngestVerdict(eventID: event.id, .refused, problem: error)
        }
    }
}

/// The decisions about one batch of events.
public struct IngestPlan: Sendable {
    /// In the order of the events.
    public internal(set) var verdicts: [IngestVerdict] = []
    /// Events that are to be remembered, with their outcomes.
    public internal(set) var remembered: [(event: ReceivedEvent, result: IngestResult)] = []
    /// Entity types that are in use from now on.
    public internal(set) var typesToRegister: [EntityType] = []

    public init() {}

    /// Appends the next decisions.
    public mutating func append(_ other: IngestPlan) {
        verdicts += other.verdicts
        remembered += other.remembered
        for type in other.typesToRegister where !typesToRegister.contains(where: { $0.name == type.name }) {
            typesToRegister.append(type)
        }
    }
}

// MARK: - IngestAnswer

/// The answer to a batch of events.
public struct IngestAnswer: Sendable {
    /// In request order.
    public var verdicts: [IngestVerdict]
    /// A pull that has reached this cursor has seen the applied events.
    public var feed: String

    public init(verdicts: [IngestVerdict], feed: String) {
        self.verdicts = verdicts
        self.feed = feed
    }
}

/// The outcome of one event of a batch.
public struct IngestVerdict: Sendable, Hashable {
    /// Nil where the event has no readable id.
    @Exact public var eventID: String?
    public var result: IngestResult
    /// The entity's version in the feed at that time.
    ///
    /// Nil if the feed does not have the entity, and for an event that waits, was taken before or was refused.
    public var version: Int64?
    /// Of a duplicate: the outcome of the first event with this id.
    public var original: IngestResult?
    /// The problem of a refused event.
    public var problem: Problem?

    public init(
        eventID: String?,
        _ result: IngestResult,
        version: Int64? = nil,
        original: IngestResult? = nil,
        problem: Problem? = nil
    ) {
        self.eventID = eventID
        self.result = result
        self.version = version
        self.original = original
        self.problem = problem
    }
}

/// The outcome of an event from elsewhere.
public enum IngestResult: String, Sendable, Hashable, CaseIterable {
    /// It is in the feed, or the feed had it already.
    case applied
    /// A newer state of the entity is known: nothing was changed.
    case stale
    /// It reports a request that the gateway itself sent: nothing was changed.
    case echo
    /// It waits for the outcome of a request of the gateway's own about the entity.
    case parked
    /// An event of the same source with the same id was taken before.
    case duplicate
    /// It is invalid, or does not fit the known state; it may be sent again.
    case refused

    /// Whether the event's id is known from then on.
    public var isRemembered: Bool {
        switch self {
        case .applied, .stale, .echo, .parked: true
        case .duplicate, .refused: false
        }
    }
}
