import Foundation
import StoreSupport
import SyncModel

/// The rules of the gateway for one organization, written down as plainly as they can be: nothing is fast here, nothing
/// is remembered that the rules do not name, and everything is looked up. What the gateway answers is held against it.
///
/// It decides what docs/rules.md decides: repetitions, refusals, dependencies, order, attempts, conflicts and settling;
/// what the built-in store and the upstream answer stands in files of their own.
struct RuleModel {
    /// A mutation that was accepted.
    final class Accepted {
        let entry: RuleEntry
        let number: Int64
        let device: UUID
        let position: Int
        var status = MutationStatus.pending
        /// What it had to wait for when that was last decided, satisfied or not.
        var dependsOn: Set<UUID> = [] { didSet { everDependedOn.formUnion(dependsOn) } }
        /// Whatever it had to wait for, at any time.
        var everDependedOn: Set<UUID> = []
        /// Which type each of its client ids was found to be of when it was taken in.
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
        /// What a person put in the place of the payload.
        var edited: [(name: String, value: RuleEntry.Value)]?
        /// The id that the upstream's last conflict named.
        var named: String?
        /// Answers that may be the operator's trouble, and when the first of them came.
        var hold: (count: Int, since: Timestamp)?
        /// Whether the upstream said that it was done, but not as what.
        var tookEffect = false
        let acceptedAt: Timestamp
        /// When the upstream took it.
        var takenAt: Timestamp?
        /// Whether the client is to have its way with the next request.
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

    /// What a client id leads to under a type.
    struct Mapping {
        var create: UUID
        var serverID: String?
        /// Whether its create was discarded for good.
        var isAbandoned = false
    }

    struct ClientKey: Hashable {
        let id: UUID
        let type: RuleType
    }

    /// A user with lane and devices.
    struct User {
        let id: UUID
        /// In the order of the lane.
        var lane: [Accepted] = []
        var watermarks: [UUID: Int64] = [:]
        /// Refused entries: the same key and number of a device are refused again.
        var refusals: [UUID: (device: UUID, number: Int64, code: String)] = [:]
        var mappings: [ClientKey: Mapping] = [:]

        func mutation(_ id: UUID) -> Accepted? { lane.first { $0.entry.id == id } }
        func mutation(key: UUID) -> Accepted? { lane.first { $0.entry.key == key } }

        /// Mappings of a client id that lead somewhere or will.
        func usable(_ id: UUID) -> [(type: RuleType, mapping: Mapping)] {
            RuleType.allCases.compactMap { type in
                mappings[ClientKey(id: id, type: type)].flatMap { $0.isAbandoned ? nil : (type, $0) }
            }
        }

        func isMapped(_ id: UUID) -> Bool {
            RuleType.allCases.contains { mappings[ClientKey(id: id, type: $0)] != nil }
        }

        /// What halts the lane: set by the first that halts it, lifted when that one moves.
        var haltedBy: UUID?
        var isHalted: Bool { haltedBy != nil }

        func unmet(_ ids: Set<UUID>) -> Set<UUID> { ids.filter { !(mutation($0)?.satisfies ?? false) } }

        /// What a mutation waited for at any time, directly or through others.
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
    /// The clock.
    var now = Timestamp(microseconds: 0)
    var users: [UUID: User] = [:]
    /// By JSON text of the id.
    var notes: [String: Entity] = [:]
    /// Ids of notes in the order of their last writes.
    var feed: [String] = []

    /// One that shares nothing with this one.
    func copy() -> RuleModel {
        var copy = self
        for (id, user) in users { copy.users[id]?.lane = user.lane.map { Accepted($0) } }
        return copy
    }

    func halts(_ status: MutationStatus) -> Bool {
        (status == .conflict && haltsOnConflict) || (status == .failed && haltsOnFailure)
    }

    /// What is answered about an entry of a push.
    enum Verdict {
        case accepted(Accepted)
        case replayed(Accepted)
        /// - Parameter isRepeated: whether it is the answer to an earlier try.
        case rejected(code: String, isRepeated: Bool)

        var isRejected: Bool { if case .rejected = self { true } else { false } }
    }
}
