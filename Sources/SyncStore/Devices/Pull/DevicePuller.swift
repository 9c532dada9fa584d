package import FoundationEssentials
import JSONText
import Metrics
import Postgres
package import SyncModel

/// Returns the feed in a device's local ids (specification 002 in docs/spec).
///
/// Local ids are numbers. Entities that the device has not seen yet get the next free numbers.
///
/// Such an assignment is tentative. The page's cursor contains a number that identifies the page. A pull from this
/// cursor confirms the page's assignments. A pull that repeats the previous cursor does not confirm them, and gets new
/// assignments.
///
/// The feed is read before the device's local ids. A push commits an entity and its local id together. Therefore the
/// local id of every entity that the device created is found.
package struct DevicePuller: Sendable {
    /// The name of the metric that counts the local ids that were assigned to devices.
    package static let assigned = "sluice_local_ids_assigned_total"

    let feed: FeedReader
    let devices: DeviceRegistry
    let pool: Pool
    let catalog: Catalog
    let failure: StoreFailure
    private let pages: UnconfirmedAssignments
    private let cache: NumberCache
    private let counter = Counter(label: Self.assigned)

    init(
        feed: FeedReader,
        devices: DeviceRegistry,
        pool: Pool,
        catalog: Catalog,
        now: @escaping TimeSource,
        failure: StoreFailure
    ) {
        self.feed = feed
        self.devices = devices
        self.pool = pool
        self.catalog = catalog
        self.failure = failure
        pages = UnconfirmedAssignments(pool: pool)
        cache = NumberCache(now: now)
    }

    private struct Call {
        let request: PullRequest
        let device: DeviceKey
        let organization: Organization

        var feed: FeedRequest {
            FeedRequest(
                organization: device.lane.organization,
                user: device.lane.user,
                entityTypes: [],
                channels: request.channels,
                includesOthers: request.includesOthers && request.channels != nil,
                limit: request.limit
            )
        }

        /// The number of the newest page that the device has.
        func page(_ since: FeedCursor?) throws(Problem) -> Int64 {
            guard let text = request.received else { return request.channels == nil ? since?.page ?? 0 : 0 }
            guard let cursor = FeedCursor(text) else {
                throw .invalidParameter("received is not a cursor of this feed", pointer: "/received")
            }
            return cursor.page
        }
    }

    /// Returns a page of changes in a device's local ids.
    ///
    /// - Parameters:
    ///   - device: any id; an unknown device is registered when it gets its first local id.
    ///   - wait: the time to wait for a change if the page is empty.
    ///   - room: the memory budget in which bytes for the rows are reserved before the rows are read.
    /// - Throws: `invalid_request` for an invalid cursor, and for counters of types without local ids;
    ///   `validation_failed` (rule `device_limit`) if a new device exceeds the maximum, or if a type has no local ids
    ///   left. `cursor_expired` is also thrown if a page's assignments are no longer stored.
    package func pull(
        _ request: PullRequest,
        device: UUID,
        organization: Organization,
        user: UUID,
        wait: Duration = .zero,
        room: PagePermit = .unbounded
    ) async throws(Problem) -> FeedPage {
        let key = DeviceKey(lane: LaneKey(organization: organization.id, user: user), id: device)
        let call = Call(request: request, device: key, organization: organization)
        let cursor = try call.feed.cursor(request.since, pointer: "/since")
        let base = try call.page(cursor)
        do {
            try Self.check(request, try await catalog.entry(organization.id).types)
            return try await feed.view(after: cursor, of: call.feed.interest, wait: wait, room: room) {
                cursor throws(Problem) in
                do {
                    return try await find(call, after: cursor, base)
                } catch {
                    throw failure.problem(error, doing: "pull")
                }
            }
        } catch {
            throw failure.problem(error, doing: "pull")
        }
    }

    /// Rejects counters of types without local ids. Unregistered types are accepted, because entities of such a type
    /// can still appear.
    private static func check(_ request: PullRequest, _ types: [ByteExactString: EntityType]) throws(Problem) {
        let other = request.nextLocalIDs.keys.map(\.string).sorted().first {
            types[$0].map { $0.idSpace != .device } ?? false
        }
        guard let other else { return }
        let detail = "entities of type '\(other)' have no local ids on devices, so this type has no counter"
        let pointer = PullRequest.pointer(toCounterOf: other)
        throw Problem(.invalidRequest, pointer: pointer, rule: Rule.entityType, detail)
    }

    // MARK: - One attempt

    /// - Parameter base: the number of the newest page that the device has.
    private func find(_ call: Call, after cursor: FeedCursor?, _ base: Int64) async throws -> FeedPage {
        for _ in 0..<UnconfirmedAssignments.attempts {
            if let page = try await fetchOnce(call, after: cursor, base) { return page }
        }
        throw Problem.overloaded("the device has several pulls in progress")
    }

    /// Returns a page; nil if a concurrent pull of the device stored its page first.
    private func fetchOnce(_ call: Call, after cursor: FeedCursor?, _ base: Int64) async throws -> FeedPage? {
        let others = [UnconfirmedAssignments.find(of: call.device)]
        let (reading, found) = try await feed.read(call.feed, after: cursor, excluding: others)
        let known = try found.first.map(UnconfirmedAssignments.known) ?? UnconfirmedAssignments.Known(pages: [])
        var state = known.state(of: base)
        switch reading {
        case .expired(let isOfThisEpoch):
            // a device keeps its local ids even if it reads the feed again from the beginning
            if isOfThisEpoch { _ = try await confirm(state, base, call.device) }
            throw expired(call.device)
        case .page(let page):
            let isConfirming = state == .outstanding
            state = try await confirm(state, base, call.device)
            if state == .lost { throw expired(call.device) }
            return try await view(page, call, base, isConfirming ? .confirmed(base) : known)
        }
    }

    private func expired(_ device: DeviceKey) -> Problem {
        FeedReader.expired(snapshot: "/v1/devices/\(device.id.lowercased)/pull")
    }

    private func confirm(
        _ state: PageState,
        _ page: Int64,
        _ device: DeviceKey
    ) async throws -> PageState {
        guard state == .outstanding else { return state }
        return try await pages.confirm(page, of: device)
    }

    private func view(
        _ page: FeedPage,
        _ call: Call,
        _ base: Int64,
        _ known: UnconfirmedAssignments.Known
    ) async throws -> FeedPage? {
        let types = try await types(of: page, in: call.device.lane.organization)
        let stamp = NumberCache.Stamp(epoch: page.next.epoch, horizon: page.horizon)
        let numbers = cache.numbers(of: call.device, at: stamp)
        func read() async throws -> PulledPage {
            try await catalog.opening(call.device.lane.organization) { seal in
                try numbers.find { known in
                    try PulledPage(page, types, counters: call.request.nextLocalIDs, known, seal)
                }
            }
        }
        var pulled = try await read()
        if numbers.isWorthLoading(missing: pulled.planner.nameCount) {
            try await load(numbers, of: call.device)
            pulled = try await read()
        }
        let counters = call.request.nextLocalIDs.compactMapValues(\.self)
        var rivals = UnconfirmedPages()
        try await number(&pulled.planner, of: call.device, numbers) {
            guard known.areOutstanding else { return rivals }
            rivals = try await pages.rivals(base, counters, of: call.device)
            return rivals
        }
        var next = pulled.next
        next.page = base
        let assignments = pulled.planner.assignments
        if let page = assignments.isEmpty ? nil : rivals.page(with: assignments) {
            next.page = page
        } else if !assignments.isEmpty {
            next.page = known.nextNumber
            // these are the device's first local ids, so the device may not be registered yet, and may exceed the
            // user's maximum number of devices
            if known.pages.isEmpty {
                _ = try await devices.register(
                    call.device.id,
                    organization: call.organization,
                    user: call.device.lane.user
                )
            }
            let new = UnconfirmedAssignments.New(
                number: next.page,
                base: base,
                counters: counters,
                assignments: assignments
            )
            guard try await pages.keep(new, superseding: rivals.superseded, of: call.device) else { return nil }
            counter.increment(by: assignments.count)
        }
        return pulled.page(next: next)
    }

    /// Returns the organization's types.
    ///
    /// The id space of a type cannot change once the type is in use, and every type that has an entity is in use. If a
    /// type on the page is not in use according to the cache, the cache may be outdated, because another replica may
    /// have used the type.
    private func types(of page: FeedPage, in organization: UUID) async throws -> [ByteExactString: EntityType] {
        let types = try await catalog.entry(organization).types
        if PulledPage.types(page).allSatisfy({ types[$0]?.isInUse == true }) { return types }
        catalog.invalidate(organization)
        return try await catalog.entry(organization).types
    }

    // MARK: - Local ids

    /// Reads all local ids of a device, up to the maximum that the cache keeps for a device.
    private func load(_ numbers: DeviceNumbers, of device: DeviceKey) async throws {
        let rows = try await pool.run([
            PullStatements.allNumbers(
                organization: device.lane.organization,
                user: device.lane.user,
                device: device.id,
                limit: Int64(NumberCache.deviceLimit)
            )
        ])[0]
        for var row in rows {
            let type: String = try row.read("entity_type")
            let ids = zip(try row.read("server_ids", as: [String].self), try row.read("local_ids", as: [Int64].self))
            numbers.record(ids.lazy.map { (type: type, id: $0, number: $1) })
        }
        numbers.record([], isAll: true)
        cache.trim()
    }

    /// Finds the device's local ids, and assigns the missing local ids.
    ///
    /// - Parameter rivals: returns the assignments of other outstanding pages (``UnconfirmedAssignments``). It is
    ///   called only if local ids are assigned.
    private func number(
        _ planner: inout PullPlanner,
        of device: DeviceKey,
        _ numbers: DeviceNumbers,
        _ rivals: () async throws -> UnconfirmedPages
    ) async throws {
        if !planner.types.isEmpty {
            for start in stride(from: 0, to: planner.nameCount, by: PulledPage.nameLimit) {
                let part = start..<min(start + PulledPage.nameLimit, planner.nameCount)
                let parameters = planner.numbered(Parameters(of: device), part)
                for var row in try await pool.run([Query(PullStatements.numbers, parameters)])[0] {
                    let places: [Int64] = try row.read("places") ?? []
                    planner.addLocalIDs(
                        try row.read("local_ids", as: [Int64]?.self) ?? [],
                        at: places.map { $0 + Int64(start) }
                    )
                }
            }
            numbers.record(planner.known)
            cache.trim()
        }
        planner.chooseAssignees()
        let open = planner.open
        guard !open.isEmpty else { return }
        let counts = open.map { Int64($0.count > 0 ? $0.count + FreeLocalIDs.slack : 0) }
        var parameters = Parameters(of: device, open.map(\.type))
        parameters.add(open.map(\.base))
        parameters.add(counts)
        let rows = try await pool.run([Query(PullStatements.taken, parameters)])[0]
        var free: [ByteExactString: FreeLocalIDs] = [:]
        for var row in rows {
            let type: String = try row.read("entity_type")
            guard let place = open.firstIndex(where: { $0.type == type }) else { continue }
            let highest: Int64? = try row.read("highest")
            let taken: [Int64] = try row.read("taken")
            free[type] = FreeLocalIDs(
                from: open[place].base,
                taken: taken,
                isWhole: taken.count < counts[place],
                highest: highest
            )
        }
        try planner.assign(free, planner.hasAssignees ? try await rivals() : UnconfirmedPages())
    }
}

extension PullPlanner {
    /// Returns the parameters that select a part of the page's entities. The range counts the entities of all types
    /// together.
    fileprivate func numbered(_ device: Parameters, _ part: Range<Int>) -> Parameters {
        var parameters = device
        var (names, first, last, ids): ([String], [Int32], [Int32], [String]) = ([], [], [], [])
        var start = 0
        for type in types {
            let own = (start..<start + type.ids.count).clamped(to: part)
            if !own.isEmpty {
                names.append(type.name)
                first.append(Int32(ids.count) + 1)
                ids += type.ids[own.lowerBound - start..<own.upperBound - start].map(\.text)
                last.append(Int32(ids.count))
            }
            start += type.ids.count
        }
        parameters.add(names)
        parameters.add(first)
        parameters.add(last)
        parameters.add(ids)
        return parameters
    }
}
