import CommandSupport
import FoundationEssentials
import JSONText
import Postgres
import SyncModel
import SyncStore

/// The temporary organizations of `sluice bench`.
///
/// No user can push to these organizations over HTTP: they have random ids and no external ids, and serve only
/// provisioned users, but no user is provisioned. The benchmark pushes through the engine, which does not check whether
/// users are provisioned.
struct BenchTenants: Sendable {
    /// The first words of the organizations' names.
    static let prefix = "sluice bench"
    /// The number of organizations. There are several, because a group commit of a gateway usually contains pushes of
    /// several organizations.
    static let count = 20
    /// The seconds for which a gateway is considered running after its last heartbeat. Gateways send a heartbeat
    /// every 5 seconds.
    static let gatewaySeconds: Int64 = 20

    let administration: Administration

    /// Returns the complete name. The name contains the id, so that an organization with a similar name is not mistaken
    /// for a temporary organization.
    static func name(of organization: UUID) -> String { "\(prefix) \(organization.lowercased)" }

    /// Returns the id of an organization's user, by the user's number (0 or more). The id begins like the
    /// organization's id.
    ///
    /// ``strangerStatement`` recognizes these ids.
    static func user(_ number: UInt16, of organization: UUID) -> UUID {
        var id = organization.uuid
        (id.10, id.11, id.12, id.13) = (0xbe, 0x7c, 0, 0)
        (id.14, id.15) = (UInt8(number >> 8), UInt8(number & 0xff))
        return UUID(uuid: id)
    }

    static func newIDs() -> [UUID] { (0..<count).map { _ in UUIDv7Generator().make(at: SystemClock.now()) } }

    func create(_ ids: [UUID]) async throws(Problem) {
        for id in ids {
            var update = OrganizationUpdate(name: Self.name(of: id))
            update.settings = Array(#"{"provisioning":"explicit"}"#.utf8)
            _ = try await administration.put(id, update)
        }
    }

    /// Returns the temporary organizations that a killed run did not delete.
    ///
    /// The caller must hold the lock of ``lockStatement``. Without it, the organizations may belong to a run in
    /// progress.
    func leftovers() async throws(Problem) -> [UUID] {
        var found: [UUID] = []
        var last: UUID?
        repeat {
            let page = try await administration.organizations(like: Self.prefix, limit: 1_000, after: last)
            for organization in page.organizations where Self.isOurs(organization) {
                if try await !hasStranger(organization.id) { found.append(organization.id) }
            }
            last = page.next
        } while last != nil
        return found
    }

    /// Whether the organization has the name and the settings of a temporary organization, and no external id.
    static func isOurs(_ organization: OrganizationRow) -> Bool {
        organization.name == name(of: organization.id) && organization.settings.provisioning == .explicit
            && organization.externalIDs.isEmpty
    }

    /// Whether the organization has a user, a lane or a device that the benchmark did not create.
    private func hasStranger(_ organization: UUID) async throws(Problem) -> Bool {
        let parameters = Parameters(of: organization)
        let found = try await administration.rows(Self.strangerStatement, parameters, "look for users") {
            try $0.read("has_stranger", as: Bool.self)
        }
        return found.first ?? true
    }

    /// Purges organizations, and calls `passed` with the number of organizations that are purged so far.
    func purge(_ ids: [UUID], passed: (Int) -> Void = { _ in }) async throws(Problem) {
        for (index, id) in ids.enumerated() {
            passed(index)
            _ = try await administration.purge(id)
        }
    }

    /// The number of gateways that run on the database.
    func runningGateways() async throws(Problem) -> Int64 {
        let parameters = Parameters(Self.gatewaySeconds)
        let found = try await administration.rows(Self.gatewaysStatement, parameters, "count the gateways") {
            try $0.read("gateways", as: Int64.self)
        }
        return found.first ?? 0
    }

    /// Takes a lock that only one run at a time can have in a database. The lock ends with the connection.
    static let lockStatement = Statement(
        "bench_lock",
        "SELECT pg_try_advisory_lock(hashtextextended('sluice bench', 0)) AS is_taken"
    )

    private static let gatewaysStatement = Statement(
        "bench_gateways",
        ["seconds"],
        """
        SELECT count(*) AS gateways FROM gateways g
        WHERE g.seen_at > clock_timestamp() - :seconds::int8 * interval '1 second'
        """
    )

    private static let strangerStatement = Statement(
        "bench_stranger",
        ["organization"],
        """
        SELECT \(KnownUsers.tables.map(stranger).joined(separator: " OR ")) AS has_stranger
        """
    )

    private static func stranger(_ table: String) -> String {
        """
        EXISTS (
            SELECT 1 FROM \(table) x WHERE x.organization_id = :organization
                AND NOT starts_with(x.user_id::text, left((:organization::uuid)::text, 24) || 'be7c')
        )
        """
    }
}
