public import FoundationEssentials

/// Decides the outcomes of events that report changes made outside of Sluice. This type does no I/O.
///
/// The planner decides whether an event is applied, is already known, is an echo of the gateway's own request, or must
/// wait for the outcome of the gateway's own request.
///
/// An echo is recognized by the idempotency key of the request that caused it. If the event has no key, the echo is
/// recognized by the version or the content that the request produced, but only once for each request. The time of the
/// edit and the person who made it are not used for this decision.
public struct IngestPlanner: Sendable {
    /// The maximum time that an event waits for the outcome of requests, in seconds.
    ///
    /// After this time, the event is evaluated against the known state.
    public static let timeoutSeconds: Double = SentRecord.flightSeconds
    /// The maximum number of waiting events of an organization.
    public static let parkedLimit = 5_000

    /// The present identity of the user that an event contains as an entity's owner.
    public enum Owner: Sendable, Hashable {
        case user(UUID)
        /// The owner is not known yet, because the user is being joined into another user.
        case joining
        /// The user was erased. An entity of this owner would be visible to no user, and no erasure would delete it.
        case erased
    }

    public struct Context: Sendable {
        public let organization: Organization
        /// The registered entity types, by name.
        public let types: [ByteExactString: EntityType]
        /// The time of the transaction.
        public let now: Timestamp
        /// Returns the present identity of a user.
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

        /// The entity type with the given name.
        ///
        /// If the type is unknown, it is created at its first use. Nil if the organization requires declared types.
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

    /// Evaluates a batch of new events.
    ///
    /// - Parameters:
    ///   - seen: the outcomes of this source's events that were accepted before, by event id.
    ///   - budget: the work after which the evaluation ends (``IngestBounds``). The first event is evaluated even if it
    ///     exceeds the budget, provided that its document was read.
    ///   - state: the state of the organization. The method changes this state.
    /// - Returns: a plan with a verdict for each evaluated event. The evaluated events are the first events of the
    ///   batch.
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

    /// Evaluates parked events in the order of their arrival.
    ///
    /// If an event remains parked, later events about the same entity remain parked, too. Events that remain parked are
    /// not stored again.
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

    /// Counts the work of an event; false if the total work would exceed the budget.
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
    /// The outcomes, in the order of the events.
    public internal(set) var verdicts: [IngestVerdict] = []
    /// The events to store with their ids and outcomes.
    public internal(set) var remembered: [(event: ReceivedEvent, result: IngestResult)] = []
    /// The new entity types to register.
    public internal(set) var typesToRegister: [EntityType] = []

    public init() {}

    /// Appends the decisions about the next part of the batch.
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
    /// The outcomes, in request order.
    public var verdicts: [IngestVerdict]
    /// A feed cursor that is after the applied events.
    public var feed: String

    public init(verdicts: [IngestVerdict], feed: String) {
        self.verdicts = verdicts
        self.feed = feed
    }
}

/// The outcome of one event of a batch.
public struct IngestVerdict: Sendable, Hashable {
    /// The event's id; nil if the event has no readable id.
    @Exact public var eventID: String?
    public var result: IngestResult
    /// The entity's version in the feed when the event was evaluated.
    ///
    /// Nil if the feed does not have the entity, and for an event that is parked, refused or a duplicate.
    public var version: Int64?
    /// The outcome of the first event with this id, if this event is a duplicate; otherwise nil.
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

/// The outcome of an event.
public enum IngestResult: String, Sendable, Hashable, CaseIterable {
    /// The change was written to the feed, or the feed already had the change.
    case applied
    /// Nothing was changed, because a newer state of the entity is known.
    case stale
    /// Nothing was changed, because the event reports the effect of the gateway's own request.
    case echo
    /// The event waits for the outcome of the gateway's own request about the entity.
    case parked
    /// An earlier event of the same source with the same id was accepted.
    case duplicate
    /// The event is invalid, or does not fit the known state. The source can send the event again.
    case refused

    /// Whether the event's id is stored, which makes a second event with this id a duplicate.
    public var isRemembered: Bool {
        switch self {
        case .applied, .stale, .echo, .parked: true
        case .duplicate, .refused: false
        }
    }
}
