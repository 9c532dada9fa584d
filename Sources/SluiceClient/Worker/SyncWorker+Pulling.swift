import Foundation
import GRDB

/// The stage that pulls changes to the phone.
extension SyncWorker {
    func pull() async throws {
        guard isPullDue else { return }
        do {
            try await pullUntilUpToDate()
        } catch {
            requestPull()
            throw error
        }
    }

    private func pullUntilUpToDate() async throws {
        let types = map.entities.map(\.entityType).sorted().joined(separator: ",")
        var (hasStartedOver, isFirst) = (false, true)
        while true {
            let (feed, device, numbers) = try await write { [map, isFirst] db, now in
                // if the app now synchronizes other types or channels, everything is pulled again, and existing data
                // are kept
                let filter = Feed.Filter(types: types, channels: try Subscriptions.channels(db))
                if try Feed.read(db).filter != filter { try Feed.startOver(filter, db, now: now) }
                let feed = try Feed.read(db)
                if isFirst || feed.cursor == nil { try Feed.markOutdated(db) }
                return (feed, try Device.id(db), try DeviceNumbers(map, db).next())
            }
            isFirst = false
            status.update { $0.phase = .pulling }
            // called before the request, so that an event during the request causes another pull: the response may lack
            // the change that the event reports
            beginPull()
            switch try await send(request(feed, device, numbers)) {
            case .ok(let answer):
                // a page whose cursor does not advance is refused, because the client would request it endlessly
                guard let page = ChangesPage(answer), page.isUpToDate || page.next != feed.cursor else {
                    throw Stop.again(TransientError(text: "a malformed page of changes"))
                }
                let isApplied = try await apply(page, feed, numbers)
                noteProgress()
                if isApplied, page.isUpToDate {
                    try await refreshHeld()
                    let isAnyDecided = try await write { [map] db, _ in
                        try OtherWrite.findKeys(map, db)
                        return try Intent.next(db) != nil
                    }
                    // another turn begins if the pull has made requests possible: retries of edits that had failed
                    // because their entity was missing, or writes that had to wait for the local ids of a pull from the
                    // beginning
                    if isAnyDecided || feed.isSnapshot { bell.ring() }
                    notePulled()
                    return
                }
            case .refused(let problem) where feed.cursor != nil && problem.isAboutCursor:
                // the pull starts over only once in a turn, because a gateway that refuses its own cursors would cause
                // endless requests
                guard !hasStartedOver else { throw Stop.again(TransientError(text: problem.description)) }
                hasStartedOver = true
                try await sendLostWrites()
                // when the new pull ends, rows that it did not contain are removed. Until then, all rows are kept. The
                // new pull starts after the push, so that its end also removes the rows of entities that the push has
                // created and deleted: a pull from the beginning contains no tombstones.
                try await write { [map] db, now in
                    // a restored gateway may assign other local ids to the rows
                    if map.hasDeviceIDs { try DeviceNumbers.noteOthers(db) }
                    try Feed.startOver(feed.filter, db, now: now)
                }
            case .refused(let problem): throw Stop.blocked(.refused(problem))
            }
        }
    }

    private func request(_ feed: Feed, _ device: UUID, _ numbers: NextLocalIDs) -> GatewayRequest {
        guard map.hasDeviceIDs else {
            var request = GatewayRequest(path: "/v1/changes")
            request.query = [
                URLQueryItem(name: "limit", value: String(configuration.pageLimit)),
                URLQueryItem(name: "entity_type", value: feed.filter.types),
            ]
            if !feed.filter.channels.isEmpty {
                request.query += feed.filter.channels.map { URLQueryItem(name: "channel", value: $0) }
                request.query.append(URLQueryItem(name: "others", value: "true"))
            }
            if let cursor = feed.cursor { request.query.append(URLQueryItem(name: "since", value: cursor)) }
            return request
        }
        let cursor = feed.cursor.map(JSON.string) ?? .null
        var body: JSON = [
            "since": cursor, "limit": .integer(Int64(configuration.pageLimit)),
            "next_local_ids": .object(numbers.mapValues(JSON.integer)),
        ]
        if !feed.filter.channels.isEmpty {
            body["channels"] = .array(feed.filter.channels.map(JSON.string))
            body["others"] = .bool(true)
            body["received"] = cursor
        }
        return GatewayRequest(method: "POST", path: "/v1/devices/\(device.wire)/pull", body: body)
    }

