import Foundation
import GRDB
import Testing

@testable import SluiceClient

#if canImport(Glibc)
    import Glibc
#endif

/// A phone's app in a separate process that is killed. This happens at a random time, or right before or after an
/// SQLite commit of the app or the library.
enum KilledFleetPhone {
    /// The maximum number of edits of the process.
    static let edits = 8

    enum End: Codable {
        case afterMilliseconds(Int)
        case beforeCommit(Int)
        case behindCommit(Int)

        static func random(using random: inout some RandomNumberGenerator) -> End {
            switch Int.random(in: 0..<3, using: &random) {
            case 0: .afterMilliseconds(Int.random(in: 0...200, using: &random))
            case 1: .beforeCommit(Int.random(in: 1...30, using: &random))
            default: .behindCommit(Int.random(in: 1...30, using: &random))
            }
        }
    }

    struct Orders: Codable {
        let file: String
        let gateway: String
        let token: String
        let forwards: Bool
        let deletesParents: Bool
        let secondsAhead: TimeInterval
        /// The prefix of marks, and the last number used.
        let mark: String
        let counter: Int
        let seed: UInt64
        let end: End
    }

    /// Runs the process to its end.
    static func run(_ orders: Orders) async throws {
        let text = String(decoding: try JSONEncoder().encode(orders), as: UTF8.self)
        let end = try await OwnProcess.run("KilledFleetPhoneTests", [variable: text])
        #expect(end == .killed, "a phone's process was not killed, but \(end)")
    }

    private static let variable = "SLUICE_TEST_FLEET_PHONE"

    /// The orders of this process, if it was started as such a phone.
    static let orders = ProcessInfo.processInfo.environment[variable].flatMap {
        try? JSONDecoder().decode(Orders.self, from: Data($0.utf8))
    }

    /// Edits and synchronizes until the process is killed.
    static func live(_ orders: Orders) async throws {
        let clock = FleetClock()
        clock.jump(orders.secondsAhead)
        let pool = try DatabasePool(path: orders.file)
        switch orders.end {
        case .beforeCommit(let number): pool.add(transactionObserver: Death(before: number), extent: .databaseLifetime)
        case .behindCommit(let number): pool.add(transactionObserver: Death(behind: number), extent: .databaseLifetime)
        case .afterMilliseconds(let milliseconds):
            Thread.detachNewThread {
                usleep(UInt32(milliseconds * 1_000))
                die()
            }
        }
        var configuration = SluiceClient.Configuration()
        configuration.usesEvents = false
        configuration.pageLimit = 20
        configuration.keep = Fleet.keep(forwards: orders.forwards)
        configuration.now = { clock.now }
        let client = try SluiceClient(
            database: pool,
            gateway: try #require(URL(string: orders.gateway)),
            entities: Fleet.entities(forwards: orders.forwards),
            configuration: configuration
        ) { orders.token }
        client.resume()
        var random = SplitMix(state: orders.seed)
        for number in 1...edits {
            let mark = "\(orders.mark)\(orders.counter + number)"
            let edit = FleetEdit(
                mark: mark,
                forwards: orders.forwards,
                deletesParents: orders.deletesParents,
                using: &random
            )
            try await edit.make(on: pool, client)
            try await Task.sleep(for: .milliseconds(Int.random(in: 0...20, using: &random)))
        }
        _ = await client.syncOnce(deadline: .milliseconds(300))
        die()
    }

    private static func die() { kill(getpid(), SIGKILL) }

    /// Kills the process right before or after a commit.
    private final class Death: TransactionObserver, @unchecked Sendable {
        // used on the writer's queue only
        private var before: Int
        private var behind: Int

        init(before: Int = .max, behind: Int = .max) { (self.before, self.behind) = (before, behind) }

        func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool { true }
        func databaseDidChange(with event: DatabaseEvent) {}
        func databaseDidRollback(_ db: Database) {}

        func databaseWillCommit() throws {
            before -= 1
            if before == 0 { die() }
        }

        func databaseDidCommit(_ db: Database) {
            behind -= 1
            if behind == 0 { die() }
        }
    }
}

/// The code of such a phone's process. It is not a test.
@Suite struct KilledFleetPhoneTests {
    @Test(.enabled(if: KilledFleetPhone.orders != nil)) func `runs a phone of the fleet in its process`() async throws {
        if let orders = KilledFleetPhone.orders { try await KilledFleetPhone.live(orders) }
    }
}
