public import Foundation
public import GRDB

#if canImport(FoundationNetworking)
    public import FoundationNetworking
#endif

/// Synchronizes tables of an app's own database with a Sluice gateway.
///
///     var migrator = DatabaseMigrator()
///     migrator.registerSluiceMigrations()
///     …
///     let sluice = try SluiceClient(database: pool, gateway: url, entities: [Contact.sync, Visit.sync]) {
///         try await auth.token()
///     }
///     sluice.resume()
///
///     try await pool.write { db in
///         try contact.insert(db)
///         try sluice.enqueue(.create(contact), in: db)
///     }
///
/// A database belongs to one user. An app with several accounts needs a separate file and a separate client for each
/// account.
public final class SluiceClient: Sendable {
    /// The settings of a client.
    public struct Configuration: Sendable {
        /// The interval at which the client polls for changes while no events arrive.
        public var pullInterval: Duration = .seconds(60)
        /// The maximum number of changes on a page, from 1 to 1,000.
        public var pageLimit = 500
        /// A request fails if it receives nothing for this number of seconds.
        public var idleTimeout: TimeInterval = 30
        /// A request fails after this number of seconds, even if its response is still arriving.
        public var totalTimeout: TimeInterval = 120
        /// The time for which ended writes are kept. It must not be shorter than the age of the oldest backup that an
        /// operator of the gateway may restore.
        public var keep: Duration = .seconds(7 * 86_400)
        /// A text that is different on each phone and is not part of backups, such as the device's identifier for the
        /// vendor. The default is the number of the database's file in the file system.
        ///
        /// If the database was last used with another text, the client treats the database as a copy that was restored
        /// from a backup. The copy gets a new device id, because the original phone may still be in use.
        public var installation: String?
        /// Whether the client receives the gateway's events while it is resumed, so that other users' changes arrive
        /// within a second. The default is false on Linux, because `URLSession` keeps a core busy there while a
        /// response is open.
        public var usesEvents = Configuration.listens
        /// The configuration for requests, such as a proxy, a protocol or `waitsForConnectivity`.
        public var session: URLSessionConfiguration = .ephemeral
        #if canImport(FoundationNetworking)
            private static let listens = false
        #else
            private static let listens = true
        #endif
        /// Reports when a network becomes usable. A resumed client then retries immediately.
        ///
        /// The default is the system's monitor on Apple's platforms, and nil elsewhere.
        public var networkMonitor: (any NetworkMonitor)? = Configuration.systemMonitor
        #if canImport(Network)
            private static var systemMonitor: (any NetworkMonitor)? { SystemNetworkMonitor() }
        #else
            private static var systemMonitor: (any NetworkMonitor)? { nil }
        #endif
        /// How the app's changes get into the outbox.
        public var capture = Capture.calls
        /// Called after each transaction in which the app has changed mapped columns without calling the library, with
        /// the changed rows. If the closure is nil, nothing is checked. With ``Capture/triggers``, the closure is not
        /// called.
        ///
        /// Such a change is an error of the app, because no other phone receives the change. Set the closure in debug
        /// builds, for example to stop the app. ``SluiceClient/missedChanges(in:)`` finds all such rows.
        public var onMissedChanges: (@Sendable ([MissedChange]) -> Void)?
        /// The transport that replaces the network in tests.
        package var transport: (any Transport)?
        var limits = PushBatch.Limits()
        /// Returns the time for `created_at`, which does not affect the order of writes.
        var now: @Sendable () -> Date = { Date() }

        /// Creates the default configuration.
        public init() {}
    }

    /// The task that ``resume()`` has started.
    private struct Running {
        var isOn = false
        var task: Task<Void, Never>?
    }

    let database: any DatabaseWriter
    let map: EntityMap
    let configuration: Configuration
    let hub = StatusHub()
    let bell = WakeSignal()
    let worker: SyncWorker
    let gateway: GatewayClient
    private let running = Locked(Running())
    private let counter: StatusCounter
    private let counting: AnyDatabaseCancellable
    let captured: CapturedRows
    private let capturing: AnyDatabaseCancellable?
    /// Whether the commit of an open transaction will wake the worker.
    private let isRinging = Locked(false)

