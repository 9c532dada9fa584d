package import FoundationEssentials
import JSONText
import Logging
import Metrics
package import Postgres
package import SyncModel
import Synchronization

/// Resolves issuers' names of users and organizations.
///
/// A subject's row never changes once it exists, so it is cached until it may belong to another organization: one that
/// was purged may be created again under its id, and ``Catalog/onRecreated(_:)`` reports that within five seconds.
/// Names of organizations are changed by operators, so they are read again every five seconds.
package final class Identities: Sendable {
    /// How long data that an operator may change is cached, in microseconds.
    static let lifetime: Int64 = Catalog.lifetime
    /// Subjects that are cached at most; some 300 bytes each.
    static let subjectCapacity = 50_000
    /// Names of organizations that are cached at most, unused names included.
    static let nameCapacity = 20_000

    private struct Key: Hashable {
        let organization: UUID
        let subject: Subject
    }

    private struct Named {
        /// Nil: no organization has that name.
        let organization: UUID?
        let readAt: Timestamp
    }

    private struct State {
        var users = GenerationCache<Key, UUID>(capacity: subjectCapacity)
        /// Unknown subjects in organizations where an operator admits users, with the time.
        var strangers = GenerationCache<Key, Timestamp>(capacity: nameCapacity)
        var names = GenerationCache<ExternalID, Named>(capacity: nameCapacity)
        /// Whether ids of version 8 were made here.
        var made = GenerationCache<LaneKey, Bool>(capacity: nameCapacity)
        /// Raised by every invalidation: data read before one is not cached.
        var generation = 0
    }

    private let pool: Pool
    private let now: TimeSource
    private let failure: StoreFailure
    private let ids = UUIDv8Generator()
    private let state = Mutex(State())
    private let found = Counter(label: StoreMetrics.identityLookups, dimensions: [("outcome", "found")])
    private let made = Counter(label: StoreMetrics.identityLookups, dimensions: [("outcome", "made")])
    private let unknown = Counter(label: StoreMetrics.identityLookups, dimensions: [("outcome", "unknown")])

    init(pool: Pool, now: @escaping TimeSource, failure: StoreFailure) {
        self.pool = pool
        self.now = now
        self.failure = failure
    }

    /// Cached subjects, for a gauge.
    package var remembered: Int { state.withLock { $0.users.count } }

    /// Clears the cache: after an operator's change, and a purge.
    package func invalidate() {
        state.withLock { state in
            state.users.removeAll()
            state.strangers.removeAll()
            state.names.removeAll()
            state.made.removeAll()
            state.generation += 1
        }
    }

    // MARK: - Organizations

    /// The organization with a name, at most five seconds old; nil without a match.
    package func organization(_ name: ExternalID) async throws(Problem) -> UUID? {
        if let named = cachedName(name) { return named.organization }
        let (moment, generation) = (now(), generation)
        let rows = try await run([Self.organization(name)], "look up an organization's name")[0]
        let organization = rows.count > 0 ? try read(rows, "look up an organization's name") : nil
        (organization == nil ? unknown : found).increment()
        keep(since: generation) { $0.names.insert(Named(organization: organization, readAt: moment), for: name) }
        return organization
    }

    /// The organization with a name, if it is cached; nil means unknown.
    package func cachedOrganization(_ name: ExternalID) -> UUID? { cachedName(name)?.organization }

    private func cachedName(_ name: ExternalID) -> Named? {
        let moment = now()
        return state.withLock { $0.names.find(name) }.flatMap { Self.isFresh($0.readAt, at: moment) ? $0 : nil }
    }

    // MARK: - Users

    /// Returns the user of a subject; nil if the subject has no id yet.
    ///
    /// - Throws: `user_unknown` for such a one in an organization where an operator admits users; `user_erased`.
    package func user(_ subject: Subject, in organization: Organization) async throws(Problem) -> UUID? {
        if let user = cachedUser(subject, in: organization.id) { return user }
        let isExplicit = organization.settings.provisioning == .explicit
        let key = Key(organization: organization.id, subject: subject)
        let (moment, generation) = (now(), generation)
        if isExplicit, let readAt = state.withLock({ $0.strangers.find(key) }), Self.isFresh(readAt, at: moment) {
            throw Self.strangerProblem
        }
        let what: StaticString = "look up a user's subject"
        let looked = try await run(
            [Self.find(subject, in: organization.id), Self.erased(subject, in: organization.id)],
            what
        )
        guard looked[0].count > 0 else {
            guard looked[1].count == 0 else { throw Problem.userErased }
            guard isExplicit else { return nil }
            unknown.increment()
            keep(since: generation) { $0.strangers.insert(moment, for: key) }
            throw Self.strangerProblem
        }
        let user = try read(looked[0], what)
        found.increment()
        keep(since: generation) { $0.users.insert(user, for: key) }
        return user
    }

    /// Gives a subject an id, or finds the one that it was given a moment ago.
    ///
    /// - Throws: `organization_unknown` where the organization was purged, or the user erased, a moment ago.
    package func make(_ subject: Subject, in organization: Organization) async throws(Problem) -> UUID {
        let generation = generation
        let what: StaticString = "give a user an id"
        let rows = try await run(Self.make(subject, ids.make(), in: organization.id, at: now()), what)[1]
        guard rows.count > 0 else {
            throw Problem(.organizationUnknown, "The organization of this token is unknown.")
        }
        let user = try read(rows, what)
        made.increment()
        // never the text
        let metadata: Logger.Metadata = [
            "organization": "\(organization.id.lowercased)", "user": "\(user.lowercased)",
        ]
        failure.logger.debug("User mapped", metadata: metadata)
        keep(since: generation) {
            $0.users.insert(user, for: Key(organization: organization.id, subject: subject))
        }
        return user
    }

    /// Returns the user of a subject, if it is cached; nil means unknown.
    package func cachedUser(_ subject: Subject, in organization: UUID) -> UUID? {
        state.withLock { $0.users.find(Key(organization: organization, subject: subject)) }
    }

    /// Whether an id was made here for a subject: only that subject can use it.
    ///
    /// Only ids of version 8 can be.
    package func isMade(_ user: LaneKey) async throws(Problem) -> Bool {
        if let known = isCachedAsMade(user) { return known }
        let generation = generation
        let rows = try await run(
            [Self.takenStatement(organization: user.organization, user: user.user)],
            "look up a user's subjects"
        )[0]
        let isMade = rows.count > 0
        keep(since: generation) { $0.made.insert(isMade, for: user) }
        return isMade
    }

    /// The same from the cache; nil means unknown.
    package func isCachedAsMade(_ user: LaneKey) -> Bool? {
        guard user.user.isVersion8 else { return false }
        return state.withLock { $0.made.find(user) }
    }

    private static var strangerProblem: Problem {
        Problem(.userUnknown, "The user of this token is not registered with the organization.")
    }

    // MARK: - Reading and remembering

    private var generation: Int { state.withLock { $0.generation } }

    private func keep(since generation: Int, _ insert: (inout State) -> Void) {
        state.withLock { state in
            if state.generation == generation { insert(&state) }
        }
    }

    private static func isFresh(_ readAt: Timestamp, at now: Timestamp) -> Bool {
        readAt <= now && now.microseconds - readAt.microseconds < lifetime
    }

    private func run(_ queries: [Query], _ what: StaticString) async throws(Problem) -> [Rows] {
        do {
            return try await pool.run(queries)
        } catch {
            throw failure.problem(error, doing: what)
        }
    }

    private func read(_ rows: Rows, _ what: StaticString) throws(Problem) -> UUID {
        do {
            return try rows.read(0, 0)
        } catch {
            throw failure.problem(error, doing: what)
        }
    }
}

