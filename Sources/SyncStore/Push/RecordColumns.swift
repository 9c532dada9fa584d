package import Postgres
package import SyncModel

/// The columns of `mutations` that make a ``MutationRecord``.
package enum RecordColumns {
    /// For a table that is called `m`.
    package static let list = MutationColumn.list(of: .record)

    /// The same without contents, for decisions that need none of them.
    package static let outline = MutationColumn.list(
        of: .record,
        except: ["response_body": "NULL::json", "error": "NULL::json"]
    )

    /// The same, from a table with the running sums of ``bytes``.
    ///
    /// The sums are `bytes_to` and `all_to`. Contents that do not fit are left out.
    ///
    /// - Parameters:
    ///   - limit: the parameter with the bytes that one request may have.
    ///   - all: the parameter with the bytes that are read together.
    package static func bounded(by limit: String, all: String) -> String {
        let fits = """
            (m.bytes <= \(WorkBounds.small)
                OR (m.bytes_to - m.bytes < \(limit)::int8 AND m.all_to - m.bytes < \(all)::int8))
            """
        let (response, error) = ("CASE WHEN \(fits) THEN m.response_body END", "CASE WHEN \(fits) THEN m.error END")
        let first = Dependencies.first(WorkBounds.blockers)
        let blockers = "CASE WHEN \(fits) THEN \(Dependencies.open) ELSE \(first) END"
        let columns = MutationColumn.list(
            of: .record,
            except: ["depends_on": blockers, "response_body": response, "error": error]
        )
        return """
            \(columns), \
            NOT \(fits) AND m.response_body IS NOT NULL AS lacks_response, \
            NOT \(fits) AND m.error IS NOT NULL AS lacks_error, \
            NOT \(fits) AND m.status = 'blocked' AND cardinality(\(Dependencies.open)) > \(WorkBounds.blockers)
                AS lacks_blockers
            """
    }

    /// The bytes of a mutation's contents and blockers, for a table that is called `x`.
    package static let bytes = "(\(contentBytes(of: "x")))::int8 AS bytes"

    static func contentBytes(of table: String) -> String {
        """
        \(RowBytes.of("\(table).response_body")) + \(RowBytes.of("\(table).error"))
            + \(RowBytes.ofIDs("\(table).depends_on"))
        """
    }

    /// Reads the columns of ``bounded(by:all:)``.
    package static func boundedRecord(_ row: inout RowReader, _ seal: LaneSeal) throws -> MutationRecord {
        let record = try record(&row, seal)
        var omitted: [String] = []
        if try row.bool("lacks_response") { omitted.append("response") }
        if try row.bool("lacks_error") { omitted.append("error") }
        if try row.bool("lacks_blockers") { omitted.append("blocked_by") }
        return omitted.isEmpty ? record : record.omitting(omitted)
    }

    /// Reads the columns of ``list``. The record names members that could not be opened, after those in `unreadable`.
    package static func record(
        _ row: inout RowReader,
        _ seal: LaneSeal,
        unreadable: [String] = []
    ) throws -> MutationRecord {
        let id = try row.uuid("id")
        let acceptedAt = try row.moment("accepted_at")
        var unreadable = unreadable
        return MutationRecord(
            id: id,
            idempotencyKey: try row.uuid("idempotency_key"),
            deviceID: try row.uuid("device_id"),
            sequenceNumber: try row.int64("sequence_number"),
            position: try row.int64("position"),
            operation: try row.choice("operation"),
            entity: try row.entity(),
            status: try row.choice("status"),
            revision: try row.int32("revision"),
            version: try row.optionalInt64("version"),
            etag: try row.optionalString("etag"),
            attemptCount: try row.int16("attempt_count"),
            nextRetryAt: try row.optionalMoment("next_retry_at"),
            dependsOn: try row.uuids("depends_on"),
            resolution: try row.optionalChoice("resolution"),
            responseStatus: try row.optionalInt16("response_status"),
            responseBody: try seal.read(json: row.optionalBytes("response_body"), .responseBody, of: id, &unreadable),
            error: try seal.read(json: row.optionalBytes("error"), .error, of: id, &unreadable),
            fingerprint: Fingerprint(
                stored: try row.bytes("fingerprint"),
                places: try row.optionalBytes("fingerprint_places")
            ),
            acceptedAt: acceptedAt,
            syncedAt: try row.optionalMoment("synced_at"),
            unreadable: unreadable
        )
    }
}
