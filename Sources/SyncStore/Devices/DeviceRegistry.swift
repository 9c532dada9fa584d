package import FoundationEssentials
import Postgres
package import SyncModel

/// Registers devices of users. Registration is optional, because a push creates its device.
package struct DeviceRegistry: Sendable {
    let pool: Pool
    let catalog: Catalog
    let now: TimeSource
    let failure: StoreFailure
    /// The maximum number of a user's devices.
    let limit: Int

    /// Registers a device, or records activity of a known device.
    ///
    /// The device's watermark is not changed.
    ///
    /// - Returns: whether the device is new, and the device.
    /// - Throws: `validation_failed` (rule `device_limit`) if the user already has the maximum number of devices;
    ///   `organization_unknown` or `user_unknown` if the organization or user was just deleted.
    package func register(
        _ device: UUID,
        organization: Organization,
        user: UUID
    ) async throws(Problem) -> (isNew: Bool, value: DeviceRow) {
        let moment = now()
        let lane = Parameters(of: LaneKey(organization: organization.id, user: user))
        var key = lane
        key.add(device)
        var write = key
        write.add(moment)
        var newcomer = lane
        newcomer.add(moment)
        do {
            let types = try await catalog.entry(organization.id).types.values.filter { $0.idSpace == .device }
            var counters = key
            counters.add(types.map(\.name).sorted())
            let found = try await pool.run([
                Query(Self.touchStatement, write), Query(Self.highestStatement, counters),
            ])
            let next = try Self.nextLocalIDs(found[1])
            if let known = try found[0].read({ try DeviceRow(device, next, &$0) }).first { return (false, known) }
            var make = write
            make.add(limit)
            let owner = LaneKey(organization: organization.id, user: user)
            let isUserMade = organization.settings.provisioning == .onFirstPush
            return try await pool.transaction { [newcomer, key, make] connection in
                // pushes and this registration add devices under the lane's lock; the count is a statement after the
                // lock, so it includes the devices that the previous holder of the lock committed
                var queries = [LaneRows.make(owner), LaneRows.lock([owner])]
                if isUserMade { queries.append(Query(Self.makeUserStatement, newcomer)) }
                queries.append(Query(Self.makeDeviceStatement, make))
                let results = try await connection.run(queries)
                // the error rolls the transaction back
                guard results[1].count > 0 else { throw NoLane(owner: owner) }
                let made = results[queries.count - 1]
                if let made = try made.read({ try DeviceRow(device, next, &$0) }).first { return (true, made) }
                let found = try await connection.run(Query(Self.stateStatement, key))
                return (false, try row(device, next, found))
            }
        } catch let missing as NoLane {
            // the reason is read only after the transaction has ended, because a read before that would need a second
            // connection
            throw await catalog.reasonForNoLane(of: missing.owner, taking: "devices")
        } catch {
            throw failure.problem(error, doing: "register a device")
        }
    }

    /// The user has no lane, and no lane can be created.
    ///
    /// The organization is being purged, or the user was joined into another user.
    private struct NoLane: Error {
        let owner: LaneKey
    }

    /// Returns the existing device after an insertion had no effect. If there is no such device, throws the reason why
    /// it must not be created.
    private func row(_ device: UUID, _ next: [(type: String, next: Int64?)], _ rows: Rows) throws -> DeviceRow {
        guard var row = rows.first, try row.read("status", as: String.self) == OrganizationStatus.active.rawValue else {
            throw Problem(.organizationUnknown, "the organization does not accept devices")
        }
        let isUserKnown: Bool = try row.read("is_user_known")
        if !row.isNextNull { return try DeviceRow(device, next, &row) }
        guard isUserKnown else {
            throw Problem(.userUnknown, "The user of this token is not registered with the organization.")
        }
        throw Problem.oneDeviceTooMany(limit: limit, pointer: "")
    }

    /// Returns the device's next local id of each type.
    ///
    /// The next local id is one more than the type's highest id, which may come from the device or the gateway.
    private static func nextLocalIDs(_ rows: Rows) throws -> [(type: String, next: Int64?)] {
        try rows.read {
            (try $0.read("entity_type", as: String.self), FreeLocalIDs.next(after: try $0.read("highest")))
        }
    }

    // MARK: - Statements

    /// Reads the highest local id of a device for each type.
    static let highestStatement = Statement(
        "devices_highest_ids",
        ["organization", "user", "device", "entity_types"],
        """
        SELECT k.entity_type, (
            SELECT x.local_id FROM local_ids x
            WHERE x.organization_id = :organization AND x.user_id = :user AND x.device_id = :device AND x.entity_type = k.entity_type
            ORDER BY x.local_id DESC LIMIT 1) AS highest
        FROM unnest(:entity_types::text[]) AS k (entity_type)
        """
    )

    static let touchStatement = Statement(
        "devices_touch",
        ["organization", "user", "device", "now"],
        """
        UPDATE devices AS d
        SET last_seen_at = :now
        WHERE d.organization_id = :organization AND d.user_id = :user AND d.device_id = :device
        RETURNING \(DeviceRow.list)
        """
    )

    /// Creates the user if it is missing, as a first push does.
    ///
    /// The statement locks the organization's row, as the creation of a lane does, because a purged organization
    /// accepts no new rows. If the creation of the user's lane was refused, the user is not created either.
    static let makeUserStatement = Statement(
        "devices_make_user",
        ["organization", "user", "now"],
        """
        INSERT INTO users AS u (organization_id, user_id, created_at)
        SELECT :organization::uuid, :user::uuid, :now::timestamptz
        WHERE CASE
            WHEN NOT EXISTS (SELECT 1 FROM users x WHERE x.organization_id = :organization AND x.user_id = :user)
            THEN (SELECT o.status FROM organizations o WHERE o.id = :organization FOR SHARE) = 'active'
                AND (SELECT l.user_id FROM lanes l WHERE l.organization_id = :organization AND l.user_id = :user) IS NOT NULL
        END
        ON CONFLICT (organization_id, user_id) DO NOTHING
        """
    )

    static let makeDeviceStatement = Statement(
        "devices_make",
        ["organization", "user", "device", "now", "limit"],
        """
        INSERT INTO devices AS d (organization_id, user_id, device_id, accepted_sequence, created_at, last_seen_at)
        SELECT :organization::uuid, :user::uuid, :device::uuid, 0, :now::timestamptz, :now
        WHERE CASE
            WHEN EXISTS (SELECT 1 FROM users u WHERE u.organization_id = :organization AND u.user_id = :user)
                AND EXISTS (SELECT 1 FROM lanes l WHERE l.organization_id = :organization AND l.user_id = :user)
                AND (SELECT count(*) FROM (
                    SELECT 1 FROM devices x WHERE x.organization_id = :organization AND x.user_id = :user LIMIT :limit) k) < :limit
            THEN (SELECT o.status FROM organizations o WHERE o.id = :organization FOR SHARE) = 'active'
        END
        ON CONFLICT (organization_id, user_id, device_id) DO NOTHING
        RETURNING \(DeviceRow.list)
        """
    )

    /// Reads the reason why a device was not created.
    static let stateStatement = Statement(
        "devices_state",
        ["organization", "user", "device"],
        """
        SELECT o.status,
            EXISTS (SELECT 1 FROM users u WHERE u.organization_id = :organization AND u.user_id = :user) AS is_user_known,
            \(DeviceRow.list)
        FROM organizations o
        LEFT JOIN devices d ON d.organization_id = :organization AND d.user_id = :user AND d.device_id = :device
        WHERE o.id = :organization
        """
    )

    static let statements = [
        highestStatement, touchStatement, makeUserStatement, makeDeviceStatement, stateStatement,
    ]
}

/// A device, with the values that its user sees.
package struct DeviceRow: Sendable {
    package let id: UUID
    package let acceptedSequence: Int64
    package let createdAt: Timestamp
    package let lastSeenAt: Timestamp
    /// The next local id that the device assigns, by entity type; nil if no local id is left.
    package let nextLocalIDs: [(type: String, next: Int64?)]

    /// The columns, for a table `devices` with the alias `d`.
    static let list = "d.accepted_sequence, d.created_at, d.last_seen_at"

    /// Reads the columns of ``list``.
    init(_ id: UUID, _ nextLocalIDs: [(type: String, next: Int64?)], _ row: inout RowReader) throws {
        self.id = id
        self.nextLocalIDs = nextLocalIDs
        acceptedSequence = try row.read("accepted_sequence")
        createdAt = try row.read("created_at")
        lastSeenAt = try row.read("last_seen_at")
    }
}