    /// Sends the writes and the discards of this phone that a gateway may have lost when it was restored from a backup.
    ///
    /// They are sent before a new pull, because the end of the pull would remove the rows of lost writes. Without the
    /// discards, the gateway would apply writes that were discarded on the phone.
    private func sendLostWrites() async throws {
        hasRegistered = false
        let hasLost = try await register()
        if !isRepeatingDiscards {
            try await write { db, now in try Intent.repeatDiscards(above: 0, upTo: nil, db, now: now) }
            isRepeatingDiscards = true
        }
        try await settle()
        let hasLostMore = try await recheckEnded()
        if hasLost || hasLostMore { try await push() }
        isRepeatingDiscards = false
    }

    /// - Parameter numbers: the device's counters with which the page was requested.
    /// - Returns: false if the phone's cursor or counters have changed since the request.
    private func apply(_ page: ChangesPage, _ feed: Feed, _ numbers: NextLocalIDs) async throws -> Bool {
        do {
            return try await write { [map] db, now in
                let counters = DeviceNumbers(map, db)
                // if the counters differ, rows created since the request have local ids that the page assigns to other
                // rows
                guard try counters.next() == numbers else { return false }
                // the counters are raised first, so that a row that is renumbered does not get a local id that the page
                // assigns
                try counters.raise(to: page.nextLocalIDs)
                return try PageApplication(map, db, now: now).apply(page, after: feed.cursor)
            }
        } catch let error as DatabaseError where error.isAboutRow {
            // the cause is a constraint that is checked at the commit, or a trigger that ends the transaction
            return try await applyWithoutRows(page, feed, numbers)
        }
    }

    /// Applies a page if the app's tables do not accept its rows in one transaction. First everything except the rows
    /// is applied, and then each row in a separate transaction.
    ///
    /// A row stays held if its table still does not accept it. All other rows are written, so that the page need not be
    /// pulled again. If the method is interrupted, the next pull writes the remaining rows (``refreshHeld()``).
    private func applyWithoutRows(_ page: ChangesPage, _ feed: Feed, _ numbers: NextLocalIDs) async throws -> Bool {
        let names = try await write { [map] db, now -> [EntityName]? in
            let counters = DeviceNumbers(map, db)
            guard try counters.next() == numbers else { return nil }
            try counters.raise(to: page.nextLocalIDs)
            return try PageApplication(map, db, now: now)
                .apply(page, after: feed.cursor, holdingRowsFor: "the row has not been written yet")
        }
        guard let names else { return false }
        for name in names {
            do {
                try await write { [map] db, now in try PageApplication(map, db, now: now).writeRow(of: name) }
            } catch let error as DatabaseError where error.isAboutRow {
                let reason = error.message ?? "\(error.resultCode)"
                try await write { [map] db, now in try Projection(map, db, now: now).hold(name, reason) }
            }
        }
        return true
    }

    /// Retries held rows that do not wait for another row, because a table of the app may have changed.
    private func refreshHeld() async throws {
        let names = try await write { [map] db, now in try Projection(map, db, now: now).held(limit: 1_000) }
        if names.isEmpty { return }
        do {
            try await write { [map] db, now in try Projection(map, db, now: now).refresh(names) }
        } catch let error as DatabaseError where error.isAboutRow {
            // one of the rows made the transaction fail, so each row gets a separate transaction
            for name in names {
                do {
                    try await write { [map] db, now in try Projection(map, db, now: now).refresh([name]) }
                } catch let error as DatabaseError where error.isAboutRow { continue }
            }
        }
    }
}

extension Problem {
    /// Whether the cursor may be the cause of a refused pull: it is too old, from before a restore, or not accepted by
    /// this gateway.
    ///
    /// If so, the next request is a pull from the beginning, without a cursor. If this request is refused, too, the
    /// cursor was not the cause.
    fileprivate var isAboutCursor: Bool { code == "cursor_expired" || code == "invalid_request" }
}
