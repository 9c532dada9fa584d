/// One read of the feed for a user in an organization with channels. This type does no I/O.
///
/// See product rule 28. The cursor's `grants` is the position up to which changes of the user's grants were applied. A
/// pull first applies the later changes of grants, one channel after the other. Then it returns the feed's changes
/// after the cursor's `position`. Each read is one ``Step``, and ``verdict(on:of:)`` evaluates the rows of a read.
public struct ChannelPull: Sendable {
    /// The cursor of the pull; nil at the beginning of a first pull.
    public let cursor: FeedCursor?
    /// The position of the feed at which the grants were read.
    private let end: Int64
    public let epoch: Int64
    private let history: GrantHistory
    private let filter: UInt64
    /// The channels to which the request is restricted; nil for all channels.
    private let requested: Set<ChannelID>?
    /// Whether the request includes the entities without channels, and the entities in the user's own channels.
    private let hasOthers: Bool
    /// The requested channels that the user holds now.
    private let held: Set<ChannelID>
    /// The requested channels that the user held at the target position of the present step; nil if the step applies no
    /// loss or gain of a channel (``FeedCursor/Application``).
    ///
    /// While the loss of a channel is applied, an entity remains on the device only if it is in one of these channels.
    /// A channel that the user gained after the target is not sufficient: the user may lose this channel again before
    /// its gain is applied, and the entity would then remain on the device.
    private let lasting: Set<ChannelID>?
    public let step: Step
    /// The position up to which all changes of grants are applied when the step begins.
    private let grants: Int64

    /// The rows to read.
    public enum Step: Sendable, Hashable {
        /// The entities of a channel that the user lost or gained.
        case apply(FeedCursor.Application)
        /// The changes after the cursor's position.
        case changes
    }

    public init(
        after cursor: FeedCursor?,
        epoch: Int64,
        asOf end: Int64,
        _ history: GrantHistory,
        filter: UInt64,
        requested: Set<ChannelID>?,
        others: Bool = false
    ) {
        let requested = others ? requested?.union(history.own) : requested
        self.cursor = cursor
        self.end = end
        self.epoch = epoch
        self.history = history
        self.filter = filter
        self.requested = requested
        hasOthers = others || requested == nil
        held = Self.counting(history.held(at: end), requested)
        (step, grants) = Self.next(after: cursor, end: end, history, requested, held)
        if case .apply(let application) = step {
            lasting = Self.counting(history.held(at: application.target), requested)
        } else {
            lasting = nil
        }
    }

    private static func counting(_ channels: Set<ChannelID>, _ requested: Set<ChannelID>?) -> Set<ChannelID> {
        requested.map(channels.intersection) ?? channels
    }

    private static func next(
        after cursor: FeedCursor?,
        end: Int64,
        _ history: GrantHistory,
        _ requested: Set<ChannelID>?,
        _ held: Set<ChannelID>
    ) -> (Step, grants: Int64) {
        guard let cursor else { return (.changes, end) }
        var (grants, application) = (cursor.grants, cursor.application)
        while true {
            let target = min(application?.target ?? end, end)
            if grants >= target { return (.changes, grants) }
            let before = counting(history.held(at: grants), requested)
            let after = counting(history.held(at: target), requested)
            let lost = before.subtracting(after).sorted().map { (isGain: false, channel: $0) }
            // channels that were lost and granted again are listed, because the device may not have their entities
            let again = before.intersection(after).filter { !history.holds($0, throughout: grants...target) }
            // a gained channel is not listed if the user has lost it again since
            let gained = after.subtracting(before).union(again).intersection(held).sorted()
                .map { (isGain: true, channel: $0) }
            let due = (lost + gained).first { change in
                guard let application else { return true }
                if change.isGain != application.isGain { return change.isGain }
                if change.channel == application.channel { return application.position < .max }
                return change.channel > application.channel
            }
            if let due {
                let isStarted = application.map { $0.channel == due.channel && $0.isGain == due.isGain } ?? false
                let position = isStarted ? application?.position ?? 0 : 0
                let next = FeedCursor.Application(
                    target: target,
                    isGain: due.isGain,
                    channel: due.channel,
                    position: position
                )
                return (.apply(next), grants)
            }
            (grants, application) = (target, nil)
        }
    }

    /// Whether the cursor was made with the grants of another user.
    public var isOfOtherReader: Bool {
        guard let reader = cursor?.reader, reader != 0 else { return false }
        return reader != history.reader
    }

    // MARK: - What to read

    /// The channels for which stays are read. A stay is the time of an entity in a channel.
    public var channels: [ChannelID] {
        switch step {
        case .apply(let application): [application.channel]
        case .changes: held.sorted()
        }
    }

