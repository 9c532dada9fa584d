package import FoundationEssentials
import JSONText
package import SyncModel

/// A sentence that explains why a user's write has not arrived, or that confirms its arrival.
package struct Finding: Sendable, Hashable {
    package enum Severity: String, Sendable, Hashable, CaseIterable {
        /// The state is as expected.
        case info
        /// The write is delayed, and will continue without intervention.
        case warning
        /// Nothing continues until a user or an operator acts.
        case problem
    }

    /// The codes of findings, for programs.
    package enum Code: String, Sendable, Hashable, CaseIterable {
        // the organization and the user
        case organizationSuspended = "organization_suspended"
        case organizationPurging = "organization_purging"
        case userErased = "user_erased"
        case userJoined = "user_joined"
        case userJoining = "user_joining"
        case userUnknown = "user_unknown"
        case userNotLetIn = "user_not_let_in"
        // the lane
        case laneHalted = "lane_halted"
        case backOff = "back_off"
        case circuitOpen = "circuit_open"
        case noUpstream = "no_upstream"
        case upstreamPaused = "upstream_paused"
        case rateLimited = "rate_limited"
        case blocked
        case sending
        case due
        case stuck
        case nothingWaits = "nothing_waits"
        // the devices
        case noDevices = "no_devices"
        case deviceUnknown = "device_unknown"
        case deviceBehind = "device_behind"
        case deviceSilent = "device_silent"
        // the mutation that the operator asked about
        case mutationUnknown = "mutation_unknown"
        case mutationSucceeded = "mutation_succeeded"
        case mutationDiscarded = "mutation_discarded"
        case mutationStuck = "mutation_stuck"
        case mutationWaits = "mutation_waits"
        // the entity that the operator asked about
        case entityUnknown = "entity_unknown"
        case entityVisible = "entity_visible"
        case entityHidden = "entity_hidden"
        case entityUnevaluated = "entity_unevaluated"
    }

    package let severity: Severity
    package let code: Code
    /// The sentence in plain English, with ids and times.
    package let sentence: String
    /// The recommended action; nil if no action is needed.
    package let action: String?
    /// The mutation of the finding.
    package let mutation: UUID?
    /// The time at which the state ends without intervention; nil if this time is unknown.
    package let until: Timestamp?

    init(
        _ severity: Severity,
        _ code: Code,
        _ sentence: String,
        do action: String? = nil,
        mutation: UUID? = nil,
        until: Timestamp? = nil
    ) {
        self.severity = severity
        self.code = code
        self.sentence = sentence
        self.action = action
        self.mutation = mutation
        self.until = until
    }
}

/// The facts for an explanation of a user, as of one moment.
package struct UserSnapshot: Sendable {
    /// The access of the user: whether requests of the user are served.
    package enum Access: Sendable, Hashable {
        case itself
        /// The user was joined into another user, who now has all data.
        case part(of: UUID)
        /// The user is being joined with another user.
        case joining
        case erased
    }

    /// The mutation that the operator asked about.
    package struct Question: Sendable {
        package let id: UUID
        /// The mutation's record; nil if the user has no mutation with this id.
        package let record: MutationRecord?
        /// The number of open mutations before this mutation in the lane.
        package let ahead: BoundedCount
        /// The place of the outcome rule that decided the last attempt; nil if no rule did.
        package var rule: String?

        package init(id: UUID, record: MutationRecord?, ahead: BoundedCount) {
            self.id = id
            self.record = record
            self.ahead = ahead
        }
    }

    /// The entity that the operator asked about.
    package struct EntityQuestion: Sendable {
        package let user: UUID
        package let key: EntityKey
        /// The entity's type; nil for an unregistered type.
        package var type: EntityType?
        /// The entity; nil if no such entity is stored.
        package var state: EntityState?
        /// The names of the entity's channels, in the order of the templates.
        package var channels: [String] = []
        /// The grants through which the user holds channels of the entity, with their sources.
        package var grants: [(channel: String, role: ChannelRole, source: String)] = []

        package init(user: UUID, key: EntityKey) { (self.user, self.key) = (user, key) }
    }

    package var organization: OrganizationStatus
    package var access: Access
    /// Whether the organization has a record of the user.
    package var isKnown: Bool
    /// Whether the user's requests are accepted: either an operator provisioned the user, or the organization does not
    /// require provisioning.
    package var isLetIn = true
    package var backlog: Backlog
    /// The lane; nil for a user without a lane.
    package var lane: LaneState?
    package var mutation: Question?
    package var entity: EntityQuestion?
    /// The device that the operator asked about; nil for all devices.
    package var device: UUID?
    package var now: Timestamp

    package init(
        organization: OrganizationStatus,
        access: Access,
        isKnown: Bool,
        backlog: Backlog = Backlog(),
        lane: LaneState? = nil,
        mutation: Question? = nil,
        device: UUID? = nil,
        now: Timestamp
    ) {
        self.organization = organization
        self.access = access
        self.isKnown = isKnown
        self.backlog = backlog
        self.lane = lane
        self.mutation = mutation
        self.device = device
        self.now = now
    }
}

extension UserSnapshot.EntityQuestion {
    /// The finding that explains why the user sees the entity, or does not see it.
    var finding: Finding {
        let name = "\(key.type) \(key.id)"
        guard let type, let state else {
            return Finding(
                .warning,
                .entityUnknown,
                "No entity \(name) is stored, not even as deleted.",
                do: "Compare its type and server id with the app's data."
            )
        }
        let kind = state.isDeleted ? "the tombstone of \(name)" : name
        switch type.visibility {
        case .organization:
            return Finding(.info, .entityVisible, "The user sees \(kind): its type is visible to all users.")
        case .user:
            if state.owner == user {
                return Finding(.info, .entityVisible, "The user sees \(kind), as the user who created it.")
            }
            return Finding(
                .warning,
                .entityHidden,
                "The user does not see \(name): its type is visible to the creator only, \(state.owner.lowercased)."
            )
        case .channels: return findingByChannels(name, kind, state)
        }
    }

    private func findingByChannels(_ name: String, _ kind: String, _ state: EntityState) -> Finding {
        guard let stored = state.stored?.channels else {
            return Finding(
                .warning,
                .entityUnevaluated,
                "No user sees \(name) yet: the channels of its type were not evaluated for it.",
                do: "Wait for the operation of the kind evaluate, or start one for the entity type \(key.type)."
            )
        }
        var reasons = grants.prefix(Self.listed).map { "\($0.channel) (\($0.role.rawValue), from \($0.source))" }
        if stored.contains(.of(user: user)) { reasons.insert("the user's own channel (write)", at: 0) }
        if !reasons.isEmpty {
            return Finding(.info, .entityVisible, "The user sees \(kind) by \(reasons.joined(separator: ", ")).")
        }
        if stored.isEmpty {
            return Finding(
                .warning,
                .entityHidden,
                "No user sees \(name): its document gives no channel.",
                do: "Check the templates of the type and the members that they name."
            )
        }
        let list = channels.prefix(Self.listed).joined(separator: ", ")
        return Finding(
            .warning,
            .entityHidden,
            "The user does not see \(name): it is in \(list.isEmpty ? "\(stored.count) channels" : list), and the user "
                + "holds none of them.",
            do: "If the user should see it, grant one of its channels."
        )
    }

    /// The maximum number of channels in a sentence.
    private static let listed = 3
}
