import Foundation
import GRDB

@testable import SluiceClient

/// Six phones of two users, and all faults that affect them.
final class Fleet {
    /// The action of a step.
    private enum Step: CaseIterable {
        case edit, synchronize, decide, restart, kill, jump, takeBackup, restoreBackup
        case backUpGateway, restoreGateway, lose, twin

        /// The frequency in a hundred steps.
        var frequency: Int {
            switch self {
            case .edit: 51
            case .synchronize: 26
            case .decide: 8
            case .restart: 3
            case .kill: 3
            case .jump: 2
            case .takeBackup: 2
            case .restoreBackup, .backUpGateway, .restoreGateway, .lose, .twin: 1
            }
        }

        static let hundred = allCases.flatMap { Array(repeating: $0, count: $0.frequency) }
    }

    static func entities(forwards: Bool) -> [EntitySync] {
        [
            Customer.sync(forwards: forwards), Meeting.sync(forwards: forwards), Shelf.sync(forwards: forwards),
            Item.sync(forwards: forwards), Memo.sync,
        ]
    }

    let forwards: Bool
    let proxy: FaultyProxy
    let views: [GatewayView]
    let upstream: UpstreamLog
    private(set) var phones: [FleetPhone] = []
    private(set) var ledger = FleetLedger()
    private(set) var random: SplitMix
    private var counter = 0
    private let gateway: TestGateway
    private let direct: FaultyProxy
    private var gatewayBackup: GatewayBackup?
    /// Whether disasters happen: deletions of rows to which others refer, a restored gateway, a lost phone, and two
    /// phones from one backup. False with a REST API behind the gateway, which has its own rules for disasters.
    let hasDisasters: Bool

    /// Restores of a gateway reach back to the beginning, independent of the phones' clocks.
    static func keep(forwards: Bool) -> Duration { .seconds((forwards ? 7 : 36_500) * 86_400) }

    /// - Parameter forwards: whether forwardable types go to the demo upstream, or all types to the built-in store.
    init(seed: UInt64, forwards: Bool, hasDisasters: Bool) async throws {
        self.forwards = forwards
        self.hasDisasters = hasDisasters && !forwards
        random = SplitMix(state: seed)
        let upstream = UpstreamLog()
        self.upstream = upstream
        gateway = try await TestGateway.start(forwards: forwards) { upstream.note($0) }
        let organization = try await gateway.makeOrganization()
        for (type, body) in Self.registrations(hasDisasters: self.hasDisasters) {
            let place = #""visibility":"organization","upstream":\#(forwards && type != "memo")"#
            try await gateway.register(type, "{\(place)\(body)}", in: organization)
        }
        let proxy = try FaultyProxy(to: gateway.url.port ?? 0, rate: 0.25, SplitMix(state: seed &+ 1))
        self.proxy = proxy
        let direct = try FaultyProxy(to: gateway.url.port ?? 0, rate: 0, SplitMix(state: 0))
        self.direct = direct
        let users = [UUID(), UUID()]
        var views: [GatewayView] = []
        for user in users {
            let token = try await gateway.token(organization: organization, user: user)
            views.append(GatewayView(url: direct.url, token: token))
        }
        self.views = views
        let entities = Self.entities(forwards: forwards)
        for index in 0..<6 {
            let user = users[index % 2]
            let phone = try await FleetPhone(index, user: user) { [gateway] file, clock in
                try await TestPhone(
                    gateway,
                    organization: organization,
                    user: user,
                    entities: entities,
                    file: file,
                    through: proxy.url,
                    migrator: .fleet
                ) { configuration in
                    configuration.pageLimit = 20
                    configuration.keep = Self.keep(forwards: forwards)
                    configuration.now = { clock.now }
                }
            }
            phones.append(phone)
        }
    }

