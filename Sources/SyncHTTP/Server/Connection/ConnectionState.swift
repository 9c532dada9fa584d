import NIOCore

/// A connection's state and deadlines. This type makes the decisions that ``ConnectionGuard`` executes.
struct ConnectionState {
    /// The action at a deadline.
    enum TimerAction: Equatable {
        case wait(until: NIODeadline)
        /// The body is late. Notify the code that reads the body.
        case refuseBody
        case close
        case nothing
    }

    /// The action after a response was written.
    enum EndAction: Equatable {
        case keep
        case close
        /// Close the sending half now, and the other half a moment later. If both halves were closed while the client
        /// still sends, the system would discard a response that the client has not read yet.
        case closeAfterLingering
    }

    let bodyTimeout: TimeAmount
    let writeTimeout: TimeAmount
    let shutdownTimeout: TimeAmount
    /// The number of bytes that a client must accept within `writeTimeout`.
    let leastProgress: Int

    /// The number of requests whose head was read and whose response is not completely written.
    private(set) var openRequests = 0
    /// The time at which the body that is being read must be complete. If requests are pipelined, this is the deadline
    /// of the last body.
    private var bodyDeadline: NIODeadline?
    /// Whether the last accepted request contains `Connection: close`, or the connection is ending.
    private var closesAfterLast = false
    /// Whether the data that are being read belong to an accepted request.
    private(set) var takesParts = true
    /// The time at which the client must have accepted all bytes in the send buffer, or ``leastProgress`` of them.
    private var writeDeadline: NIODeadline?
    /// The number of bytes in the send buffer when the deadline was set.
    private var unsent = 0
    private var closesAfterResponse = false
    /// Whether the connection ends as soon as the client has read the written data.
    private var isEnding = false
    private var isRefused = false
    private var isShuttingDown = false

    init(bodyTimeout: TimeAmount, writeTimeout: TimeAmount, shutdownTimeout: TimeAmount, leastProgress: Int = .max) {
        self.bodyTimeout = bodyTimeout
        self.writeTimeout = writeTimeout
        self.shutdownTimeout = shutdownTimeout
        self.leastProgress = leastProgress
    }

    /// Whether to read more.
    ///
    /// While a request is in progress, at most one further request is read, and none during a shutdown. Other pipelined
    /// requests wait in the operating system's buffers, not in the gateway's buffers.
    var mayRead: Bool {
        openRequests < (isShuttingDown && bodyDeadline == nil ? 1 : 2)
    }

    var deadline: NIODeadline? {
        switch (runningBodyDeadline, writeDeadline) {
        case (let body?, let write?): min(body, write)
        case (let body, let write): body ?? write
        }
    }

    /// The deadline of the body that is being read. It does not apply while an earlier request is in progress, because
    /// nothing is read during this time.
    private var runningBodyDeadline: NIODeadline? { openRequests == 1 ? bodyDeadline : nil }

    /// Records a request's head. If the connection ends after an earlier request, this request is not accepted, and its
    /// data are dropped.
    mutating func readHead(closes: Bool, at now: NIODeadline) {
        takesParts = !closesAfterLast && !closesAfterResponse
        guard takesParts else { return }
        openRequests += 1
        bodyDeadline = now + (isShuttingDown ? shutdownTimeout : bodyTimeout)
        closesAfterLast = closes
    }

    mutating func readEnd() {
        if takesParts { bodyDeadline = nil }
    }

    /// Records that the head of a response is written. Every request in progress is answered before the connection
    /// ends.
    ///
    /// If a request has not arrived completely when its response is written, the connection ends, and the rest of the
    /// request is dropped.
    /// - Returns: whether the response must announce the end of the connection.
    mutating func writeHead() -> Bool {
        let isLast = openRequests <= 1
        if isLast, isRefused || isShuttingDown || closesAfterLast || bodyDeadline != nil {
            closesAfterResponse = true
        }
        return closesAfterResponse
    }

    /// Records that the input is not HTTP.
    mutating func readNonsense() {
        isRefused = true
    }

    mutating func writeEnd(at now: NIODeadline) -> EndAction {
        openRequests -= 1
        guard closesAfterResponse else {
            if bodyDeadline != nil { bodyDeadline = now + bodyTimeout }
            return .keep
        }
        return bodyDeadline == nil && !isRefused ? .close : .closeAfterLingering
    }

    /// - Parameter unsent: the number of bytes that the client has not accepted.
    mutating func becameWritable(_ isWritable: Bool, unsent: Int = 0, at now: NIODeadline) {
        self.unsent = unsent
        writeDeadline = isWritable && !isEnding ? nil : now + (isShuttingDown ? shutdownTimeout : writeTimeout)
    }

    /// Stops accepting requests. The client has the usual time limit to read the remaining data.
    ///
    /// - Parameter unsent: the number of bytes that the client has not accepted.
    mutating func end(unsent: Int, at now: NIODeadline) {
        isEnding = true
        closesAfterLast = true
        if writeDeadline == nil { becameWritable(false, unsent: unsent, at: now) }
    }

    /// Ends the wait for a body that is being read.
    ///
    /// - Returns: false if no body is being read, or if requests are pipelined. With pipelined requests, the request to
    ///   which the body belongs is unknown.
    mutating func cutBody() -> Bool {
        guard runningBodyDeadline != nil else { return false }
        bodyDeadline = nil
        isRefused = true
        return true
    }

    /// Shortens the running deadlines.
    mutating func shutDown(at now: NIODeadline) {
        isShuttingDown = true
        bodyDeadline = bodyDeadline.map { min($0, now + shutdownTimeout) }
        writeDeadline = writeDeadline.map { min($0, now + shutdownTimeout) }
    }

    /// - Parameter unsent: the number of bytes that the client has not accepted.
    mutating func timerFired(at now: NIODeadline, unsent: Int = 0) -> TimerAction {
        if let writeDeadline, writeDeadline <= now {
            // a client that makes progress stays connected, even if it is slow
            guard !isShuttingDown, self.unsent - unsent >= leastProgress else { return .close }
            becameWritable(false, unsent: unsent, at: now)
        }
        if let runningBodyDeadline, runningBodyDeadline <= now {
            bodyDeadline = nil
            isRefused = true
            return .refuseBody
        }
        return deadline.map { .wait(until: $0) } ?? .nothing
    }
}
