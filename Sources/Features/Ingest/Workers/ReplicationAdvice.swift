import Postgres
import SyncModel

/// Makes error messages about an organization's database. A message includes how an operator can correct the error.
struct ReplicationAdvice {
    let settings: ReplicationSettings

    func failure(_ error: PostgresError) -> SourceFailure {
        switch error.sqlState {
        case "55006":
            return SourceFailure(
                "Slot '\(settings.slot)' is read by another process: \(error.message). A slot has one reader at a "
                    + "time. If it is used by another gateway or program, create a separate slot.",
                isFatal: false
            )
        case "42704":
            return SourceFailure("The slot or the publication is missing: \(error.message). \(Self.creation)")
        case "42501":
            return SourceFailure(
                "The role is not allowed to do this: \(error.message). "
                    + "In the source's database run: ALTER ROLE … REPLICATION (in a managed "
                    + "database, grant the equivalent role instead, such as rds_replication)."
            )
        case "55000": return SourceFailure("The slot cannot be read: \(error.message). \(Self.creation)")
        case "42703", "42883":
            return SourceFailure("The server lacks a feature of PostgreSQL 13: \(error.message).")
        default: break
        }
        if error.kind == .decoding {
            return SourceFailure(
                "The server's messages cannot be read: \(error.message). Connect to PostgreSQL directly, and use a slot "
                    + "without two_phase, as created by SELECT pg_create_logical_replication_slot('…', 'pgoutput')."
            )
        }
        let sentence = SourceStoreMessages.sentence(error.userMessage)
        let known = Self.connecting.first { error.message.contains($0.sign) }
        if let known { return SourceFailure("\(sentence) \(known.advice)") }
        return SourceFailure("The database cannot be reached: \(sentence)", isFatal: !error.isUnavailable)
    }

    // MARK: - Events

    /// Returns the failure for an event that could not be submitted in any attempt.
    func postponed(_ event: LoggedEvent, _ reason: String) -> SourceFailure {
        SourceFailure(
            "Changes cannot be committed, starting with \(Self.name(of: event)): \(SourceStoreMessages.sentence(reason)) "
                + "The slot keeps them; the gateway retries after a pause.",
            isFatal: false
        )
    }

    /// Returns the failure for an event that the feed can never accept.
    func impossible(_ event: LoggedEvent, _ reason: String) -> SourceFailure {
        SourceFailure(
            "\(Self.name(of: event)) cannot be committed: \(SourceStoreMessages.sentence(reason)) "
                + "The slot keeps this change and later ones. Remove the table from the source's settings until "
                + "state.confirmed_lsn is past this event, make the row smaller, add the table again, and import it."
        )
    }

    private static func name(of event: LoggedEvent) -> String {
        var description = "a change"
        if case .success(let content) = event.entry.event { description = "the row with id '\(content.entityID.text)'" }
        if let table = event.table { description += " of table \(table)" }
        if let id = event.entry.eventID { description += " (event \(id))" }
        return description
    }

    // MARK: - Positions

    private static let reimport =
        "Import the tables again (sluice import), then run the source with \"from\": null "
        + "(sluice sources run --from-beginning)"

    /// Returns the failure if the stored position belongs to another database; nil if it belongs to the present
    /// database.
    func failure(of state: ReplicationState, from server: SlotInspection.Server) -> SourceFailure? {
        let difference: String
        if state.system != server.system {
            difference = "database cluster (system identifier \(server.system), was \(state.system))"
        } else if let database = state.database, database != server.database {
            difference = "database of the cluster (oid \(server.database), was \(database))"
        } else {
            return nil
        }
        return SourceFailure(
            "The URI points to a different \(difference), whose log does not continue this source's log. "
                + "Correct the secret, or: \(Self.reimport)."
        )
    }

    /// Returns the failure for a slot that is in the settings but does not exist.
    func missingSlot(after state: ReplicationState) -> SourceFailure {
        let slot = settings.slot
        let creation =
            state.slot == slot
            ? "Slot '\(slot)' no longer exists, so later changes are lost. Create it again"
            : "There is no slot '\(slot)', and a new one would lack the changes after the source's position "
                + "\(state.confirmed) in slot '\(state.slot)'. Put '\(state.slot)' into the settings, or create the slot"
        return SourceFailure(
            "\(creation) (or set create_slot), import the tables, then run the source with \"from\": null "
                + "(sluice sources run --from-beginning)."
        )
    }

    /// Returns the failure if the log from the stored position to the slot's position cannot be read; nil if no part of
    /// the log is missing.
    func failure(
        of state: ReplicationState,
        _ known: LogPosition,
        on server: SlotInspection.Server,
        _ confirmed: LogPosition
    ) -> SourceFailure? {
        let reimport = Self.reimport
        if server.end < known {
            return SourceFailure(
                "The server's log ends at \(server.end), before the source's position \(known): "
                    + "the database was reset by a restore, or by a failover that lost commits. \(reimport)."
            )
        }
        let isSameSlot = state.slot == settings.slot
        if confirmed > known, state.timeline != nil || !isSameSlot {
            let reason =
                isSameSlot
                ? "Sluice's database was restored from a backup, or another program read the slot. "
                    + "The changes in between are no longer in the log. "
                : "this slot lacks the changes in between, which slot '\(state.slot)' may have. "
                    + "Put '\(state.slot)' into the settings, or: "
            return SourceFailure(
                "Slot '\(settings.slot)' is at \(confirmed), ahead of the source's position \(known): "
                    + "\(reason)\(reimport)."
            )
        }
        return nil
    }

    // MARK: - The publication

    /// Returns the failure for changes that are missing because the publication was changed.
    ///
    /// - Parameter failure: the defect that must be corrected first.
    func gap(_ reason: String, after failure: SourceFailure? = nil) -> SourceFailure {
        let correction = failure.map { SourceStoreMessages.sentence($0.userMessage) + " Then: " } ?? ""
        return SourceFailure(
            correction
                + "Publication '\(settings.publication)' or a table in it was changed while this source followed it: "
                + "\(SourceStoreMessages.sentence(reason)) Changes since then may not be in the log, even if the "
                + "publication was corrected. \(Self.reimport)."
        )
    }

    static let creation =
        "To create them, run in the source's database: CREATE PUBLICATION … FOR TABLE …; "
        + "SELECT pg_create_logical_replication_slot('…', 'pgoutput')."

    /// Errors that a server returns while a connection is opened. These errors have no error code, and are recognized
    /// by their text.
    private static let connecting: [(sign: String, advice: String)] = [
        ("password authentication failed", "Correct the user and password in the source's secret."),
        ("no password supplied", "Add a password to the source's secret."),
        ("no pg_hba.conf entry", "Allow the role to connect from the gateway's address in the server's pg_hba.conf."),
        ("must be superuser or replication role", "In the source's database run: ALTER ROLE … REPLICATION."),
        ("permission denied to start WAL sender", "In the source's database run: ALTER ROLE … REPLICATION."),
        ("certificate verify failed", "The gateway does not trust the issuer of the server's certificate."),
        ("server does not support SSL", "Enable TLS on the server, or use another sslmode."),
    ]
}

enum SourceStoreMessages {
    /// Returns the text with a full stop.
    static func sentence(_ text: String) -> String { text.hasSuffix(".") ? text : text + "." }
}