    /// The types.
    ///
    /// Without disasters no phone deletes a row to which others refer. With disasters the default rule of relations
    /// applies, because the app's own tables could not show a reference to a deleted row.
    private static func registrations(hasDisasters: Bool) -> [(String, String)] {
        func ignoring(_ members: String...) -> String {
            let rules = members.map { #""\#($0)":"ignore""# }.joined(separator: ",")
            return hasDisasters ? "" : #","on_delete":{\#(rules)}"#
        }
        return [
            ("customer", ""), ("shelf", #","id_space":"device""#),
            ("meeting", #","relations":{"customer_id":"customer"}"# + ignoring("customer_id")),
            ("item", #","id_space":"device","relations":{"shelf_id":"shelf"}"# + ignoring("shelf_id")),
            (
                "memo",
                #","id_space":"shared","relations":{"customer_id":"customer","shelf_id":"shelf"}"#
                    + ignoring("customer_id", "shelf_id")
            ),
        ]
    }

    /// Removes the phones' files.
    func remove() { for phone in phones { phone.remove() } }

    // MARK: - Steps

    func run(steps: Int) async throws {
        var coming: [Step] = []
        for number in 1...steps {
            if number % 500 == 0 { note("phones: step \(number)") }
            if coming.isEmpty { coming = Step.hundred.shuffled(using: &random) }
            let used = phones.filter { !$0.isLost }
            let phone = used[Int.random(in: 0..<used.count, using: &random)]
            let step = coming.removeLast()
            do { try await take(step, on: phone, of: used) } catch {
                note("phones: step \(number), \(step) of phone \(phone.index), failed; its file is \(phone.file.path)")
                throw error
            }
        }
        for phone in phones { try await ledger.note(phone) }
        for phone in phones where phone.isLost { ledger.noteLost(phone) }
    }

    private func take(_ step: Step, on phone: FleetPhone, of used: [FleetPhone]) async throws {
        switch step {
        case .edit: try await edit(phone)
        case .synchronize:
            let timeout = Int.random(in: 1...300, using: &random)
            _ = await phone.app.client.syncOnce(deadline: .milliseconds(timeout))
        // on any phone, because a conflict blocks all of its user's mutations
        case .decide: for phone in used { _ = try await decide(phone) }
        case .restart: try await phone.restart()
        case .kill: try await kill(phone)
        case .jump: phone.clock.jump(jump())
        case .takeBackup: try phone.takeBackup()
        case .restoreBackup: try await restore(phone)
        case .backUpGateway: if hasDisasters { gatewayBackup = try await gateway.backup() }
        case .restoreGateway: try await restoreGateway()
        case .lose: try await lose(phone)
        case .twin: try await twin(phone)
        }
    }

    // MARK: - Disasters

    private func restoreGateway() async throws {
        guard let backup = gatewayBackup else { return }
        gatewayBackup = nil
        while proxy.isBusy { try await Task.sleep(for: .milliseconds(2)) }
        try await gateway.restore(backup)
        for proxy in [proxy, direct] { proxy.retarget(to: gateway.url.port ?? 0) }
        // a phone that is restored beyond its gateway's backup has neither the new ids nor the old ones
        for phone in phones { phone.dropBackup() }
        note("phones: the gateway is restored")
    }

    /// Loses one of the first phones, so that its user has others.
    private func lose(_ phone: FleetPhone) async throws {
        guard hasDisasters, !phones.contains(where: \.isLost) else { return }
        try await ledger.note(phone)
        phone.lose()
        note("phones: phone \(phone.index) is lost")
    }

    private func twin(_ phone: FleetPhone) async throws {
        guard hasDisasters, phones.count < 8 else { return }
        try await ledger.note(phone)
        let twin = try await phone.twin(phones.count)
        phones.append(twin)
        try await ledger.noteTwin(twin)
        note("phones: phone \(phones.count - 1) is set up from phone \(phone.index)")
    }

    private func edit(_ phone: FleetPhone) async throws {
        counter += 1
        let edit = FleetEdit(
            mark: "\(phone.index)-\(counter)",
            forwards: forwards,
            deletesParents: hasDisasters,
            using: &random
        )
        try await edit.make(on: phone.app.pool, phone.app.client)
    }

    /// Returns a time difference of hours or years, forward or back.
    private func jump() -> TimeInterval {
        let unit: TimeInterval = Bool.random(using: &random) ? 3_600 : 365 * 86_400
        return unit * Double(Int.random(in: -5...5, using: &random))
    }

    /// The app continues in a separate process, which is killed.
    private func kill(_ phone: FleetPhone) async throws {
        let orders = KilledFleetPhone.Orders(
            file: phone.file.path,
            gateway: proxy.url.absoluteString,
            token: views[phone.user == phones[0].user ? 0 : 1].token,
            forwards: forwards,
            deletesParents: hasDisasters,
            secondsAhead: phone.clock.secondsAhead,
            mark: "\(phone.index)-",
            counter: counter,
            seed: random.next(),
            end: KilledFleetPhone.End.random(using: &random)
        )
        counter += KilledFleetPhone.edits
        try await phone.restart { try await KilledFleetPhone.run(orders) }
        try await ledger.note(phone)
    }

    /// A backup is restored long after the phone's last request has arrived.
    private func restore(_ phone: FleetPhone) async throws {
        try await ledger.note(phone)
        while proxy.isBusy { try await Task.sleep(for: .milliseconds(2)) }
        guard try await phone.restoreBackup() else { return }
        gatewayBackup = nil
        try await ledger.noteRestored(phone)
    }

    /// A user settles an unsuccessful mutation that the phone shows, possibly offline.
    ///
    /// - Returns: whether the phone shows an unsuccessful mutation.
    func decide(_ phone: FleetPhone) async throws -> Bool {
        let client = phone.app.client
        guard let write = try await phone.failedWrites().randomElement(using: &random) else { return false }
        let dependents: Dependents = Bool.random(using: &random) ? .discard : .keep
        do {
            switch (write.reason, Int.random(in: 0..<3, using: &random)) {
            case (.conflict, 0): try await client.resolve(write.id, .server)
            case (.conflict, 1): try await client.resolve(write.id, .client)
            case (_, 0): try await client.retry(write.id)
            default: try await client.discard(write.id, dependents: dependents)
            }
        } catch is SluiceError {
            // the mutation's state has changed
        }
        return true
    }
}

/// The upstream's report of its requests.
final class UpstreamLog: Sendable {
    private let lines = Locked<[String]>([])

    func note(_ line: String) { lines.withLock { $0.append(line) } }

    /// The effects at the upstream, in order: for each of its documents the marks of the requests, or `DELETE`.
    var history: [String: [String]] {
        var history: [String: [String]] = [:]
        for line in lines.withLock({ $0 }) {
            // upstream: PATCH /customers/3 → 200 (remark)  {"_":"0-12",…
            guard
                let match = line.firstMatch(
                    of:
                        /^upstream: (POST|PUT|PATCH|DELETE) (\/[a-z]+)(?:\/([0-9]+))? → (20[014])(?: \((.*?)\))?(?:  (.*))?$/
                ), !(match.5?.hasPrefix("repeated") ?? false)
            else { continue }
            let made = (match.5 ?? "").split(separator: " ").last ?? ""
            let id = match.3 ?? made
            let mark = match.6?.firstMatch(of: /"_":"([^"]*)"/)?.1
            history["\(match.2)/\(id)", default: []].append(String(mark ?? match.1))
        }
        return history
    }
}
