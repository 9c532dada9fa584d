import Glibc

/// Keeps every connection busy with one push after another.
struct Load {
    private enum Phase {
        /// Sends the pushes that are sent again later, or creates the contacts to which pushes refer.
        case filling
        case warmingUp(until: UInt64)
        case measuring(since: UInt64, until: UInt64)
        /// Sends nothing more, and waits for requests in flight.
        case ending(until: UInt64)
    }

    private let options: Options
    private let template: PushTemplate
    private let address: Address
    private let poller: Poller
    private let connections: [Connection]
    private let succeeded: ByteFinder
    private let pending = ByteFinder(#""status":"pending""#)
    private let inFlight = ByteFinder(#""status":"in_flight""#)
    private let replayed = ByteFinder(#""replayed":true"#)

    private var devices: [Device]
    private var random = Random(seed: Clock.microsecondsSince1970)
    private var phase: Phase
    private var underWay = 0
    /// With a fixed rate: the connections that have no push in flight.
    private var idle: [Int] = []
    /// With a fixed rate: when the first push was due, and the number of pushes that were due since then.
    private var arrivals: (since: UInt64, count: UInt64) = (0, 0)
    private var begun = 0
    private var pooled = 0
    /// Devices whose contacts were created.
    private var knownDevices = 0
    private var total = 0
    private var cpuBefore: UInt64 = 0
    private var results: Results
    private var complaint: String?

    init(_ options: Options) throws(Failure) {
        self.options = options
        succeeded = ByteFinder(options.success)
        results = Results(success: options.status)
        if let body = options.body {
            template = try PushTemplate(readFrom: body, mutations: options.mutations)
        } else {
            template = PushTemplate(options, createdAt: Clock.timestamp)
        }
        address = Address(host: options.host, port: options.port)
        poller = try Poller()

        let host = "\(options.host):\(options.port)"
        let length = template.bytes.count
        let request = RequestHead(host: host, path: options.path, scheme: options.scheme, contentLength: length)
        devices = try Self.devices(options, request: request)
        let shuffled = devices.indices.shuffled(using: &random)
        var own = [[Int]](repeating: [], count: options.connections)
        for (index, device) in shuffled.enumerated() { own[index % own.count].append(device) }
        connections = own.map { [template] in Connection(devices: $0, template: template) }
        phase = options.mode == .replay || options.contacts != nil ? .filling : .warmingUp(until: 0)
    }

    private static func devices(_ options: Options, request: RequestHead) throws(Failure) -> [Device] {
        let users: [User]
        if let file = options.tokensFile {
            users = try User.read(from: file)
        } else {
            users = User.numbered(
                organizations: options.organizations,
                users: options.users,
                secret: options.secret ?? ""
            )
        }
        let first = Clock.microsecondsSince1970
        return (0..<max(users.count, options.connections)).map { index in
            let (copy, user) = index.quotientAndRemainder(dividingBy: users.count)
            return Device(users[user], copy: copy, request: request, firstNumber: first)
        }
    }

    /// Runs to the end; returns the line to print.
    mutating func run() throws(Failure) -> (line: String, complaint: String?, isUseful: Bool) {
        for (index, connection) in connections.enumerated() {
            try connection.open(address)
            poller.watch(connection.socket, as: index, writing: false, isNew: true)
        }
        if case .warmingUp = phase { phase = .warmingUp(until: Clock.now + nanoseconds(options.warmUp)) }
        arrivals.since = Clock.now
        for index in connections.indices { try next(index) }

        let poller = poller
        while true {
            try poller.wait(milliseconds: options.rate == nil ? 20 : 1) { index, isWritable throws(Failure) in
                try proceed(index, isWritable: isWritable)
            }
            if let rate = options.rate { try beginDue(rate, Clock.now) }
            if advance(Clock.now) { break }
        }
        let isUseful = results.pushes > results.wrong + results.errors
        return (results.line(options, total: total), complaint, isUseful)
    }

    private func nanoseconds(_ seconds: Double) -> UInt64 { UInt64(seconds * 1e9) }

    /// Enters the next phase if its time has come; true at the end.
    private mutating func advance(_ now: UInt64) -> Bool {
        switch phase {
        case .filling:
            if isFilled {
                phase = .warmingUp(until: now + nanoseconds(options.warmUp))
            }
        case .warmingUp(let end):
            if now >= end {
                phase = .measuring(since: now, until: now + nanoseconds(options.seconds))
                results = Results(success: options.status)
                cpuBefore = Clock.cpu
            }
        case .measuring(let start, let end):
            if now >= end || begun == options.pushes && underWay == 0 {
                results.seconds = Double(now - start) / 1e9
                results.cpu = Double(Clock.cpu - cpuBefore) / 1e9
                phase = .ending(until: now + nanoseconds(10))
            }
        case .ending(let end):
            if now >= end { results.broken += underWay }
            return underWay == 0 || now >= end
        }
        return false
    }

    private var isFilled: Bool {
        if options.contacts != nil { return knownDevices == devices.count }
        return pooled >= options.pool && connections.allSatisfy { !$0.pushed.isEmpty }
    }

    private mutating func proceed(_ index: Int, isWritable: Bool) throws(Failure) {
        let connection = connections[index]
        if isWritable { try write(index, isWaiting: true) }
        switch connection.answer.receive(from: connection.socket) {
        case .incomplete: break
        case .broken: try reopen(index)
        case .complete:
            guard let push = connection.current else { return try reopen(index) }
            take(push, from: connection)
            connection.end()
            underWay -= 1
            try next(index)
        }
    }

    /// Sends the connection's next push now, or with a fixed rate when one is due.
    private mutating func next(_ index: Int) throws(Failure) {
        guard options.rate == nil else { return idle.append(index) }
        try begin(index, at: Clock.now)
    }

    /// Sends the pushes that are due, over connections in random order, so that all users push.
    private mutating func beginDue(_ rate: Double, _ now: UInt64) throws(Failure) {
        if case .ending = phase { return }
        while true {
            let due = arrivals.since + nanoseconds(Double(arrivals.count) / rate)
            guard due <= now else { return }
            arrivals.count += 1
            guard !idle.isEmpty else {
                if case .measuring = phase { results.missed += 1 }
                continue
            }
            idle.swapAt(Int.random(in: idle.indices, using: &random), idle.count - 1)
            try begin(idle.removeLast(), at: due)
        }
    }

    /// Sends the next push, unless it is time to end.
    ///
    /// - Parameter start: the time from which its latency counts.
    private mutating func begin(_ index: Int, at start: UInt64) throws(Failure) {
        if case .ending = phase { return }
        if let limit = options.pushes, begun >= limit { return }
        let connection = connections[index]
        var replays = false
        if case .filling = phase {} else { replays = options.mode == .replay }

        let push: Push
        if replays, let old = connection.pushed.randomElement(using: &random) {
            push = old
        } else {
            replays = false
            push = newPush(of: connection)
        }
        let device = devices[push.device]
        connection.begin(push, replay: replays, device: device, template: template, now: start)
        underWay += 1
        begun += 1
        try write(index, isWaiting: false)
    }

    private mutating func newPush(of connection: Connection) -> Push {
        var newcomer: Int?
        if case .filling = phase, options.contacts != nil {
            newcomer = connection.devices.first { devices[$0].contacts == nil }
        }
        let device = newcomer ?? connection.devices.randomElement(using: &random) ?? 0
        let first = devices[device].nextNumber
        let push = Push(device: device, seed: random.next(), firstNumber: first, makesContacts: newcomer != nil)
        devices[device].nextNumber += UInt64(options.mutations)
        if push.makesContacts { devices[device].contacts = push }
        return push
    }

    private mutating func write(_ index: Int, isWaiting: Bool) throws(Failure) {
        let connection = connections[index]
        switch connection.write() {
        case .done:
            if isWaiting { poller.watch(connection.socket, as: index, writing: false, isNew: false) }
        case .blocked:
            if !isWaiting { poller.watch(connection.socket, as: index, writing: true, isNew: false) }
        // The peer has closed the connection, or has answered and closed it; reading distinguishes the two.
        case .broken: break
        }
    }

    /// Makes a new connection in place of one that ended.
    private mutating func reopen(_ index: Int) throws(Failure) {
        let connection = connections[index]
        if let push = connection.current {
            connection.end()
            underWay -= 1
            results.broken += 1
            if push.makesContacts { devices[push.device].contacts = nil }
        }
        if case .ending = phase { return }
        try connection.open(address)
        poller.watch(connection.socket, as: index, writing: false, isNew: true)
        try next(index)
    }

    /// Counts and checks an answer.
    private mutating func take(_ push: Push, from connection: Connection) {
        let status = connection.answer.status
        let body = connection.answer.body
        total += 1
        let expected = connection.isReplay ? template.mutations : 0
        let replays = replayed.count(in: body)
        let isDone = succeeded.count(in: body) == template.mutations
        let isRight = isDone && status == options.status && replays == expected || isForwarded(status, body)
        if !isRight, complaint == nil {
            complaint = "HTTP \(status): \(String(decoding: body.prefix(2000), as: UTF8.self))"
        }
        if options.mode == .replay, isRight, !connection.isReplay, connection.pushed.count < options.pool {
            connection.pushed.append(push)
            pooled += 1
        }
        if push.makesContacts {
            knownDevices += 1
            // pushes that reference missing entities are not worth measuring
            if !isRight { phase = .ending(until: Clock.now) }
        }
        guard case .measuring = phase else { return }
        results.pushes += 1
        if isRight { results.right += 1 }
        if isRight || options.rate == nil {
            results.latencies.record(Int((Clock.now - connection.startedAt) / 1000))
        }
        results.statuses[status, default: 0] += 1
        results.replayed += replays
        if status == options.status || status == 202, !isRight { results.wrong += 1 }
    }

    /// Whether a push was accepted, and each of its mutations has succeeded or waits for the upstream's outcome.
    private func isForwarded(_ status: Int, _ body: UnsafeBufferPointer<UInt8>) -> Bool {
        guard options.mode == .forwarded, status == 200 || status == 202 else { return false }
        let open = pending.count(in: body) + inFlight.count(in: body)
        return open + succeeded.count(in: body) == template.mutations && replayed.count(in: body) == 0
    }
}