    /// - Parameters:
    ///   - database: the app's own database, migrated with `registerSluiceMigrations()`.
    ///   - gateway: the address of the gateway, without `/v1`.
    ///   - entities: the synchronized entities. Every entity to which a column refers must be included.
    ///   - token: returns a JWT for the gateway. The closure is called if there is no token. If the gateway does not
    ///     accept a token, the closure is called a second time. If the closure throws an error, no write is lost.
    /// - Throws: ``SluiceError/configuration(_:)`` if entities and tables do not match; the database's errors.
    public init(
        database: any DatabaseWriter,
        gateway: URL,
        entities: [EntitySync],
        configuration: Configuration = Configuration(),
        token: @escaping @Sendable () async throws -> String
    ) throws {
        let map = try EntityMap(entities)
        var configuration = configuration
        configuration.session = configuration.session.uncached
        configuration.pullInterval = configuration.pullInterval.clamped
        configuration.keep = configuration.keep.clamped
        configuration.totalTimeout = min(max(configuration.totalTimeout, 1), 86_400)
        configuration.idleTimeout = min(max(configuration.idleTimeout, 1), configuration.totalTimeout)
        try database.read { db in
            guard try db.tableExists("sluice_mutations") else {
                throw SluiceError.configuration(
                    "the library's tables are missing: call registerSluiceMigrations() on the app's migrator, and migrate"
                )
            }
            try map.check(db)
        }
        captured = CapturedRows(map, configuration)
        try captured.begin(database, now: configuration.now())
        try MappedColumns(map).adopt(database, now: configuration.now())
        let device = try Installation(map, configuration, database.path).claim(database)
        self.database = database
        self.map = map
        self.configuration = configuration
        self.gateway = GatewayClient(
            url: gateway,
            transport: configuration.transport ?? URLSession(configuration: configuration.session),
            tokens: TokenCache(token),
            idleTimeout: configuration.idleTimeout,
            totalTimeout: configuration.totalTimeout,
            check: { try await Account.check($0, database, device) }
        )
        worker = SyncWorker(
            database: database,
            map: map,
            gateway: self.gateway,
            configuration: configuration,
            status: hub,
            bell: bell,
            device: device,
            captured: captured
        )
        hub.update(try database.read { try StatusCounts.fetch($0) })
        counter = StatusCounter(database, hub)
        counting = counter.start()
        capturing = captured.observe(database) { [bell, captured, configuration] in
            guard configuration.capture == .calls else { return bell.ring() }
            database.asyncWrite { db in
                try captured.takeMissed(db, now: configuration.now())
            } completion: { _, result in
                if case .success(let missed) = result, !missed.isEmpty { configuration.onMissedChanges?(missed) }
            }
        }
    }

    deinit {
        running.withLock { $0.task?.cancel() }
        hub.finish()
    }

    // MARK: - Writing

    /// Adds a change to the outbox, in the same transaction in which the app changes the row. As a result, both take
    /// effect or neither does.
    ///
    /// - Returns: the mutation's id, for which ``outcome(of:)`` returns the outcome; nil for an update that changes
    ///   nothing, and for the deletion of a row that is already deleted at the server or whose create was discarded.
    /// - Throws: ``SluiceError/invalid(_:)`` for a write that cannot be sent.
    ///   ``SluiceError/unknownEntity(entityType:key:)`` for a row that was neither enqueued nor pulled, or for a
    ///   reference to such a row. ``SluiceError/deleted(entityType:key:)`` for an update of a deleted row.
    ///   ``SluiceError/configuration(_:)`` for a record of a type that is not synchronized. ``SluiceError/signedOut``
    ///   after a sign-out. The database's errors.
    @discardableResult
    public func enqueue(_ write: Write, in db: Database) throws -> UUID? {
        try checkInside(db)
        if configuration.capture == .triggers {
            // enqueues earlier changes, including the creation of rows that the write references
            try captured.enqueueAll(db, now: configuration.now(), except: write.name(map))
        }
        // the user waits for this method. To save time, the statement that reads the number also checks whether the
        // file still belongs to this client's device
        let sequence = try Device.nextSequence(db, of: worker.device)
        let id = try Enqueuing(map, db, sequence: sequence, now: configuration.now()).enqueue(write)
        if id != nil { ring(after: db) }
        return id
    }

