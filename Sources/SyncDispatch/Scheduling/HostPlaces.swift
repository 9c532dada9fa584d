package import FoundationEssentials

/// The measured response time of an organization's host, as a class.
package enum HostPace: Sendable, Hashable {
    case fast
    /// No request was answered yet, or the measurement was evicted.
    case unmeasured
    case slow
}

/// Places for work that sends requests to organizations' hosts, with limits that prevent slow hosts from taking all
/// places.
///
/// A holder has a *place* while it reads or writes the database, or has just sent a request. If the request remains
/// unanswered for a while, the holder *awaits an answer*: it releases its place, and counts only towards the limit of
/// requests, which is larger. As a result, a slow host cannot keep a place occupied.
///
/// Three rules keep capacity free for other organizations (product rule 16):
/// - If an organization already has holders, it gets another holder only if afterwards at least as many requests are
///   free as the organization has holders.
/// - Organizations with slow hosts together have at most three quarters of the requests. For the first holders of
///   organizations with unmeasured hosts, the limit is seven eighths. The rest is reserved for fast hosts.
/// - Organizations with slow hosts together take at most half of the places.
///
/// While a holder of an organization awaits an answer, the organization's host counts as slow, regardless of earlier
/// measurements. The caller measures the response times.
package struct HostPlaces<Holder: Hashable & Sendable>: Sendable {
    struct Limits: Sendable {
        /// The maximum number of holders that work concurrently.
        let places: Int
        /// The maximum number of all holders: those that work, and those that await an answer.
        let requests: Int

        init(places: Int, requests: Int? = nil) {
            self.places = max(1, places)
            self.requests = max(1, requests ?? Self.requests(places: places))
        }

        /// The default maximum number of requests.
        static func requests(places: Int) -> Int { max(4_096, 4 * places) }

        var maxConcurrentSlow: Int { max(1, places / 2) }
        var requestsOfSlow: Int { max(1, requests / 4 * 3) }
        var requestsOfSlowAndUnmeasured: Int { max(1, requests / 8 * 7) }
    }

    /// The number of holders of one pace or of one organization.
    private struct Usage {
        var working = 0
        var awaiting = 0

        var held: Int { working + awaiting }
    }

    private struct Organization {
        var usage = Usage()
        var measured = HostPace.unmeasured

        var pace: HostPace { usage.awaiting > 0 ? .slow : measured }
    }

    private struct Hold {
        let organization: UUID
        var isAwaiting = false
    }

    /// If this number of organizations is reached, the measurements of all organizations without holders are evicted.
    private static var capacity: Int { 20_000 }

    let limits: Limits
    private var organizations: [UUID: Organization] = [:]
    private var holds: [Holder: Hold] = [:]
    private var fast = Usage()
    private var unmeasured = Usage()
    private var slow = Usage()

    init(_ limits: Limits) {
        self.limits = limits
    }

    // MARK: - Counts

    /// The number of all holders.
    package var count: Int { holds.count }
    /// The number of holders that have a place.
    var working: Int { fast.working + unmeasured.working + slow.working }
    /// The number of holders that await an answer, and have no place.
    package var awaiting: Int { slow.awaiting }
    /// The number of holders of all organizations whose hosts are slow.
    var heldBySlow: Int { slow.held }

    package func holds(_ holder: Holder) -> Bool { holds[holder] != nil }

    func held(by organization: UUID) -> Int { organizations[organization]?.usage.held ?? 0 }

    func pace(of organization: UUID) -> HostPace { organizations[organization]?.pace ?? .unmeasured }

    // MARK: - Decisions

    /// Whether an organization could get a place now, depending on whether its host is slow.
    package func hasRoom(isSlow: Bool) -> Bool {
        guard count < limits.requests else { return false }
        if isSlow {
            return slow.working < limits.maxConcurrentSlow && working < limits.places
                && slow.held < limits.requestsOfSlow
        }
        // slow holders resume their work when their answers arrive, even if they then exceed their half of the places;
        // the other half remains available
        return fast.working + unmeasured.working + min(slow.working, limits.maxConcurrentSlow) < limits.places
            || limits.places == 1 && working == 0
    }

    /// Whether an organization may get one more place.
    func mayTake(_ id: UUID) -> Bool {
        let organization = organizations[id] ?? Organization()
        let pace = organization.pace
        guard hasRoom(isSlow: pace == .slow) else { return false }
        let own = organization.usage
        if pace == .unmeasured {
            // if the organization is later measured as slow, all of its holders count as slow
            let most = own.held > 0 ? limits.requestsOfSlow : limits.requestsOfSlowAndUnmeasured
            guard slow.held + unmeasured.held < most else { return false }
        }
        guard own.held > 0 else { return true }
        return own.held + 1 <= limits.requests - count - 1
    }

    // MARK: - Changes

    /// Assigns a place to a holder, regardless of its organization's limit.
    mutating func take(_ holder: Holder, of organization: UUID) {
        guard holds[holder] == nil else { return }
        holds[holder] = Hold(organization: organization)
        change(organization) { $0.usage.working += 1 }
    }

    /// Releases the place of a holder whose request has been unanswered for a while. See ``resume(_:)``.
    mutating func startAwaiting(_ holder: Holder) {
        guard var hold = holds[holder], !hold.isAwaiting else { return }
        hold.isAwaiting = true
        holds[holder] = hold
        change(hold.organization) { organization in
            organization.usage.working -= 1
            organization.usage.awaiting += 1
        }
    }

    /// Assigns a place to a holder again after its request was answered.
    mutating func resume(_ holder: Holder) {
        guard var hold = holds[holder], hold.isAwaiting else { return }
        hold.isAwaiting = false
        holds[holder] = hold
        change(hold.organization) { organization in
            organization.usage.working += 1
            organization.usage.awaiting -= 1
        }
    }

    /// Removes a holder and releases its place.
    package mutating func release(_ holder: Holder) {
        resume(holder)
        guard let hold = holds.removeValue(forKey: holder) else { return }
        change(hold.organization) { $0.usage.working -= 1 }
    }

    /// Records the measured pace of an organization's host.
    mutating func setPace(_ id: UUID, _ pace: HostPace) {
        if organizations.count >= Self.capacity, organizations[id] == nil {
            organizations = organizations.filter { $0.value.usage.held > 0 }
        }
        change(id) { $0.measured = pace }
    }

    /// Applies an event of the clock.
    package mutating func apply(_ event: HostClock<Holder>.Event) {
        switch event {
        case .awaits(let holder): startAwaiting(holder)
        case .answered(let holder): resume(holder)
        case .pace(let organization, let pace): setPace(organization, pace)
        }
    }

    /// Assigns places to candidates. Organizations take turns in random order, with one candidate per turn.
    ///
    /// - Parameters:
    ///   - candidates: the candidates by organization. In each list, the last candidate is the first to get a place.
    ///   - share: the maximum number of holders of an organization.
    /// - Returns: the candidates that got places, and whether other candidates got none because too many places are
    ///   taken.
    package mutating func choose(
        _ candidates: [UUID: [Holder]],
        atMost share: Int
    ) -> (chosen: [Holder], isCrowded: Bool) {
        var (waiting, chosen, isCrowded) = (candidates, [Holder](), false)
        while !waiting.isEmpty {
            for organization in waiting.keys.shuffled() {
                guard held(by: organization) < share, let holder = waiting[organization]?.last else {
                    waiting[organization] = nil
                    continue
                }
                guard mayTake(organization) else {
                    waiting[organization] = nil
                    isCrowded = true
                    continue
                }
                waiting[organization]?.removeLast()
                take(holder, of: organization)
                chosen.append(holder)
            }
        }
        return (chosen, isCrowded)
    }

    private mutating func change(_ id: UUID, _ change: (inout Organization) -> Void) {
        var organization = organizations[id] ?? Organization()
        account(organization, -1)
        change(&organization)
        account(organization, 1)
        let isForgotten = organization.usage.held == 0 && organization.measured == .unmeasured
        organizations[id] = isForgotten ? nil : organization
    }

    private mutating func account(_ organization: Organization, _ sign: Int) {
        func add(_ usage: inout Usage) {
            usage.working += sign * organization.usage.working
            usage.awaiting += sign * organization.usage.awaiting
        }
        switch organization.pace {
        case .fast: add(&fast)
        case .unmeasured: add(&unmeasured)
        case .slow: add(&slow)
        }
    }
}
