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
/// A database belongs to one user: an app with several accounts has a file, and a client, for each.
public final class SluiceClient: Sendable {
    /// The settings of a client.
    public struct Configuration: Sendable {
        /// The interval of polling for changes while no events arrive.
        public var pullInterval: Duration = .seconds(60)
        /// The number of changes on a page: 1 to 1,000.
        public var pageLimit = 500
        /// The number of seconds after which a request that receives nothing fails.
        public var idleTimeout: TimeInterval = 30
        /// The number of seconds after which a request fails, however slowly its response arrives.
        public var totalTimeout: TimeInterval = 120
        /// The time for which ended writes are kept. It must reach as far back as a backup that an operator may
        /// restore.
        public var keep: Duration = .seconds(7 * 86_400)
        /// A text that differs on each phone and is not part of its backups, such as the vendor's identifier of the
        /// device. By default it is the number of the database's file in its file system.
        ///
        /// If the database was last used with another text, it is a copy: it was restored from a backup, perhaps while
        /// the first phone remains in use. The copy then gets a new device id.
        public var installation: String?
        /// Whether to listen to the gateway's events while resumed, so that other users' changes arrive within a
        /// second. It is off on Linux, where `URLSession` keeps a core busy for as long as a response is open.
        public var usesEvents = Configuration.listens
        /// The configuration for requests: a proxy, a protocol, `waitsForConnectivity`…
        public var session: URLSessionConfiguration = .ephemeral
        #if canImport(FoundationNetworking)
            private static let listens = false
        #else
            private static let listens = true
        #endif
        /// Reports when a network becomes usable; a resumed client then retries immediately.
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
        /// Receives rows whose mapped columns the app has changed without a call, after each transaction. If it is nil,
        /// nothing is checked. With ``Capture/triggers`` it is not called.
        ///
        /// Such a change is a fault of the app, because no other phone gets it. Set the closure in debug builds, for
        /// instance to end the app. ``SluiceClient/missedChanges(in:)`` finds all such rows.
        public var onMissedChanges: (@Sendable ([MissedChange]) -> Void)?
        /// The transport that replaces the network in tests.
        package var transport: (any Transport)?
        var limits = PushBatch.Limits()
        /// The time for `created_at`. It does not affect the order of writes.
        var now: @Sendable () -> Date = { Date() }

        /// Creates the default configuration.
        public init() {}
    }

    /// The tasks that ``resume()`` has started.
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
    /// Whether an open transaction will wake the worker.
    private let isRinging = Locked(false)

    /// - Parameters:
    ///   - database: the app's own database, migrated with `registerSluiceMigrations()`.
    ///   - gateway: the address of the gateway, without `/v1`.
    ///   - entities: the synchronized entities. They must include every entity that columns refer to.
    ///   - token: returns a JWT for the gateway. It is called if there is no token, and once if a token is not
    ///     accepted. If it throws an error, no write is lost.
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

    /// Adds a change to the outbox, in the transaction in which the app makes it: either both take effect, or neither
    /// does.
    ///
    /// - Returns: the mutation's id, for which ``outcome(of:)`` returns the outcome; nil for an update that changes
    ///   nothing.
    /// - Throws: ``SluiceError/invalid(_:)`` for a write that cannot be sent.
    ///   ``SluiceError/unknownEntity(entityType:key:)`` for a row that the library has no record of, or a reference to
    ///   such a row. ``SluiceError/configuration(_:)`` for a record of a type that is not synchronized.
    ///   ``SluiceError/signedOut`` after a sign-out. The database's errors.
    @discardableResult
    public func enqueue(_ write: Write, in db: Database) throws -> UUID? {
        try checkInside(db)
        if configuration.capture == .triggers {
            // enqueues the rows that the write references, and earlier changes
            try captured.enqueueAll(db, now: configuration.now(), except: write.name(map))
        }
        // this statement also checks the owner of the file, because the user waits until a write is enqueued
        let sequence = try Device.nextSequence(db, of: worker.device)
        let id = try Enqueuing(map, db, sequence: sequence, now: configuration.now()).enqueue(write)
        if id != nil { ring(after: db) }
        return id
    }

