package import FoundationEssentials
import NIOCore
import NIOPosix
package import SyncModel
import Synchronization

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

/// Resolves host names on separate threads, so that a slow name does not delay other names.
///
/// The system's resolver blocks a thread until it has an answer, and cannot be cancelled. If a name server does not
/// respond, an answer takes half a minute. While a name is being resolved, it uses one thread, regardless of the number
/// of callers. Organizations share the threads (``FairShares``).
package final class HostNames: Sendable {
    package enum Answer: Sendable, Hashable {
        /// The addresses; empty if the name has no address.
        case addresses([IPAddress])
        /// The resolver has not answered in time.
        case late
        /// Other names of the organization already use all threads that the organization may use.
        case busy
    }

    fileprivate enum Entry {
        case pending(since: ContinuousClock.Instant, [Int: CheckedContinuation<Answer, Never>])
        case found([IPAddress], until: ContinuousClock.Instant)
    }

    fileprivate struct State {
        var entries: [String: Entry] = [:]
        var shares: FairShares
        var lastTicket = 0
    }

    /// The maximum number of names whose addresses are cached.
    private static let capacity = 10_000

    private let threads: NIOThreadPool
    private let timeout: Duration
    private let lifetime: Duration
    private let lookUp: @Sendable (String) -> [IPAddress]
    private let state: Mutex<State>

    /// - Parameters:
    ///   - threads: the number of names that are resolved concurrently.
    ///   - timeout: the time for which a caller waits for the resolver.
    ///   - lifetime: the time for which an answer is cached.
    ///   - lookUp: blocks until the resolver has answered.
    package init(
        threads: Int = 64,
        timeout: Duration = .seconds(5),
        lifetime: Duration = .seconds(10),
        lookUp: @escaping @Sendable (String) -> [IPAddress] = HostAddresses.lookUp
    ) {
        self.threads = NIOThreadPool(numberOfThreads: threads)
        self.timeout = timeout
        self.lifetime = lifetime
        self.lookUp = lookUp
        state = Mutex(State(shares: FairShares(whole: threads)))
        self.threads.start()
    }

    deinit { threads.shutdownGracefully { _ in } }

    /// Returns the addresses of a name. If `host` is an address, the result is this address.
    package func addresses(of host: String, for organization: UUID) async -> Answer {
        if let address = IPAddress(host) { return .addresses([address]) }
        return await withCheckedContinuation { continuation in
            let (answer, ticket) = state.withLock {
                $0.begin(host, organization, continuation, timeout, Self.capacity)
            }
            switch (answer, ticket) {
            case (let answer?, _): continuation.resume(returning: answer)
            case (nil, let ticket?):
                Task { [self] in
                    try? await Task.sleep(for: timeout)
                    giveUp(ticket, on: host)
                }
                if let holder = ticket.holder { start(host, holder) }
            case (nil, nil): break
            }
        }
    }

    private func start(_ host: String, _ holder: LaneKey) {
        threads.submit { [self] state in
            let found = state == .active ? lookUp(host) : []
            let waiting = self.state.withLock { state in
                state.shares.release(1, of: holder)
                let entry = state.entries[host]
                state.entries[host] = .found(found, until: .now + lifetime)
                if case .pending(_, let waiting)? = entry { return Array(waiting.values) }
                return []
            }
            for continuation in waiting { continuation.resume(returning: .addresses(found)) }
        }
    }

    private func giveUp(_ ticket: Ticket, on host: String) {
        let continuation = state.withLock { state -> CheckedContinuation<Answer, Never>? in
            guard case .pending(let since, var waiting)? = state.entries[host] else { return nil }
            let continuation = waiting.removeValue(forKey: ticket.number)
            state.entries[host] = .pending(since: since, waiting)
            return continuation
        }
        continuation?.resume(returning: .late)
    }

    fileprivate struct Ticket {
        let number: Int
        /// The holder of the thread that must resolve the name; nil if another thread already resolves the name.
        let holder: LaneKey?
    }
}

extension HostNames.State {
    /// - Returns: an immediate answer, or a ticket for the waiting caller.
    fileprivate mutating func begin(
        _ host: String,
        _ organization: UUID,
        _ continuation: CheckedContinuation<HostNames.Answer, Never>,
        _ timeout: Duration,
        _ capacity: Int
    ) -> (HostNames.Answer?, HostNames.Ticket?) {
        let now = ContinuousClock.now
        lastTicket += 1
        switch entries[host] {
        case .found(let addresses, let until)? where now < until: return (.addresses(addresses), nil)
        case .pending(let since, var waiting)?:
            // if a look-up is already late, further callers do not wait for it
            guard since.duration(to: now) < timeout else { return (.late, nil) }
            waiting[lastTicket] = continuation
            entries[host] = .pending(since: since, waiting)
            return (nil, HostNames.Ticket(number: lastTicket, holder: nil))
        case .found?, nil:
            // each look-up has a separate user id, because threads are shared by organization and not by user
            let holder = LaneKey(organization: organization, user: UUID())
            guard shares.mayTake(1, for: holder) else { return (.busy, nil) }
            shares.take(1, for: holder)
            if entries.count >= capacity {
                entries = entries.filter { if case .pending = $0.value { true } else { false } }
            }
            entries[host] = .pending(since: now, [lastTicket: continuation])
            return (nil, HostNames.Ticket(number: lastTicket, holder: holder))
        }
    }
}

/// Resolves host names with the system's resolver.
package enum HostAddresses {
    /// Resolves the names of webhooks and databases. Callers limit the number of names for each organization.
    private static let names = HostNames(lifetime: .zero)

    /// Returns the addresses of a name. If `host` is an address, the result is this address.
    ///
    /// The result is empty if there are no addresses, or if the system's resolver does not respond in time.
    package static func of(_ host: String) async -> [IPAddress] {
        // each look-up counts as a separate organization, so that all look-ups have equal shares of the threads
        let holder = UUID()
        guard case .addresses(let found) = await names.addresses(of: host, for: holder) else { return [] }
        return found
    }

    /// Resolves a name. Blocks its thread until the system's resolver has answered.
    package static func lookUp(_ host: String) -> [IPAddress] {
        var hints = addrinfo()
        hints.ai_family = AF_UNSPEC
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        var first: UnsafeMutablePointer<addrinfo>?
        guard getaddrinfo(host, nil, &hints, &first) == 0 else { return [] }
        defer { freeaddrinfo(first) }
        var found: [IPAddress] = []
        var next = first
        while let info = next?.pointee {
            if let address = address(info), !found.contains(address) { found.append(address) }
            next = info.ai_next
        }
        return found
    }

    private static func address(_ info: addrinfo) -> IPAddress? {
        guard let address = info.ai_addr else { return nil }
        switch info.ai_family {
        case AF_INET:
            return address.withMemoryRebound(to: sockaddr_in.self, capacity: 1) { address in
                withUnsafeBytes(of: address.pointee.sin_addr) { IPAddress(bytes: Array($0)) }
            }
        case AF_INET6:
            return address.withMemoryRebound(to: sockaddr_in6.self, capacity: 1) { address in
                // the scope is omitted, because an address that is valid on only one link is not a public address
                withUnsafeBytes(of: address.pointee.sin6_addr) { IPAddress(bytes: Array($0)) }
            }
        default: return nil
        }
    }
}
