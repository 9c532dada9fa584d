import HTTPTypes
package import JSONText
package import SyncModel
package import SyncStore

/// Reads mutations: `GET /v1/mutations/{id}` and `GET /v1/mutations`.
package struct MutationEndpoints: Sendable {
    package let store: Store
    package let longestWait: Duration

    /// Responds with one mutation. If the request has a `wait`, the response is delayed until the mutation is settled
    /// or the `wait` is over.
    package func read(_ exchange: Exchange, _ caller: Caller) async throws -> Answer {
        let id = try exchange.uuid(at: 0)
        let wait = try URLQuery(of: exchange, allowing: ["wait"]).wait(upTo: longestWait)
        let json = try await ClientPresence.reading(on: exchange, wait: wait) { wait in
            try await store.mutations.mutation(
                id,
                organization: caller.organization,
                user: caller.user,
                wait: wait,
                room: exchange.hold.room(for: ResponseMemoryLease.mutation)
            )?.json()
        }
        guard let json else { throw Refusal.notFound }
        return Answer(.ok, json: json)
    }

    /// Responds with the caller's mutations in lane order, a page at a time.
    package func list(_ exchange: Exchange, _ caller: Caller) async throws -> Answer {
        let filter = try URLQuery(of: exchange, allowing: URLQuery.mutationFilter).mutationFilter()
        try await exchange.hold.acquire()
        let page = try await BlockingWork.run {
            try await store.mutations.list(filter, organization: caller.organization, user: caller.user).json()
        }
        return Answer(.ok, json: page)
    }
}

extension MutationDetail: AnswerBody {
    package func writeMembers(to writer: inout JSONWriter) {
        // the maximum size of a response applies to lists; a single mutation is always shown completely
        var contents = AnswerContents(room: .max)
        writeMembers(&contents, at: "", to: &writer)
    }

    /// - Parameter place: the JSON Pointer to the mutation in the response.
    package func writeMembers(
        _ contents: inout AnswerContents,
        at place: @autoclosure () -> String,
        to writer: inout JSONWriter
    ) {
        record.writeResultMembers(replayed: nil, &contents, at: place(), to: &writer)
        writer.member("user_id", user)
        writer.member("device_id", record.deviceID)
        writer.member("operation", record.operation.rawValue)
        writer.member("entity_type", record.entity.type)
        writer.member("endpoint", record.isWithheld ? nil : endpoint)
        writer.member("payload", raw: payload)
        writer.member("headers", raw: headers)
        writer.member("dependency_ids", dependencyIDs)
        writer.member("priority", Int64(priority))
        writer.member("max_attempts", Int64(maxAttempts))
        writer.member("conflict_resolution", conflictResolution)
        writer.member("base_version", baseVersion)
        writer.member("last_error", lastError)
        writer.member("last_error_code", lastErrorCode.map(Int64.init))
        writer.member("created_at", createdAt.rfc3339)
        writer.member("accepted_at", record.acceptedAt.rfc3339)
        writer.member("synced_at", record.syncedAt?.rfc3339)
        writer.member("stale", isStale)
        for (column, value) in zip(MutationColumn.shown, shown) { writer.member(column.name, raw: value.utf8) }
    }
}

extension MutationPage: AnswerBody {
    package func writeMembers(to writer: inout JSONWriter) {
        // the page already ends at the maximum size, so no contents are omitted
        var contents = AnswerContents(room: .max)
        writer.member("mutations", mutations.enumerated()) { writer, mutation in
            writer.object {
                mutation.element.writeMembers(&contents, at: "/mutations/\(mutation.offset)", to: &$0)
            }
        }
        writer.member("next", next)
    }
}

extension URLQuery {
    /// The parameters of a list of mutations.
    package static let mutationFilter: Set = ["status", "device_id", "entity_type", "limit", "cursor"]

    /// The filter of a list of mutations, and the page to return.
    package func mutationFilter() throws(Problem) -> MutationFilter {
        MutationFilter(
            statuses: try statuses("status"),
            deviceID: try uuid("device_id"),
            entityType: try entityType("entity_type"),
            limit: try limit(default: 100),
            cursor: try text("cursor")
        )
    }

    /// Returns the statuses in a parameter that may be repeated or contain several values separated by commas.
    ///
    /// `rejected` is not allowed, because rejected mutations are not stored.
    package func statuses(_ name: String) throws(Problem) -> [MutationStatus] {
        let known = MutationStatus.allCases.filter { $0 != .rejected }
        var statuses: [MutationStatus] = []
        for word in list(name) {
            guard let status = known.first(where: { $0.rawValue == word }) else {
                let names = known.map(\.rawValue).joined(separator: ", ")
                throw URLQuery.invalid(name, "must be statuses of: \(names)")
            }
            statuses.append(status)
        }
        return statuses
    }

    /// Returns the statuses of id mappings in a parameter that may be repeated or contain several values separated by
    /// commas.
    package func mappingStatuses(_ name: String) throws(Problem) -> [IDMapping.Status] {
        var statuses: [IDMapping.Status] = []
        for word in list(name) {
            guard let status = IDMapping.Status(rawValue: word) else {
                let names = IDMapping.Status.allCases.map(\.rawValue).joined(separator: ", ")
                throw URLQuery.invalid(name, "must be statuses of: \(names)")
            }
            if !statuses.contains(status) { statuses.append(status) }
        }
        return statuses
    }
}
