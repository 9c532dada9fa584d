import Foundation
import StoreSupport
import SyncModel

/// The rules of the gateway for one organization, in their simplest form: without optimizations, with only the state
/// that the rules name, and with a look-up for everything. The gateway's answers are compared with it.
///
/// It covers the decisions of docs/rules.md: repeats, refusals, dependencies, order, attempts, conflicts and settling.
/// The answers of the built-in store and of the upstream are in separate files.
struct RuleModel {
    /// A mutation that was accepted.
    final class Accepted {
        let entry: RuleEntry
        let number: Int64
        let device: UUID
        let position: Int
        var status = MutationStatus.pending
        /// Its dependencies when they were last determined, satisfied or not.
        var dependsOn: Set<UUID> = [] { didSet { everDependedOn.formUnion(dependsOn) } }
        /// Every dependency that it had at any time.
        var everDependedOn: Set<UUID> = []
        /// The type of each of its client ids at acceptance.
        var targets: [UUID: RuleType] = [:]
        var serverID: String?
        var version: Int64?
        var attempts = 0
        var revision = 1
        var nextTry: Timestamp?
        var isOutcomeUnknown = false
        /// Whether its last conflict was with a deletion.
        var metDeletion = false
        var echoes = 0
        var resolution: ConflictResolution?
        var code: String?
        /// The payload that a person set in place of the original.
        var edited: [(name: String, value: RuleEntry.Value)]?
        /// The id in the upstream's last conflict.
        var named: String?
        /// Answers that may be a configuration error, and the time of the first.
        var hold: (count: Int, since: Timestamp)?
        /// Whether the upstream reported success without an id.
        var tookEffect = false
        let acceptedAt: Timestamp
        /// When the upstream accepted it.
        var takenAt: Timestamp?
        /// Whether the next request overwrites the server's state.
        var overrides = false

        init(_ entry: RuleEntry, number: Int64, device: UUID, position: Int, at moment: Timestamp) {
            acceptedAt = moment
            self.entry = entry
            self.number = number
            self.device = device
            self.position = position
            serverID = entry.server
        }

        init(_ other: Accepted) {
            entry = other.entry
            number = other.number
            device = other.device
            position = other.position
            status = other.status
            dependsOn = other.dependsOn
            everDependedOn = other.everDependedOn
            targets = other.targets
            serverID = other.serverID
            version = other.version
            attempts = other.attempts
            revision = other.revision
            nextTry = other.nextTry
            isOutcomeUnknown = other.isOutcomeUnknown
            metDeletion = other.metDeletion
            echoes = other.echoes
            resolution = other.resolution
            code = other.code
            edited = other.edited
            named = other.named
            overrides = other.overrides
            hold = other.hold
            tookEffect = other.tookEffect
            acceptedAt = other.acceptedAt
            takenAt = other.takenAt
        }

        var satisfies: Bool { status == .succeeded || (status == .discarded && resolution == .serverWins) }
        var payload: [(name: String, value: RuleEntry.Value)]? { edited ?? entry.payload }

        var references: [UUID] {
            var entry = entry
            entry.payload = payload
            return entry.references
        }
    }

    /// The target of a client id under a type.
    struct Mapping {
        var create: UUID
        var serverID: String?
        /// Whether its create was discarded.
        var isAbandoned = false
    }

    struct ClientKey: Hashable {
        let id: UUID
        let type: RuleType
    }

    /// A user with lane and devices.
    struct User {
        let id: UUID
        /// The accepted mutations, in the order of the lane.
        var lane: [Accepted] = []
        var watermarks: [UUID: Int64] = [:]
        /// Refused entries: the same key and number of a device are refused again.
        var refusals: [UUID: (device: UUID, number: Int64, code: String)] = [:]
        var mappings: [ClientKey: Mapping] = [:]

        func mutation(_ id: UUID) -> Accepted? { lane.first { $0.entry.id == id } }
        func mutation(key: UUID) -> Accepted? { lane.first { $0.entry.key == key } }

        /// Mappings of a client id that are resolved or pending.
        func usable(_ id: UUID) -> [(type: RuleType, mapping: Mapping)] {
            RuleType.allCases.compactMap { type in
                mappings[ClientKey(id: id, type: type)].flatMap { $0.isAbandoned ? nil : (type, $0) }
            }
        }

        func isMapped(_ id: UUID) -> Bool {
            RuleType.allCases.contains { mappings[ClientKey(id: id, type: $0)] != nil }
        }

        /// The mutation that halts the lane. The first such mutation remains until it changes its status.
        var haltedBy: UUID?
        var isHalted: Bool { haltedBy != nil }

        func unmet(_ ids: Set<UUID>) -> Set<UUID> { ids.filter { !(mutation($0)?.satisfies ?? false) } }

        /// All dependencies that a mutation ever had, directly or through others.
        func chain(of mutation: Accepted) -> Set<UUID> {
            var (chain, ends) = (mutation.everDependedOn, Array(mutation.everDependedOn))
            while let end = ends.popLast() {
                let further = self.mutation(end)?.everDependedOn.subtracting(chain) ?? []
                chain.formUnion(further)
                ends += further
            }
            return chain
        }
    }

    /// An entity of the built-in store.
    struct Entity {
        struct Writer: Equatable {
            let user: UUID
            let device: UUID
        }

        var version: Int64
        /// Nil for a tombstone.
        var document: [String: String]?
        var writer: Writer
        var runBase: Int64
    }

    let haltsOnConflict: Bool
    let haltsOnFailure: Bool
    let strategy: ConflictResolution
    /// The rule for the deletion of a note to which others refer by `ref`.
    let deletionRule: DeletionRule
    /// The maximum number of mutations in a batch; nil if the upstream takes no batches.
    var batch: Int?
    /// The maximum number of a lane's mutations in flight; nil for one at a time, in the order of the lane.
    var inFlight: Int?
    var now = Timestamp(microseconds: 0)
    var users: [UUID: User] = [:]
    /// The entities of the built-in store, by the JSON text of the id.
    var notes: [String: Entity] = [:]
    /// Ids of notes in the order of their last writes.
    var feed: [String] = []

    /// A copy that shares no state.
    func copy() -> RuleModel {
        var copy = self
        for (id, user) in users { copy.users[id]?.lane = user.lane.map { Accepted($0) } }
        return copy
    }

    func halts(_ status: MutationStatus) -> Bool {
        (status == .conflict && haltsOnConflict) || (status == .failed && haltsOnFailure)
    }

    /// The result of a push's entry.
    enum Verdict {
        case accepted(Accepted)
        case replayed(Accepted)
        /// - Parameter isRepeated: whether it is the answer to an earlier attempt.
        case rejected(code: String, isRepeated: Bool)

        var isRejected: Bool { if case .rejected = self { true } else { false } }
    }
}
