import FoundationEssentials
import Metrics
import Postgres
import SyncModel

/// Finds stuck mutations (``FailureSearch``).
///
/// A stuck mutation is blocked, and its dependencies lead to a mutation that only a person can settle. Stuck mutations
/// are treated as settled.
///
/// A search never throws an error, because a committed push is answered with or without the result of the search. A
/// search is limited in rows and in time, independent of the lane's length. Mutations that could not be evaluated in
/// time are treated as not settled.
struct FailureSearcher: Sendable {
    /// The maximum number of mutations from which one search starts.
    static let startLimit = 1_000
    /// The maximum number of further mutations that a search visits.
    static let wayLimit = 128
    /// The maximum number of dependencies that a search follows from each mutation.
    static let edgeLimit = 32
    /// The maximum number of open mutations that a search reads at the front of the lane.
    ///
    /// The front is searched for failed or conflicting mutations if the dependencies that were followed did not
    /// suffice.
    static let frontLimit = 500
    static let timeout: Duration = .seconds(1)

    let pool: Pool
    let failure: StoreFailure
    private let metrics = FailureSearchMetrics()

    /// Returns the stuck mutations of a push.
    func stuck(among verdicts: [PushVerdict], organization: UUID, user: UUID) async -> Set<UUID> {
        guard verdicts.contains(where: { $0.status == .blocked }) else { return [] }
        return await stuck(among: verdicts.compactMap(\.record), organization: organization, user: user)
    }

    /// Returns the stuck mutations among some mutations of a lane, if they are found in time.
    func stuck(among records: [MutationRecord], organization: UUID, user: UUID) async -> Set<UUID> {
        guard records.contains(where: { $0.status == .blocked }) else { return [] }
        let known = FailureSearch(records)
        let unknown = known.unknown
        let isCut = records.contains { $0.omitted.contains("blocked_by") }
        guard !unknown.isEmpty || isCut else { return known.stuck }
        do {
            let (stuck, isCut) = try await within(Self.timeout) {
                try await find(known, unknown, isCut, LaneKey(organization: organization, user: user))
            }
            metrics.count(isCut ? .cut : .complete)
            return stuck
        } catch {
            // if the client has disconnected, the failure is not logged
            if !Task.isCancelled {
                failure.record(error, leavingOut: "whether blocked mutations are settled")
                metrics.count(.failed)
            }
            return known.stuck
        }
    }

    /// - Parameter isCut: whether `known` lacks some mutations on which others depend.
    private func find(
        _ known: FailureSearch,
        _ unknown: [UUID],
        _ isCut: Bool,
        _ lane: LaneKey
    ) async throws -> (Set<UUID>, Bool) {
        var search = known
        let start = Array(unknown.prefix(Self.startLimit))
        let front = Parameters(of: lane)
        var walk = front
        walk.add(start)
        walk.add(start.count + Self.wayLimit)
        // `readByIndex` ensures that no plan reads all of a long lane; both statements are sent together, because a
        // round trip costs more than the second statement
        let results = try await pool.readByIndex([
            Query(Self.walkStatement, walk),
            Query(Self.frontStatement, front),
        ])
        let found = try results[0].read(FailureSearch.Step.read)
        search.add(found.map(\.step))
        let isCut =
            isCut || start.count < unknown.count || found.count >= start.count + Self.wayLimit
            || found.contains(where: \.isCut)
        guard isCut, !search.isDecided else { return (search.stuck, false) }
        search.add(troubled: try results[1].read(FailureSearch.Step.read).map(\.step))
        return (search.stuck, !search.isDecided)
    }

    // MARK: - Statements

    private static let columns = """
        m.id, m.status::text, m.position, m.entity_type, m.local_id, m.local_number, m.server_id::text,
            m.server_id_is_integer, CASE WHEN m.status = 'blocked' THEN \(Dependencies.first(edgeLimit)) ELSE '{}'::uuid[] END
                AS depends_on,
            m.status = 'blocked' AND cardinality(\(Dependencies.open)) > \(edgeLimit) AS is_cut
        """

    private static let row = """
        CROSS JOIN LATERAL (
                SELECT * FROM mutations x
                WHERE x.organization_id = :organization AND x.user_id = :user AND x.id = k.id
                OFFSET 0
            ) m
        """

    /// Follows dependencies from one blocked mutation to the next, each by its key.
    ///
    /// UNION drops mutations that were already visited. PostgreSQL evaluates a recursive query only until it has the
    /// requested number of rows.
    static let walkStatement = Statement(
        "settledness_walk",
        ["organization", "user", "ids", "limit"],
        """
        WITH RECURSIVE walk (
            id, status, position, entity_type, local_id, local_number, server_id, server_id_is_integer,
            depends_on, is_cut
        ) AS (
            SELECT \(columns)
            FROM unnest(:ids::uuid[]) AS k (id)
            \(row)
            UNION
            SELECT \(columns)
            FROM walk w
            CROSS JOIN LATERAL unnest(w.depends_on) AS k (id)
            \(row)
        )
        SELECT * FROM walk LIMIT :limit
        """
    )

    /// Reads failed and conflicting mutations at the front of the lane.
    ///
    /// The front has the first ``frontLimit`` mutations that are not final. Therefore it contains the mutation that
    /// failed first, unless too many blocked mutations precede that mutation.
    static let frontStatement = Statement(
        "settledness_front",
        ["organization", "user"],
        """
        SELECT \(columns)
        FROM (
            SELECT * FROM mutations x
            WHERE x.organization_id = :organization AND x.user_id = :user AND x.synced_at IS NULL
            ORDER BY x.position
            LIMIT \(frontLimit)
        ) m
        WHERE m.status IN ('failed', 'conflict')
        """
    )

    static let statements = [walkStatement, frontStatement]
}

extension FailureSearch.Step {
    /// Reads a row of either statement. `isCut` is true if the row lacks some dependencies of its mutation.
    fileprivate static func read(_ row: inout RowReader) throws -> (step: Self, isCut: Bool) {
        let step = Self(
            id: try row.read("id"),
            status: try row.choice("status"),
            position: try row.read("position"),
            entity: try row.entity(),
            dependsOn: try row.read("depends_on")
        )
        return (step, try row.read("is_cut", as: Bool.self))
    }
}

/// Counts the results of searches.
private struct FailureSearchMetrics: Sendable {
    enum Result: String, CaseIterable {
        /// All mutations were evaluated.
        case complete
        /// A chain of dependencies was too long to follow to its end.
        case cut
        /// The database did not answer in time, or failed.
        case failed
    }

    private let counters = Dictionary(
        uniqueKeysWithValues: Result.allCases.map { result in
            (result, Counter(label: "sluice_settledness_looks_total", dimensions: [("result", result.rawValue)]))
        }
    )

    func count(_ result: Result) {
        counters[result]?.increment()
    }
}
