import Foundation
import GatewaySupport
import TestSupport
import Testing

/// What happens to a load while gateways and Postgres are killed under it.
@Suite(.serialized, .timeLimit(.minutes(10))) struct CrashTests {
    /// Two replicas; the one, the other or both are killed as by the system, and started again.
    @Test(arguments: [UInt64.random(in: 0...999_999)])
    func `gateways that are killed lose nothing and repeat nothing`(seed: UInt64) async throws {
        let database = try await LiveGateway.migratedDatabase()
        let gateways = [
            try await GatewayProcess.start(database: database.uri),
            try await GatewayProcess.start(database: database.uri),
        ]
        let load = try await Load(seed: seed, on: database, gateways: gateways)
        try await load.run(
            [[0], [1], [0, 1], [1], [0], [0, 1]].map { victims in
                {
                    for victim in victims { try await gateways[victim].crash() }
                    for victim in victims { try gateways[victim].restart() }
                }
            }
        )
        #expect(await load.setbacks > 0, "the load has met the crashes")
        for gateway in gateways { try await gateway.waitUntilReady() }
        try await load.expectAllOnceAndInOrder()
        for gateway in gateways {
            #expect(try await gateway.terminate() == 0)
            #expect(gateway.log == "", "nothing that deserves an operator's look")
        }
    }

    /// Postgres cuts its clients off in good order, as in a crash, and by a kill of its main process; the gateways stay.
    @Test(arguments: [UInt64.random(in: 0...999_999)])
    func `a Postgres that crashes loses nothing that was acknowledged`(seed: UInt64) async throws {
        let cluster = try await TestCluster.dedicated(isDurable: true)
        let database = try await LiveGateway.migratedDatabase(on: cluster)
        let gateways = [
            try await GatewayProcess.start(database: database.uri),
            try await GatewayProcess.start(database: database.uri),
        ]
        let load = try await Load(seed: seed, on: database, gateways: gateways)
        try await load.run([
            { try await cluster.restart(immediate: true) },
            { try await cluster.restart() },
            {
                try await cluster.kill()
                try await cluster.start()
            },
            {
                // all of it at once
                try await gateways[0].crash()
                try await cluster.restart(immediate: true)
                try gateways[0].restart()
            },
        ])
        #expect(await load.setbacks > 0, "the load has met the crashes")
        for gateway in gateways { try await gateway.waitUntilReady() }
        try await load.expectAllOnceAndInOrder()
        for gateway in gateways {
            #expect(try await gateway.terminate() == 0)
            #expect(gateway.log == "", "nothing that deserves an operator's look")
        }
        await cluster.close()
    }
}
