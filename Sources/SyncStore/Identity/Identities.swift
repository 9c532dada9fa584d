package import FoundationEssentials
import JSONText
import Logging
import Metrics
package import Postgres
package import SyncModel
import Synchronization

/// Finds the users and organizations for the names that issuers use.
///
/// The row that maps a subject to its user never changes. It is cached until its organization is recreated, which means
/// purged and then created again with the same id. ``Catalog/onRecreated(_:)`` reports this within five seconds. Names
/// of organizations are read again after five seconds, because operators can change them.
package final class Identities: Sendable {
    /// The time for which data that an operator can change are cached, in microseconds.
    static let lifetime: Int64 = Catalog.lifetime
    /// The maximum number of cached subjects. Each subject needs about 300 bytes.
    static let subjectCapacity = 50_000
    /// The maximum number of cached names of organizations, including unknown names.
    static let nameCapacity = 20_000

    private struct Key: Hashable {
        let organization: UUID
        let subject: Subject
    }

    private struct Named {
        /// The organization; nil if no organization has the name.
        let organization: UUID?
        let readAt: Timestamp
    }

    private struct State {
        var users = GenerationCache<Key, UUID>(capacity: subjectCapacity)
        /// Subjects that were not found in organizations whose operator provisions users, with the time of the look-up.
        var strangers = GenerationCache<Key, Timestamp>(capacity: nameCapacity)
        var names = GenerationCache<ExternalID, Named>(capacity: nameCapacity)
        /// For each examined user whose id is a UUID of version 8: whether Sluice generated the id.
        var made = GenerationCache<LaneKey, Bool>(capacity: nameCapacity)
        /// The number of invalidations. Data that were read before an invalidation are not cached.
        var generation = 0
    }

    private let pool: Pool
    private let now: TimeSource
    private let failure: StoreFailure
    private let state = Mutex(State())
    private let found = Counter(label: StoreMetrics.identityLookups, dimensions: [("outcome", "found")])
    private let made = Counter(label: StoreMetrics.identityLookups, dimensions: [("outcome", "made")])
    private let unknown = Counter(label: StoreMetrics.identityLookups, dimensions: [("outcome", "unknown")])

    init(pool: Pool, now: @escaping TimeSource, failure: StoreFailure) {
        self.pool = pool
        self.now = now
        self.failure = failure
    }

    /// The number of cached subjects, for a gauge.
    package var remembered: Int { state.withLock { $0.users.count } }

    /// Clears the cache after an operator's change or a purge.
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

    /// Returns the organization with a name; nil if the name is unknown. The result is at most five seconds old.
    package func organization(_ name: ExternalID) async throws(Problem) -> UUID? {
        if let named = cachedName(name) { return named.organization }
        let (moment, generation) = (now(), generation)
        let rows = try await run([Self.organization(name)], "look up an organization's name")[0]
        let organization = rows.count > 0 ? try read(rows, "look up an organization's name") : nil
        (organization == nil ? unknown : found).increment()
        keep(since: generation) { $0.names.insert(Named(organization: organization, readAt: moment), for: name) }
        return organization
    }

    /// Returns the organization with a name from the cache; nil if it is not cached.
    package func cachedOrganization(_ name: ExternalID) -> UUID? { cachedName(name)?.organization }

    private func cachedName(_ name: ExternalID) -> Named? {
        let moment = now()
        return state.withLock { $0.names.find(name) }.flatMap { Self.isFresh($0.readAt, at: moment) ? $0 : nil }
    }

    // MARK: - Users

    /// Returns the user of a subject; nil if the subject has no id yet.
    ///
    /// - Throws: `user_unknown` if the subject has no id and the organization's operator provisions users;
    ///   `user_erased`.
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

    /// Assigns an id to a subject, or returns the id that another request has just assigned.
    ///
    /// - Throws: `organization_unknown` if the organization was just purged, or if the user was just erased.
    package func make(_ subject: Subject, in organization: Organization) async throws(Problem) -> UUID {
        let generation = generation
        let what: StaticString = "give a user an id"
        let rows = try await run(Self.make(subject, in: organization.id, at: now()), what)[2]
        guard rows.count > 0 else {
            throw Problem(.organizationUnknown, "The organization of this token is unknown.")
        }
        let user = try read(rows, what)
        made.increment()
        // the log never contains the subject's text
        let metadata: Logger.Metadata = [
            "organization": "\(organization.id.lowercased)", "user": "\(user.lowercased)",
        ]
        failure.logger.debug("User mapped", metadata: metadata)
        keep(since: generation) {
            $0.users.insert(user, for: Key(organization: organization.id, subject: subject))
        }
        return user
    }

    /// Returns the user of a subject from the cache; nil if it is not cached.
    package func cachedUser(_ subject: Subject, in organization: UUID) -> UUID? {
        state.withLock { $0.users.find(Key(organization: organization, subject: subject)) }
    }

    /// Returns whether Sluice generated a user's id for a subject. Only that subject can use such an id.
    ///
    /// Generated ids are UUIDs of version 8.
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

    /// Returns ``isMade(_:)`` from the cache; nil if it is not cached.
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

    /// Returns the queries that assign an id to a subject without an id. The third query reads the subject's id.
    ///
    /// If two transactions run these queries for one subject, the second waits for the commit of the first, and its
    /// third query reads the id that the first has assigned. This works because each statement reads all data that were
    /// committed before the statement began.
    package static func make(_ subject: Subject, in organization: UUID, at moment: Timestamp) -> [Query] {
        return [
            makeSalt(for: organization),
            makeStatement(
                organization: organization,
                issuer: subject.issuer.string,
                subject: subject.text.string,
                now: moment
            ), find(subject, in: organization),
        ]
    }

    /// Returns the query that creates an organization's secret salt if it is missing.
    ///
    /// Ids of subjects and hashes of erased subjects depend on this salt.
    package static func makeSalt(for organization: UUID) -> Query {
        let salt = (0..<32).map { _ in UInt8.random(in: .min ... .max) }
        return saltStatement(organization: organization, salt: PostgresBytes(salt))
    }

    /// SQL for the id that a subject gets at its first token.
    ///
    /// The id is computed from the subject, because a document can grant channels to a subject before the subject's
    /// first token. The salt is secret, so that no issuer can put the id of another issuer's subject into a token.
    package static func id(salt: String, issuer: String, subject: String) -> String {
        // the byte 1 separates these ids from the hashes of erased subjects, because no issuer's name begins with this
        // byte
        let hash = ErasedUsers.subjectHash(salt: "\(salt) || '\\x01'::bytea", issuer: issuer, subject: subject)
        let digits = "encode(substring(\(hash) FOR 16), 'hex')"
        return "overlay(overlay(\(digits) PLACING '8' FROM 13) PLACING '8' FROM 17)::uuid"
    }

    static func organization(_ name: ExternalID) -> Query {
        organizationStatement(issuer: name.issuer.string, external_id: name.id.string)
    }

    /// Returns the query that reads whether a subject's user was erased.
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

    private static let saltStatement = Statement(
        "identities_salt",
        ["organization", "salt"],
        """
        INSERT INTO erasure_salts AS s (organization_id, salt)
        SELECT :organization::uuid, :salt::bytea
        WHERE (SELECT o.status FROM organizations o WHERE o.id = :organization FOR SHARE) <> 'purging'
        ON CONFLICT (organization_id) DO NOTHING
        """
    )

    /// Inserts a subject.
    ///
    /// The statement locks the organization's row, as the creation of a lane does, because a purged organization
    /// accepts no new rows. If the subject's user was erased, the subject gets no other id.
    private static let makeStatement = Statement(
        "identities_make",
        ["organization", "issuer", "subject", "now"],
        """
        INSERT INTO user_subjects AS s (organization_id, issuer, subject, user_id, created_at)
        SELECT x.organization_id, :issuer::text, :subject::text,
            \(id(salt: "x.salt", issuer: ":issuer", subject: ":subject")), :now::timestamptz
        FROM erasure_salts x
        WHERE x.organization_id = :organization
            AND (SELECT o.status FROM organizations o WHERE o.id = :organization FOR SHARE) <> 'purging'
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

    static let statements = [
        findStatement, saltStatement, makeStatement, takenStatement, organizationStatement, erasedStatement,
    ]
}