    /// The lower bound of open stays, which have not ended: an open stay is read if its entity's last change is after
    /// this position.
    public var after: Int64 {
        switch step {
        case .apply(let application): application.position
        case .changes: cursor?.position ?? 0
        }
    }

    /// The upper bound of open stays, which have not ended: an open stay is read if its entity's last change is at or
    /// before this position.
    public var upTo: Int64 {
        if case .apply(let application) = step, application.isGain { return cursor?.position ?? 0 }
        return .max
    }

    /// The position after which ended stays are read; nil if no ended stays are read.
    ///
    /// During a first pull, stays that ended before the beginning of the pull are not read, because the device did not
    /// receive their entities.
    public var endedAfter: Int64? {
        switch step {
        case .apply(let application):
            application.isGain ? nil : max(application.position, cursor?.reach ?? 0)
        case .changes: cursor?.reach
        }
    }

    /// Whether the step applies the loss of a channel.
    ///
    /// Only in this case, the verdict on a stay that has not ended depends on the other channels of the entity.
    public var isLoss: Bool { if case .apply(let application) = step { !application.isGain } else { false } }

    /// Whether the step also reads the entities that are visible to the user without a channel.
    public var includesOthers: Bool { step == .changes && hasOthers }

    // MARK: - What a row means

    /// The present state of an entity.
    public struct Presence: Sendable {
        /// The entity's channels; nil for an entity of a type without channels.
        public let channels: [ChannelID]?
        /// Whether the entity is visible to the user, if its type has no channels.
        public let isSeenWithout: Bool
        public let isDeleted: Bool

        public init(channels: [ChannelID]?, isSeenWithout: Bool, isDeleted: Bool) {
            self.channels = channels
            self.isSeenWithout = isSeenWithout
            self.isDeleted = isDeleted
        }
    }

    /// A stay of an entity in one of ``channels``.
    public struct Stay: Sendable {
        public let channel: ChannelID
        public let joinedAt: Int64
        /// The position at which the stay ended; nil while it lasts.
        public let leftAt: Int64?

        public init(channel: ChannelID, joinedAt: Int64, leftAt: Int64?) {
            self.channel = channel
            self.joinedAt = joinedAt
            self.leftAt = leftAt
        }
    }

    public enum Verdict: Sendable, Hashable {
        case show
        /// Remove the entity from the device, because it is no longer visible to the user.
        case remove
        case skip
    }

    /// - Parameter presence: the present state of the entity; nil if the entity is no longer stored.
    public func verdict(on stay: Stay, of presence: Presence?) -> Verdict {
        if !isLoss, stay.leftAt == nil, held.contains(stay.channel), let presence {
            // a gained channel needs no tombstones, because the device did not have the channel's entities before
            return step != .changes && presence.isDeleted ? .skip : .show
        }
        guard !sees(presence), history.sawStay(in: stay.channel, from: stay.joinedAt, to: stay.leftAt) else {
            return .skip
        }
        return .remove
    }

    private func sees(_ presence: Presence?) -> Bool {
        guard let presence else { return false }
        guard let channels = presence.channels else { return hasOthers && presence.isSeenWithout }
        return channels.contains { held.contains($0) && lasting?.contains($0) ?? true }
    }

    // MARK: - The next cursor

    /// Returns the cursor after the step's rows have been evaluated.
    ///
    /// - Parameters:
    ///   - examined: the position of the last evaluated row; nil if there are no further rows.
    ///   - end: the feed's end when the rows were read. The user's grants must not have changed since the call of
    ///     ``init(after:epoch:asOf:_:filter:requested:others:)``.
    public func next(examined: Int64?, end: Int64) -> FeedCursor {
        var next = FeedCursor(
            epoch: epoch,
            position: 0,
            head: 0,
            filter: filter,
            grants: grants,
            reader: history.reader
        )
        switch step {
        case .apply(var application):
            next.position = cursor?.position ?? 0
            next.head = cursor?.head ?? 0
            // if there are no further rows, the channel is applied completely
            application.position = examined ?? .max
            next.application = application
        case .changes:
            let position = min(examined ?? end, end)
            let started = cursor?.head ?? end
            let isFirstPull = cursor.map { $0.position < $0.head } ?? true
            next.position = position
            next.head = max(isFirstPull ? started : position, position)
            next.grants = max(grants, end)
        }
        return next
    }

    /// Whether the cursor is at the end of the feed.
    public static func isUpToDate(_ next: FeedCursor, end: Int64) -> Bool {
        next.application == nil && next.position >= end
    }
}
