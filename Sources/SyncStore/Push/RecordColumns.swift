import FoundationEssentials
package import Postgres
package import SyncModel

/// The columns of `mutations` that make a ``MutationRecord``.
package enum RecordColumns {
    /// The columns, for a table called `m`.
    package static let list = MutationColumn.list(of: .record)

    /// The columns without contents, for decisions that do not depend on contents.
    package static let outline = MutationColumn.list(
        of: .record,
        except: ["response_body": "NULL::json", "error": "NULL::json"]
    )

    /// Returns the columns, from a table with the running sums `bytes_to` and `all_to` of ``bytes(of:by:upTo:)``.
    ///
    /// Contents beyond the limits are left out.
    ///
    /// - Parameters:
    ///   - limit: the parameter with the maximum bytes for one request.
    ///   - all: the parameter with the maximum bytes for all requests together.
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

    /// The columns of ``bounded(by:all:)`` in stored form, for a table called `x`.
    static let stored =
        (MutationColumn.all.filter { $0.parts.contains(.record) }.map { "x.\($0.name)" } + ["x.blocked_on"])
        .joined(separator: ", ")

    /// Returns SQL for the bytes of a mutation's contents and blockers.
    ///
    /// - Parameters:
    ///   - row: the alias of a row of the table expression `found`.
    ///   - order: the columns of `found` that order the rows (``RowBytes/Rows``).
    ///   - limit: the parameter with the number of bytes after which contents are no longer measured.
    static func bytes(of row: String, by order: String..., upTo limit: String) -> String {
        let measured = RowBytes.Rows(
            table: "found",
            order: order,
            columns: ["response_body", "error"],
            limit: "\(limit)::int8"
        )
        return """
            (\(RowBytes.of(measured, in: row)) + \(RowBytes.ofIDs("\(row).depends_on")))::int8
            """
    }

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
        if try row.read("lacks_response") { omitted.append("response") }
        if try row.read("lacks_error") { omitted.append("error") }
        if try row.read("lacks_blockers") { omitted.append("blocked_by") }
        return omitted.isEmpty ? record : record.omitting(omitted)
    }

    /// Reads the columns of ``list``. The record lists the members that cannot be decrypted, after the members in
    /// `unreadable`.
    package static func record(
        _ row: inout RowReader,
        _ seal: LaneSeal,
        unreadable: [String] = []
    ) throws -> MutationRecord {
        let id: UUID = try row.read("id")
        let acceptedAt: Timestamp = try row.read("accepted_at")
        let origin = MutationRecord.Origin(
            id: id,
            idempotencyKey: try row.read("idempotency_key"),
            deviceID: try row.read("device_id"),
            sequenceNumber: try row.read("sequence_number"),
            position: try row.read("position"),
            operation: try row.choice("operation"),
            acceptedAt: acceptedAt
        )
        let entity = try row.entity()
        var state = MutationRecord.State(try row.choice("status"))
        state.revision = try row.read("revision")
        state.version = try row.read("version")
        state.etag = try row.read("etag")
        state.attemptCount = try row.read("attempt_count")
        state.nextRetryAt = try row.read("next_retry_at")
        state.dependsOn = try row.read("depends_on")
        state.resolution = try row.optionalChoice("resolution")
        var (response, gaps) = (MutationRecord.Response(), MutationRecord.Gaps())
        gaps.unreadable = unreadable
        response.responseStatus = try row.read("response_status")
        response.responseBody = try seal.read(json: row.read("response_body"), .responseBody, of: id, &gaps.unreadable)
        response.error = try seal.read(json: row.read("error"), .error, of: id, &gaps.unreadable)
        let fingerprint = Fingerprint(
            stored: try row.read("fingerprint"),
            places: try row.read("fingerprint_places")
        )
        state.syncedAt = try row.read("synced_at")
        var parts = MutationRecord.Parts(origin, entity: entity, state, fingerprint: fingerprint)
        (parts.response, parts.gaps) = (response, gaps)
        return MutationRecord(parts)
    }
}
