package import FoundationEssentials
import JSONText
import Postgres
package import SyncModel

/// An operator action in stored form.
package struct AuditRow: Sendable {
    /// The user whom an action concerns.
    package enum User: Sendable, Hashable {
        case known(UUID)
        /// The user was erased after the action, and only a hash of the user's id remains.
        case erased(UserHash)

        /// The user's id, or the hash that remains.
        package var text: String {
            switch self {
            case .known(let id): id.lowercased
            case .erased(let hash): "erased:" + hash.name
            }
        }
    }

    static let list = """
        a.id, a.organization_id, a.at, a.actor, a.scope, a.action, a.reason, a.target, a.user_id, a.user_hash, a.into_id,
            a.into_hash, a.request_id, a.outcome
        """

    package let id: UUID
    /// The organization that the action concerns; nil if it concerns no organization.
    package let organization: UUID?
    package let at: Timestamp
    package let actor: String
    package let scope: String
    package let action: String
    package let reason: String?
    /// The target of the action, as a JSON object.
    package let target: [UInt8]
    package let user: User?
    package let into: User?
    package let requestID: String?
    /// The outcome as a JSON object; nil if the action has begun and its end is not recorded.
    package let outcome: [UInt8]?

    /// Returns nil if the row contains no action.
    init?(_ row: inout RowReader) throws {
        guard let id: UUID = try row.read("id") else { return nil }
        self.id = id
        let organization: UUID = try row.read("organization_id")
        self.organization = organization == AuditedAction.noOrganization ? nil : organization
        at = try row.read("at")
        actor = try row.read("actor")
        scope = try row.read("scope")
        action = try row.read("action")
        reason = try row.read("reason")
        target = try row.read("target")
        user = Self.user(try row.read("user_id"), try row.read("user_hash"))
        into = Self.user(try row.read("into_id"), try row.read("into_hash"))
        requestID = try row.read("request_id")
        outcome = try row.read("outcome")
    }

    private static func user(_ id: UUID?, _ hash: [UInt8]?) -> User? {
        if let id { return .known(id) }
        return hash.map { .erased(UserHash(bytes: $0)) }
    }
}

/// A filter of operator actions.
package struct AuditFilter: Sendable {
    /// The organization; nil for actions on all organizations and on no organization.
    package var organization: UUID?
    package var actor: String?
    package var action: String?
    /// The beginning of the period, in whole milliseconds.
    package var since: Timestamp?
    /// The end of the period, exclusive.
    package var until: Timestamp?

    package init(since: Timestamp? = nil) {
        self.since = since
    }
}

/// A page of the audit log.
package struct AuditPage: Sendable {
    package let acts: [AuditRow]
    /// The cursor of the next page; nil on the last page.
    package let next: UUID?

    /// Reads rows that contain the end of the scan. If any action matches, each row also contains an action.
    init(_ rows: Rows, limit: Int, window: Int) throws {
        var acts: [AuditRow] = []
        var (looked, last): (Int64, UUID?) = (0, nil)
        var isCut = false
        for var row in rows {
            looked = try row.read("looked")
            last = try row.read("last")
            isCut = try row.read("has_more")
            if let act = try AuditRow(&row) { acts.append(act) }
        }
        // there are further actions if one more than requested was read, or if the scan was cut off
        let hasMore = acts.count > limit || isCut
        self.acts = Array(acts.prefix(limit))
        next = hasMore ? self.acts.last?.id : looked == window ? last : nil
    }
}