    /// - Throws: ``SluiceError/invalid(_:)`` outside a transaction, ``SluiceError/signedOut`` after a sign-out.
    func checkTransaction(_ db: Database) throws {
        try checkInside(db)
        // after a sign-out on any client of the file, the writes belong to the next user
        guard try Device.known(db) == worker.device else { throw SluiceError.signedOut }
    }

    private func checkInside(_ db: Database) throws {
        guard db.isInsideTransaction else {
            throw SluiceError.invalid("change a row and enqueue it in one transaction: database.write { db in … }")
        }
    }

    /// Registers only one observer for a transaction with any number of writes, because each observer is called for
    /// every changed row.
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

    /// Synchronizes from now on, until ``suspend()``. An app calls it when it comes to the foreground.
    ///
    /// A repeated call immediately retries blocked work: for example, the token may be valid now, or the organization
    /// may no longer be suspended.
    public func resume() {
        running.withLock { running in
            if running.isOn { return }
            running.isOn = true
            // in sequence, however often the app changes between foreground and background
            let previous = running.task
            let (worker, listener, bell) = (worker, EventListener(self), bell)
            let monitor = configuration.networkMonitor
            running.task = Task { [weak self] in
                await previous?.value
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
        }
        Task { [worker, bell, gateway] in
            await gateway.tokens.forget()
            await worker.endBackOff()
            bell.ring()
        }
    }

    /// Ends the pause after failed attempts, and synchronizes immediately if the client is resumed: for a
    /// pull-to-refresh or a button.
    ///
    /// The user's writes during an outage do not shorten the pause. The pause is never longer than a minute, unless the
    /// gateway asks for more. ``syncOnce(deadline:)`` also ends the pause, and waits for the result.
    public func retryNow() {
        Task { [worker, bell] in
            await worker.endBackOff()
            bell.ring()
        }
    }

    /// Stops synchronizing. Requests in progress take effect at the gateway, and their outcome is requested later.
    public func suspend() {
        running.withLock { running in
            running.isOn = false
            running.task?.cancel()
        }
        showSuspension()
    }

    /// Shows the suspension. A turn that was still running may have overwritten the status since the suspension.
    private func showSuspension() {
        running.withLock { running in
            guard !running.isOn else { return }
            hub.update { status in
                status.phase = .suspended
                status.nextAttempt = nil
            }
        }
    }

    /// Stops synchronizing, and waits until all its tasks have ended.
    func stop() async {
        suspend()
        await running.withLock { $0.task }?.value
        suspend()
    }

    /// Pushes waiting writes and pulls new changes, for a background task, or for an app that schedules synchronization
    /// itself.
    ///
    /// - Parameter deadline: the maximum duration; the method returns earlier if nothing is left to do.
    /// - Returns: the status at the end.
    @discardableResult
    public func syncOnce(deadline: Duration = .seconds(25)) async -> SyncStatus {
        let end = ContinuousClock.now.advanced(by: deadline.clamped)
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

    /// A stream of the status: its present value, and each change.
    public var status: AsyncStream<SyncStatus> { hub.stream }

    /// The present status, with all committed writes.
    public var currentStatus: SyncStatus {
        counter.catchUp()
        return hub.status
    }

    /// Returns the present state of a write; nil if the outbox does not contain it.
    public func state(of mutation: UUID) async throws -> Outcome? {
        try await database.read { try Outcome.fetch($0, mutation) }
    }

    /// Returns a stream of a write's states: its state now, and after each change.
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

    /// A stream of the writes that a person must decide about: the present list, and the list after each change.
    public var failedWrites: AsyncThrowingStream<[FailedWrite], any Error> { stream { try FailedWrite.fetchAll($0) } }

    /// A stream of the conflicts among ``failedWrites``.
    public var conflicts: AsyncThrowingStream<[FailedWrite], any Error> {
        stream { try FailedWrite.fetchConflicts($0) }
    }

    /// A stream of the rows that are kept out of the app's tables: the present list, and the list after each change.
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
