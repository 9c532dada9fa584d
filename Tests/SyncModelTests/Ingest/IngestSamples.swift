import Foundation
import JSONText
import SyncModel

/// Events, and stored state, for tests of the rules.
enum IngestSamples {
    static let organization = UUID()
    static let now = Timestamp(microseconds: 1_795_000_000_000_000)
    static let ada = Writer(user: UUID(), device: UUID())
    static let contact = EntityKey(type: "contact", id: "7")

    static func tenant(_ change: (inout OrganizationSettings) -> Void = { _ in }) -> Organization {
        var settings = OrganizationSettings()
        change(&settings)
        return Organization(id: organization, name: "Test", status: .active, settings: settings)
    }

    static func planner(
        visibility: Visibility = .organization,
        isForwarded: Bool = true,
        now: Timestamp = now,
        owner: @escaping @Sendable (UUID) -> IngestPlanner.Owner = { .user($0) }
    ) -> IngestPlanner {
        let type = EntityType(
            name: "contact",
            idSpace: .mapped,
            visibility: visibility,
            defaultPriority: 0,
            isForwarded: isForwarded,
            isInUse: true
        )
        return IngestPlanner(
            IngestPlanner.Context(organization: tenant(), types: ["contact": type], now: now, owner: owner)
        )
    }

    static func event(
        _ id: String,
        _ operation: IngestOperation = .upsert,
        of entity: ServerID = ServerID(7),
        version: Int64? = nil,
        at moment: Timestamp? = nil,
        _ document: String? = #"{"name":"Kari"}"#,
        owner: UUID? = nil,
        key: UUID? = nil
    ) -> IngestEvent {
        IngestEvent(
            id: id,
            entityType: "contact",
            entityID: entity,
            mark: SourceMark(version: version, occurredAt: moment),
            operation: operation,
            document: operation == .delete ? nil : document.map { Array($0.utf8) },
            owner: owner,
            causingKey: key
        )
    }

    static func batch(_ events: [IngestEvent]) -> IngestRequest {
        IngestRequest(entries: events.map { .init(eventID: $0.id, event: .success($0)) }, bodyBytes: 0)
    }

    /// A stored entity that Ada wrote last.
    static func stored(
        _ document: String? = #"{"name":"Kari"}"#,
        version: Int64 = 3,
        by writer: Writer = ada,
        owner: UUID? = nil
    ) -> EntityState {
        var state = EntityState(
            isIntegerID: true,
            version: version,
            isDeleted: document == nil,
            document: document.map { Array($0.utf8) },
            owner: owner ?? ada.user,
            clientID: nil,
            lastWriter: writer,
            runBase: version - 1
        )
        state.isStored = true
        return state
    }

    static func state(_ entity: EntityState? = nil, mark: SourceMark? = nil, _ requests: [SentRecord] = [])
        -> IngestState
    {
        var state = IngestState()
        if let entity { state.entities.load(contact, entity) }
        if let mark { state.marks[contact] = mark }
        for request in requests { state.add(request) }
        return state
    }

    static func request(
        _ key: UUID = UUID(),
        of id: String? = "7",
        sent: Double = -5,
        answered: Double? = -4,
        left document: String? = #"{"name":"Kari"}"#,
        version: Int64? = nil
    ) -> SentRecord {
        SentRecord(
            key: key,
            entityType: "contact",
            entityID: id,
            sentAt: now.adding(seconds: sent),
            answeredAt: answered.map { now.adding(seconds: $0) },
            content: document.flatMap { ContentHash(of: Array($0.utf8)) },
            version: version
        )
    }
}

extension IngestPlanner {
    /// Evaluates events in sequence, each in a separate batch.
    func judge(_ events: IngestEvent..., in state: inout IngestState) -> [IngestVerdict] {
        events.flatMap { plan(IngestSamples.batch([$0]), seen: [:], &state).verdicts }
    }
}

extension EntityState {
    var text: String? { document.map { String(decoding: $0, as: UTF8.self) } }
}