extension Identities {
    /// Looks up the user of a subject.
    package static func find(_ subject: Subject, in organization: UUID) -> Query {
        findStatement(organization: organization, issuer: subject.issuer.string, subject: subject.text.string)
    }

    /// Gives a subject an id unless it has one, and reads which one it has then.
    ///
    /// A second transaction waits for the first one's commit and finds its id, because a statement sees what was
    /// committed before it began.
    package static func make(_ subject: Subject, _ user: UUID, in organization: UUID, at moment: Timestamp) -> [Query] {
        return [
            makeStatement(
                organization: organization,
                issuer: subject.issuer.string,
                subject: subject.text.string,
                user: user,
                now: moment
            ), find(subject, in: organization),
        ]
    }

    static func organization(_ name: ExternalID) -> Query {
        organizationStatement(issuer: name.issuer.string, external_id: name.id.string)
    }

    /// Whether a subject's user was erased.
    package static func erased(_ subject: Subject, in organization: UUID) -> Query {
        erasedStatement(organization: organization, issuer: subject.issuer.string, subject: subject.text.string)
    }

    private static let erasedText = """
        SELECT 1 FROM erasure_salts z
        CROSS JOIN LATERAL (
            SELECT 1 FROM erased_subjects x
            WHERE x.organization_id = :organization
                AND x.subject_hash = \(ErasedUsers.subjectHash(salt: "z.salt", issuer: ":issuer", subject: ":subject"))
            OFFSET 0
        ) e
        WHERE z.organization_id = :organization
        """

    private static let erasedStatement = Statement(
        "identities_erased",
        ["organization", "issuer", "subject"],
        erasedText
    )

    private static let findStatement = Statement(
        "identities_find",
        ["organization", "issuer", "subject"],
        "SELECT user_id FROM user_subjects WHERE organization_id = :organization AND issuer = :issuer AND subject = :subject"
    )

    /// Inserts a subject.
    ///
    /// Holds the organization's row, as creating a lane does: a purged organization takes no new rows. The subject of
    /// an erased user is given no other id.
    private static let makeStatement = Statement(
        "identities_make",
        ["organization", "issuer", "subject", "user", "now"],
        """
        INSERT INTO user_subjects AS s (organization_id, issuer, subject, user_id, created_at)
        SELECT :organization::uuid, :issuer::text, :subject::text, :user::uuid, :now::timestamptz
        WHERE (SELECT o.status FROM organizations o WHERE o.id = :organization FOR SHARE) <> 'purging'
            AND NOT EXISTS (\(erasedText))
        ON CONFLICT (organization_id, issuer, subject) DO NOTHING
        """
    )

    static let takenStatement = Statement(
        "identities_taken",
        ["organization", "user"],
        "SELECT 1 FROM user_subjects WHERE organization_id = :organization AND user_id = :user LIMIT 1"
    )

    private static let organizationStatement = Statement(
        "identities_organization",
        ["issuer", "external_id"],
        "SELECT organization_id FROM external_ids WHERE issuer = :issuer AND external_id = :external_id"
    )

    static let statements = [findStatement, makeStatement, takenStatement, organizationStatement, erasedStatement]
}
