import Foundation
import JSONText
import StoreSupport
import SyncModel
import TestSupport
import Testing

@testable import SyncStore

/// Devices count their own ids, lose answers, repeat requests, are restored from backups, and are wiped. In the end,
/// each device has the same graph under its own ids (specification 002, docs/spec).
@Suite(.serialized) struct PropertyDeviceIDTests {
    @Test(arguments: 1...4)
    func `every device sees the same graph under its own IDs`(_ run: Int) async throws {
        // the last run uses encryption at rest, which must not change the result
        let masterKeys = run == 4 ? TestKeys.first : nil
        let seed = Seed()
        var generator = SeededRandom(seed.value &+ UInt64(run))
        let replicas = try await GatewayPair(masterKeys: masterKeys)
        // the same devices and users in two organizations in parallel
        let people = (0..<2).map { _ in generator.uuid() }
        let devices = (0..<4).map { _ in generator.uuid() }
        var worlds: [DeviceWorld] = []
        for _ in 0..<2 {
            let organization = try await folderOrganization(replicas.base)
            let clients = devices.enumerated().map { OfflineClient(device: $1, user: people[$0 % 2]) }
            worlds.append(DeviceWorld(replicas, organization, clients, generator.split()))
        }
        let comment = "\(seed), run \(run)"
        try await withThrowingTaskGroup(of: Void.self) { group in
            for world in worlds {
                group.addTask {
                    do {
                        try await world.live(steps: 150)
                    } catch {
                        Issue.record("\(comment): \(error)")
                    }
                }
            }
            try await group.waitForAll()
        }
        for world in worlds {
            let clients = await world.clients
            let reader = Phone(replicas.base, world.organization, user: people[0])
            let expected = serverGraph(try await reader.pull())
            #expect(!expected.isEmpty, "\(comment)")
            for client in clients { #expect(client.graph == expected, "\(comment), device \(client.device)") }
        }
    }
}

/// The devices of one organization. One generator draws their actions, step by step. Two concurrent requests always
/// come from one device.
private actor DeviceWorld {
    let organization: Organization
    private(set) var clients: [OfflineClient]
    private let replicas: GatewayPair
    private var generator: SeededRandom
    private var backups: [Int: OfflineClient] = [:]
    /// The bodies of earlier pulls, which may arrive again.
    private var sent: [Int: [String]] = [:]
    /// Each device's actions and answers, for the analysis of a failure.
    private var diaries: [Int: [String]] = [:]

    /// The end of a device's diary.
    func diary(_ place: Int) -> String { (diaries[place] ?? []).suffix(30).joined(separator: "\n") }

    private func record(_ place: Int, _ what: String) {
        let client = clients[place]
        diaries[place, default: []].append("\(what) [next \(client.next), \(client.cursor ?? "-")]")
    }

    private func acknowledge(_ place: Int, _ answer: JSONValue) throws {
        do {
            try clients[place].acknowledge(answer)
        } catch {
            throw OfflineClient.Fault(description: "\(error)\n\(diary(place))")
        }
    }

    private func apply(_ place: Int, _ page: JSONValue, sent: [String: Int64]) throws -> Bool {
        let isUpToDate = try clients[place].apply(page, sent: sent)
        record(place, "offered \(page.text)")
        return isUpToDate
    }

    init(_ replicas: GatewayPair, _ organization: Organization, _ clients: [OfflineClient], _ generator: SeededRandom) {
        self.replicas = replicas
        self.organization = organization
        self.clients = clients
        self.generator = generator
    }

    func live(steps: Int) async throws {
        for _ in 0..<steps {
            let place = Int.random(in: clients.indices, using: &generator)
            switch Int.random(in: 0..<100, using: &generator) {
            case ..<45: work(place)
            case ..<65: try await push(place)
            case ..<88: try await pull(place)
            case ..<92: try await pushAndPullAtOnce(place)
            case ..<95: backups[place] = clients[place].outbox.isEmpty ? clients[place] : backups[place]
            case ..<97: try await restore(place)
            case ..<98: wipe(place)
            default: await echo(place)
            }
        }
        // from here on all answers arrive; the remaining mutations are sent before everything is pulled
        for place in clients.indices {
            while !clients[place].outbox.isEmpty {
                let answer = try await clients[place].push(7, through: replicas[0], organization)
                try acknowledge(place, answer)
            }
        }
        for place in clients.indices {
            var isUpToDate = false
            while !isUpToDate {
                let client = clients[place]
                let page = try await client.pull(client.pullBody(limit: 9), through: replicas[1], organization)
                isUpToDate = try apply(place, page, sent: client.next)
            }
        }
    }

    // MARK: - Steps

    private func work(_ place: Int) {
        let keys = clients[place].objects.keys.sorted()
        let folders = keys.filter { $0.type == "folder" }.map(\.number)
        let tasks = keys.filter { $0.type == "task" }.map(\.number)
        let value = Int64.random(in: 0...999, using: &generator)
        let folder = generator.chance(70) ? folders.randomElement(using: &generator) : nil
        switch Int.random(in: 0..<10, using: &generator) {
        case ..<2: clients[place].create("folder", folder: folder, value: value)
        case ..<6:
            let count = Int.random(in: 0...3, using: &generator)
            let related = (0..<count).compactMap { _ in tasks.randomElement(using: &generator) }
            clients[place].create("task", folder: folder, related: related, value: value)
        case ..<9:
            guard let key = keys.randomElement(using: &generator) else { return }
            clients[place].update(key, value: value, folder: generator.chance(50) ? .some(folder) : nil)
        default:
            if let key = keys.randomElement(using: &generator) { clients[place].delete(key) }
        }
    }

    private func push(_ place: Int) async throws {
        guard !clients[place].outbox.isEmpty else { return }
        let count = Int.random(in: 1...8, using: &generator)
        let answer = try await clients[place].push(count, through: replicas.random(&generator), organization)
        // the answer is lost, so the push is sent again, together with later mutations
        record(place, "push \(clients[place].outbox.prefix(count).map(\.json))")
        if generator.chance(75) { try acknowledge(place, answer) }
    }

    private func pull(_ place: Int) async throws {
        let client = clients[place]
        let body = client.pullBody(limit: Int.random(in: 1...6, using: &generator))
        sent[place, default: []].append(body)
        var page = try await client.pull(body, through: replicas.random(&generator), organization)
        if generator.chance(20) {
            // the request is sent twice, and one of the two answers arrives
            let other = try await client.pull(body, through: replicas.random(&generator), organization)
            if generator.chance(50) { page = other }
        }
        record(place, "pull \(body)")
        if generator.chance(15) { return record(place, "lost \(page.text)") }
        // the user continues to work before the answer arrives
        if generator.chance(20) { work(place) }
        _ = try apply(place, page, sent: client.next)
    }

    private func pushAndPullAtOnce(_ place: Int) async throws {
        let client = clients[place]
        guard !client.outbox.isEmpty else { return }
        let count = Int.random(in: 1...8, using: &generator)
        let body = client.pullBody(limit: 4)
        let (first, second) = (replicas.random(&generator), replicas.random(&generator))
        async let answer = client.push(count, through: first, organization)
        async let page = client.pull(body, through: second, organization)
        record(place, "push \(client.outbox.prefix(count).map(\.json)) and pull \(body)")
        try acknowledge(place, try await answer)
        _ = try apply(place, try await page, sent: client.next)
    }

    /// Restores a backup, which loses the later mutations that were not pushed. The registration returns the number
    /// after which the device continues.
    private func restore(_ place: Int) async throws {
        guard var client = backups[place], client.device == clients[place].device else { return }
        client.madeCount = clients[place].madeCount
        let (_, device) = try await replicas.random(&generator).store.devices.register(
            client.device,
            organization: organization,
            user: client.user
        )
        client.lastSequence = device.acceptedSequence
        for (type, next) in device.nextLocalIDs where ["folder", "task"].contains(type) {
            client.next[type] = max(client.next[type] ?? 1, next ?? 1)
        }
        clients[place] = client
        record(place, "restored")
    }

    /// Installs the app again, which makes the phone a new device.
    private func wipe(_ place: Int) {
        clients[place] = OfflineClient(device: generator.uuid(), user: clients[place].user)
        backups[place] = nil
        sent[place] = nil
    }

    /// A proxy delivers a pull that was sent long ago. The answer or the refusal is ignored.
    private func echo(_ place: Int) async {
        guard let body = sent[place]?.randomElement(using: &generator) else { return }
        let page = try? await clients[place].pull(body, through: replicas.random(&generator), organization)
        record(place, "echo of \(body): \(page?.text ?? "refused")")
    }
}