    /// - Throws: ``SluiceError/invalid(_:)`` outside a transaction, ``SluiceError/signedOut`` after a sign-out.
    func checkTransaction(_ db: Database) throws {
        try checkInside(db)
        // if any client of this file has signed out, writes would belong to the next user
        guard try Device.known(db) == worker.device else { throw SluiceError.signedOut }
    }

    private func checkInside(_ db: Database) throws {
        guard db.isInsideTransaction else {
            throw SluiceError.invalid("change a row and enqueue it in one transaction: database.write { db in … }")
        }
    }

    /// Wakes the worker after the commit of the open transaction; immediately if no transaction is open.
    ///
    /// A transaction with several writes gets only one observer, because an observer is called for every changed row.
    func ring(after db: Database) {
        guard db.isInsideTransaction else { return bell.ring() }
        guard
            isRinging.withLock({ isRinging in
                defer { isRinging = true }
                return !isRinging
            })
        else { return }
        db.afterNextTransaction { [bell, isRinging] _ in
            isRinging.withLock { $0 = false }
            bell.ring()
        } onRollback: { [isRinging] _ in
            isRinging.withLock { $0 = false }
        }
    }

    // MARK: - Running

    /// Synchronizes from now on, until ``suspend()``. Call this method when the app comes to the foreground.
    ///
    /// A repeated call immediately retries blocked work. For example, the token may be valid now, or the organization
    /// may no longer be suspended.
    public func resume() {
        let isRepeated = running.withLock { running in
            if running.isOn { return true }
            running.isOn = true
            hub.setSuspended(false)
            // the previous task must end first, even if the app changes quickly between foreground and background
            let previous = running.task
            let (worker, listener, bell) = (worker, EventListener(self), bell)
            let monitor = configuration.networkMonitor
            running.task = Task { [weak self, gateway] in
                await previous?.value
                // these calls precede the worker's first attempt, because they would end the pause after a failure of
                // that attempt
                await gateway.tokens.forget()
                await worker.endBackOff()
                await withTaskGroup(of: Void.self) { group in
                    group.addTask { await worker.run() }
                    if let listener { group.addTask { await listener.run() } }
                    if let monitor {
                        group.addTask {
                            for await _ in monitor.connections() where await worker.endOutage() { bell.ring() }
                        }
                    }
                }
                self?.showSuspension()
            }
            return false
        }
        guard isRepeated else { return }
        Task { [worker, bell, gateway] in
            await gateway.tokens.forget()
            await worker.endBackOff()
            bell.ring()
        }
    }

    /// Ends the pause after failed attempts. If the client is resumed, it synchronizes immediately. Call this method
    /// for a pull-to-refresh or a button.
    ///
    /// During an outage, new writes do not shorten the pause. The pause is at most a minute, or longer if the gateway
    /// requests a longer pause. ``syncOnce(deadline:)`` also ends the pause, and waits for the result.
    public func retryNow() {
        Task { [worker, bell] in
            await worker.endBackOff()
            bell.ring()
        }
    }

    /// Stops synchronizing. Requests in progress may still take effect at the gateway. The client requests their
    /// outcomes later.
    public func suspend() {
        running.withLock { running in
            running.isOn = false
            running.task?.cancel()
        }
        showSuspension()
    }

    /// Sets the status to suspended. An attempt of the worker that was still running may have overwritten the status.
    private func showSuspension() {
        running.withLock { running in
            guard !running.isOn else { return }
            hub.setSuspended(true)
            hub.update { status in
                status.phase = .suspended
                status.nextAttempt = nil
            }
        }
    }

