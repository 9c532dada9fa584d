package import JSONText
import SyncHTTP
package import SyncModel
import SyncStore

extension SourceRow: AnswerBody {
    package var expectedBytes: Int { 512 + settings.count }

    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("name", name)
        writer.member("kind", kind.rawValue)
        writer.member("status", isEnabled ? "enabled" : "disabled")
        writer.member("settings", raw: settings)
        writer.member("previous_secret_until", previousSecretUntil?.rfc3339)
        writer.member("activity", activity.rawValue)
        writer.member("state", raw: state)
        writer.member("next_run_at", nextRunAt?.rfc3339)
        writer.member("last_success_at", lastSuccessAt?.rfc3339)
        writer.member("last_event_at", lastEventAt?.rfc3339)
        writer.member("failure_count", Int64(failureCount))
        writer.member("failing_since", failingSince?.rfc3339)
        writer.member("last_error", lastError)
        writer.member("created_at", createdAt.rfc3339)
        writer.member("updated_at", updatedAt.rfc3339)
    }
}

/// The events that a source would make of a body.
package struct SourceTrial: AnswerBody {
    package let events: MappedEvents

    package init(events: MappedEvents) {
        self.events = events
    }

    /// - Parameters:
    ///   - messageID: of a message that is sent.
    ///   - mapping: to be tried instead of the source's own.
    /// - Throws: why nothing can be made of it, with pointers below `/body`.
    package init(
        of body: [UInt8],
        from source: SourceRow,
        messageID: String,
        by mapping: SourceMapping? = nil,
        limits: IntakeLimits
    ) throws(Problem) {
        guard let mapping = mapping ?? SourceSettings(source.kind, stored: source.settings)?.mapping else {
            let detail = "a source of kind \(source.kind.rawValue) has no mapping, so it cannot be tested"
            throw Problem(.validationFailed, pointer: "/mapping", rule: Rule.required, detail)
        }
        let tree: JSONTree
        do throws(JSONParseError) {
            tree = try JSONTree(parsing: body)
        } catch {
            throw Problem(jsonError: error, limit: JSONLimits().maximumBytes)
        }
        do throws(Problem) {
            events = try mapping.map(
                tree.root,
                id: source.kind == .webhook ? .message(ByteExactString(messageID)) : .content,
                limits: limits
            )
        } catch {
            var problem = error
            problem.errors = problem.errors.map { detail in
                var detail = detail
                detail.pointer = "/body" + detail.pointer
                return detail
            }
            throw problem
        }
    }

    package var expectedBytes: Int { 64 + events.entries.count * 512 }

    package func writeMembers(to writer: inout JSONWriter) {
        writer.name("events")
        writer.beginArray()
        for (entry, origin) in zip(events.entries, events.origins) {
            writer.beginObject()
            writer.member("pointer", origin.place)
            writer.member("rule", Int64(origin.rule))
            switch entry.event {
            case .success(let event):
                writer.name("event")
                event.write(to: &writer)
                writer.member(null: "error")
            case .failure(let problem):
                writer.member(null: "event")
                writer.name("error")
                problem.write(to: &writer)
            }
            writer.endObject()
        }
        writer.endArray()
        writer.member("ignored", Int64(events.ignored))
    }
}

extension IngestEvent {
    /// As a program would send it.
    fileprivate func write(to writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("event_id", id)
        writer.member("entity_type", entityType)
        writer.member("id", entityID)
        writer.member("version", mark.version)
        writer.member("occurred_at", mark.occurredAt?.rfc3339)
        writer.member("operation", operation.rawValue)
        writer.member("document", raw: document)
        writer.member("owner", owner)
        writer.member("causing_key", causingKey)
        writer.endObject()
    }
}