    /// Stops synchronizing, and waits until all tasks of the client have ended.
    func stop() async {
        suspend()
        await running.withLock { $0.task }?.value
        suspend()
    }

    /// Pushes waiting writes and pulls new changes. Call this method in a background task, or if the app schedules
    /// synchronization itself.
    ///
    /// - Parameter deadline: the maximum duration. The method returns earlier if nothing is left to do.
    /// - Returns: the status at the end. ``SyncStatus/isComplete`` is true only if the exchange took place, and the
    ///   phone and the gateway have the same data.
    @discardableResult
    public func syncOnce(deadline: Duration = .seconds(25)) async -> SyncStatus {
        let end = ContinuousClock.now.advanced(by: deadline.clamped)
        hub.update { $0.hasExchanged = false }
        await withTaskGroup(of: Void.self) { group in
            group.addTask { [worker] in await worker.runOnce(until: end) }
            group.addTask { try? await Task.sleep(until: end, clock: .continuous) }
            await group.next()
            group.cancelAll()
        }
        if !running.withLock({ $0.isOn }) {
            hub.update { status in
                if [.idle, .pushing, .pulling].contains(status.phase) { status.phase = .suspended }
            }
        }
        if let counts = try? await database.read({ try StatusCounts.fetch($0) }) { hub.update(counts) }
        return hub.status
    }

    // MARK: - Watching

    /// A stream of the status. It starts with the present status, followed by each visible change.
    ///
    /// A slow reader misses intermediate values, but always receives the last value. If only times have changed, by
    /// less than a second since the last delivered value, the stream delivers nothing.
    public var status: AsyncStream<SyncStatus> { hub.stream }

    /// The present status, which includes all committed writes.
    public var currentStatus: SyncStatus {
        counter.catchUp()
        return hub.status
    }

    /// Returns the present state of a write; nil if the outbox does not contain it.
    public func state(of mutation: UUID) async throws -> Outcome? {
        try await database.read { try Outcome.fetch($0, mutation) }
    }

    /// Returns a stream of a write's states. It starts with the present state, followed by the state after each change.
    public func states(of mutation: UUID) -> AsyncThrowingStream<Outcome?, any Error> {
        stream { try Outcome.fetch($0, mutation) }
    }

    /// Waits until a write is final, or requires a person's decision.
    ///
    /// If the app ended before this method returned, call it again with the same id.
    ///
    /// - Throws: ``SluiceError/unknownMutation`` for an id that is not in the outbox; `CancellationError`.
    public func outcome(of mutation: UUID) async throws -> Outcome {
        for try await outcome in states(of: mutation) {
            guard let outcome else { throw SluiceError.unknownMutation }
            if outcome.isSettled { return outcome }
        }
        throw CancellationError()
    }

    /// A stream of the list of writes that need a person's decision. It starts with the present list, followed by the
    /// list after each change.
    public var failedWrites: AsyncThrowingStream<[FailedWrite], any Error> { stream { try FailedWrite.fetchAll($0) } }

    /// A stream of the writes in ``failedWrites`` that are conflicts.
    public var conflicts: AsyncThrowingStream<[FailedWrite], any Error> {
        stream { try FailedWrite.fetchConflicts($0) }
    }

    /// A stream of the list of held rows, which the app's tables do not accept. It starts with the present list,
    /// followed by the list after each change.
    public var heldRows: AsyncThrowingStream<[HeldRow], any Error> { stream { try HeldRow.fetchAll($0) } }

    private func stream<Value: Sendable & Equatable>(
        _ fetch: @escaping @Sendable (Database) throws -> Value
    ) -> AsyncThrowingStream<Value, any Error> {
        AsyncThrowingStream(bufferingPolicy: .bufferingNewest(1)) { [database] continuation in
            let observation = ValueObservation.tracking(fetch).removeDuplicates().start(
                in: database,
                scheduling: .async(onQueue: .global()),
                onError: { continuation.finish(throwing: $0) },
                onChange: { continuation.yield($0) }
            )
            continuation.onTermination = { _ in observation.cancel() }
        }
    }
}
